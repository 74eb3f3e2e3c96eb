/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates for the GPU of this machine, as cubins. It needs the CUDA driver alone. EDGETUNE_CUDA_DRIVER names another
 * libcuda.so.1.
 */
#define _GNU_SOURCE
#include "common.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LAUNCHES = 16, MOST_ARGUMENTS = 64 };

typedef uint64_t DevicePointer;

static struct {
    int (*init)(unsigned), (*version)(int *), (*device)(int *, int), (*name)(char *, int, int), (*attribute)(int *, int, int);
    int (*context)(void **, unsigned, int), (*load)(void **, const void *), (*function)(void **, void *, const char *);
    int (*alloc)(DevicePointer *, size_t), (*to_device)(DevicePointer, const void *, size_t);
    int (*to_host)(void *, DevicePointer, size_t), (*fill)(DevicePointer, unsigned char, size_t);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    int (*fill_later)(DevicePointer, unsigned char, size_t, void *), (*synchronize)(void), (*event)(void **, unsigned);
    int (*record)(void *, void *), (*wait)(void *), (*elapsed)(float *, void *, void *), (*function_attribute)(void *, int, int);
} cuda;

typedef struct {
    char kernel[512];
    unsigned grid[3], block[3], dynamic, arguments, buffer[MOST_ARGUMENTS];
    size_t offset[MOST_ARGUMENTS];
} Launch;

static Launch launch[MOST_LAUNCHES];
static unsigned launches;
static DevicePointer place[MOST_BUFFERS];
static void *functions[MOST_LAUNCHES], *start, *end;
static int least_capability, part_major, toolkit;

static void load_driver(void)
{
    const char *path = getenv("EDGETUNE_CUDA_DRIVER");
    void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    const struct { void *at; const char *name; } wanted[] = {
        {&cuda.init, "cuInit"}, {&cuda.version, "cuDriverGetVersion"}, {&cuda.device, "cuDeviceGet"},
        {&cuda.name, "cuDeviceGetName"}, {&cuda.attribute, "cuDeviceGetAttribute"}, {&cuda.context, "cuCtxCreate_v2"},
        {&cuda.load, "cuModuleLoadData"}, {&cuda.function, "cuModuleGetFunction"}, {&cuda.alloc, "cuMemAlloc_v2"},
        {&cuda.to_device, "cuMemcpyHtoD_v2"}, {&cuda.to_host, "cuMemcpyDtoH_v2"}, {&cuda.fill, "cuMemsetD8_v2"},
        {&cuda.launch, "cuLaunchKernel"}, {&cuda.synchronize, "cuCtxSynchronize"}, {&cuda.event, "cuEventCreate"},
        {&cuda.record, "cuEventRecord"}, {&cuda.wait, "cuEventSynchronize"}, {&cuda.elapsed, "cuEventElapsedTime"},
        {&cuda.function_attribute, "cuFuncSetAttribute"}, {&cuda.fill_later, "cuMemsetD8Async"},
    };

    if (!library)
        stop(UNAVAILABLE, "this machine has no CUDA driver (libcuda.so.1): run the bundle on a machine with an NVIDIA GPU");
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *symbol = dlsym(library, wanted[i].name);
        if (!symbol)
            stop(UNAVAILABLE, "the CUDA driver lacks %s: install a newer one", wanted[i].name);
        memcpy(wanted[i].at, &symbol, sizeof symbol);
    }
}

static void check(int error, const char *what)
{
    if (error)
        answer_with("crashed 0 - 0 %s failed with CUDA error %d", what, error);
}

static int find_device(char *name, int size, int *version)
{
    int device = 0, major = 0, minor = 0;

    load_driver();
    if (cuda.init(0) || cuda.device(&device, 0))
        stop(UNAVAILABLE, "the CUDA driver finds no GPU");
    if (cuda.name(name, size, device) || cuda.version(version) || cuda.attribute(&major, 75, device)
        || cuda.attribute(&minor, 76, device))
        stop(UNAVAILABLE, "the CUDA driver does not describe its GPU");
    for (char *at = name; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    if (major != part_major || major * 10 + minor < least_capability)
        stop(OTHER_PART, "the candidates are for compute capability %d.%d, and %s has %d.%d: export a bundle for it",
             least_capability / 10, least_capability % 10, name, major, minor);
    if (*version / 1000 < toolkit)
        stop(OTHER_PART, "the candidates were compiled by CUDA %d, and the driver of %s knows CUDA %d.%d: install a newer "
             "driver, or export with an older CUDA", toolkit, name, *version / 1000, *version % 1000 / 10);
    return device;
}

static void launch_all(void)
{
    for (unsigned i = 0; i < launches; i++) {
        Launch *l = &launch[i];
        DevicePointer pointers[MOST_ARGUMENTS];
        void *arguments[MOST_ARGUMENTS];

        for (unsigned k = 0; k < l->arguments; k++) {
            pointers[k] = place[l->buffer[k]] + l->offset[k];
            arguments[k] = &pointers[k];
        }
        check(cuda.launch(functions[i], l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
                          l->dynamic, NULL, arguments, NULL), "a launch");
    }
}

/* Device memory that is filled before a timed launch, so that nothing of the candidate is left in the L2 cache: of no
 * bytes where that stays warm. */
typedef struct {
    DevicePointer at;
    size_t bytes;
} Flush;

static Flush flush_of(int device)
{
    Flush flush = {0, 0};
    int l2 = 0;

    if (!cold)
        return flush;
    if (cuda.attribute(&l2, 38, device) || l2 <= 0)
        stop(OTHER_PART, "the CUDA driver does not tell the size of the L2 cache: export the bundle without --cold");
    flush.bytes = 2 * (size_t)l2;
    check(cuda.alloc(&flush.at, flush.bytes), "allocating memory to flush the L2 cache");
    return flush;
}

static Flush flush;

/* Nanoseconds of so many launches. In a flush each is timed by itself: the fill is still running when the launch is
 * queued, so that no time of the host is counted. */
static double timed(int repeats)
{
    const int turns = flush.bytes ? repeats : 1;
    float total = 0, ms = 0;

    for (int turn = 0; turn < turns; turn++) {
        check(flush.bytes && cuda.fill_later(flush.at, (unsigned char)turn, flush.bytes, NULL), "flushing the L2 cache");
        check(cuda.record(start, NULL), "an event");
        for (int i = 0; i < repeats / turns; i++)
            launch_all();
        check(cuda.record(end, NULL) || cuda.wait(end) || cuda.elapsed(&ms, start, end), "timing");
        total += ms;
    }
    return (double)total * 1e6;
}

static double worst_error(void)
{
    double worst = 0;

    for (unsigned i = 0; i < candidate.buffers; i++) {
        const Buffer *buffer = &candidate.buffer[i];
        unsigned char *got;

        if (!is_output(buffer))
            continue;
        got = malloc(buffer->bytes);
        need(got);
        check(cuda.to_host(got, place[i], buffer->bytes), "reading an output");
        worst = fmax(worst, error_of_output(buffer, got));
        free(got);
    }
    return worst;
}

/* Checks the outputs of a candidate, times it, checks them again. */
static void try_candidate(void)
{
    void *context, *module;
    char samples[2048] = "", name[256];
    size_t bytes;
    int version, repeats, device = find_device(name, sizeof name, &version);
    unsigned char *image = read_file("cubins", candidate.binary, &bytes);
    double error;

    check(cuda.context(&context, 0, device), "creating a context");
    check(cuda.load(&module, image), "loading the cubin (does it hold this architecture?)");
    for (unsigned i = 0; i < launches; i++) {
        check(cuda.function(&functions[i], module, launch[i].kernel), "finding a kernel");
        if (launch[i].dynamic > 48 * 1024)
            check(cuda.function_attribute(functions[i], 8, (int)launch[i].dynamic), "asking for shared memory");
    }
    for (unsigned i = 0; i < candidate.buffers; i++) {
        Buffer *buffer = &candidate.buffer[i];
        check(cuda.alloc(&place[i], buffer->bytes), "allocating device memory");
        check(cuda.fill(place[i], is_output(buffer) ? (unsigned char)buffer->fill : 0xA5, buffer->bytes), "filling device memory");
        if (buffer->given && !is_output(buffer))
            check(cuda.to_device(place[i], buffer->given, buffer->bytes), "writing an input");
    }
    launch_all();
    check(cuda.synchronize(), "the kernel");
    judge(worst_error(), "first");
    check(cuda.event(&start, 0) || cuda.event(&end, 0), "creating an event");
    flush = flush_of(device);
    repeats = take_samples(timed, samples, sizeof samples);
    error = worst_error();
    judge(error, "last");
    answer_with("ok %d %s %.6g driver %d, %s", repeats, samples, error, version, name);
}

static void probe(void)
{
    char name[256];
    int version;

    find_device(name, sizeof name, &version);
}

static int reads_head(const char *words)
{
    if (sscanf(words, " capability %d toolkit %d", &least_capability, &toolkit) != 2)
        return 0;
    part_major = least_capability / 10;
    return 1;
}

static void begin(void)
{
    launches = 0;
}

static int reads_line(const char *line)
{
    Launch *l = &launch[launches];
    int at = 0, used = 0;

    if (launches == MOST_LAUNCHES
        || sscanf(line, "launch %511s %u %u %u %u %u %u %u %u%n", l->kernel, &l->grid[0], &l->grid[1], &l->grid[2],
                  &l->block[0], &l->block[1], &l->block[2], &l->dynamic, &l->arguments, &at) != 9
        || l->arguments > MOST_ARGUMENTS)
        return 0;
    for (unsigned k = 0; k < l->arguments; k++, at += used)
        if (sscanf(line + at, " %u:%zu%n", &l->buffer[k], &l->offset[k], &used) != 2 || l->buffer[k] >= candidate.buffers)
            return 0;
    launches++;
    return 1;
}

const Member member = {reads_head, probe, begin, reads_line, try_candidate};
