/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver for tests that computes nothing: a launch copies the reference of its candidate to the output, which it
 * finds as the first candidate of plan.txt with the cubin that was loaded. Times come from a formula over the cubin's
 * bytes. STUB_FAULT: "wrong" writes nothing, "near" the number next to the first one, "far" one of twice or half its size,
 * "crash" and "hang" do so in every launch of about every second cubin, "arch" finds no code for this GPU in
 * those; STUB_PART is the compute capability (75), STUB_DRIVER the version of CUDA that the driver knows (13000).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t DevicePointer;
static unsigned digest;
static int launches, flushed, cold; /* launches after a flush of twice the L2 cache, which takes 0.1 ms each */
enum { L2 = 1 << 20, SHARED = 64 << 10, NO_BINARY = 209 };
static float now_ms;
static DevicePointer all[64];
static size_t sizes[64];
static int allocations;

static const char *fault(void) { return getenv("STUB_FAULT") ? getenv("STUB_FAULT") : ""; }
static int part(void) { return getenv("STUB_PART") ? atoi(getenv("STUB_PART")) : 75; }

int cuInit(unsigned flags) { return (int)flags; }
int cuDriverGetVersion(int *version) { *version = getenv("STUB_DRIVER") ? atoi(getenv("STUB_DRIVER")) : 13000; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return 0; }
int cuDeviceGetName(char *name, int size, int device) { (void)device; snprintf(name, (size_t)size, "Stub GPU"); return 0; }
int cuDeviceGetAttribute(int *value, int which, int device)
{
    (void)device;
    *value = which == 38 ? L2 : which == 75 ? part() / 10 : part() % 10;
    return 0;
}
int cuCtxCreate_v2(void **context, unsigned flags, int device) { *context = &digest; return (int)flags + device; }
int cuModuleLoadData(void **module, const void *image)
{
    const unsigned char *bytes = image;
    uint64_t end; /* of the sections: where their table is */
    memcpy(&end, bytes + 40, sizeof end);
    for (uint64_t i = 0; i < end && !memcmp(image, "\177ELF", 4); i++)
        digest = digest * 31 + bytes[i];
    *module = &digest;
    if (!strcmp(fault(), "arch") && digest % 2 == 0)
        return NO_BINARY;
    return memcmp(image, "\177ELF", 4) ? 200 : 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = module; return !*name; }
int cuMemAlloc_v2(DevicePointer *at, size_t bytes)
{
    void *memory = malloc(bytes);
    *at = (DevicePointer)(uintptr_t)memory;
    all[allocations] = *at;
    sizes[allocations++] = bytes;
    return !memory;
}
int cuMemsetD8_v2(DevicePointer at, unsigned char value, size_t bytes) { memset((void *)(uintptr_t)at, value, bytes); return 0; }
int cuMemsetD8Async(DevicePointer at, unsigned char value, size_t bytes, void *stream)
{
    flushed = !stream && bytes >= 2 * (size_t)L2;
    return cuMemsetD8_v2(at, value, bytes);
}
int cuMemcpyHtoD_v2(DevicePointer at, const void *from, size_t bytes) { memcpy((void *)(uintptr_t)at, from, bytes); return 0; }
int cuMemcpyDtoH_v2(void *to, DevicePointer at, size_t bytes) { memcpy(to, (void *)(uintptr_t)at, bytes); return 0; }
static uint64_t mixed(uint64_t word)
{
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
}
static uint64_t checksum(const unsigned char *data, size_t bytes)
{
    uint64_t sum = 0, word;
    for (size_t at = 0; at < bytes; at += 8) {
        word = 0;
        memcpy(&word, data + at, bytes - at < 8 ? bytes - at : 8);
        sum += mixed(word + mixed((at / 8 + 1) * 0x9E3779B97F4A7C15u));
    }
    return sum;
}
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **arguments, void **extra)
{
    static char line[4096], name[65];
    (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)arguments, (void)extra;
    launches++;
    cold += flushed;
    flushed = 0;
    if (!strcmp(fault(), "crash") && digest % 2 == 0)
        abort();
    while (!strcmp(fault(), "hang") && digest % 2 == 0)
        pause();
    if (!strcmp(fault(), "wrong") || launches > 1)
        return 0;
    /* The outputs of all candidates of one kernel are the same, and a kernel is told by the sizes of its buffers. */
    FILE *plan = fopen("plan.txt", "r");
    int at = 0, fits = 1;
    char outputs[64][65] = {{0}};
    while (plan && fgets(line, sizeof line, plan)) {
        size_t bytes;
        char role;
        unsigned long long sum;
        if (!strncmp(line, "candidate", 9))
            at = 0, fits = 1, memset(outputs, 0, sizeof outputs);
        else if (sscanf(line, "drawn %*c %zu %*s %*s %*s %llx", &bytes, &sum) == 2) {
            fits = fits && at < allocations && sizes[at] == bytes && checksum((void *)(uintptr_t)all[at], bytes) == sum;
            at++;
        } else if (sscanf(line, "buffer %c %zu %64s", &role, &bytes, name) == 3) {
            fits = fits && at < allocations && sizes[at] == bytes;
            if (strchr("odhbe", role))
                memcpy(outputs[at], name, sizeof name);
            else if (role == 'i' && fits) {
                snprintf(line, sizeof line, "data/%s", name);
                FILE *data = fopen(line, "rb");
                unsigned char *held = malloc(bytes);
                fits = data && fread(held, 1, bytes, data) == bytes && !memcmp(held, (void *)(uintptr_t)all[at], bytes);
                free(held);
                fclose(data);
            }
            at++;
        } else if (!strcmp(line, "end\n") && fits && at == allocations) {
            for (int i = 0; i < at; i++) {
                if (!outputs[i][0])
                    continue;
                snprintf(line, sizeof line, "data/%s", outputs[i]);
                FILE *data = fopen(line, "rb");
                fits = data && fread((void *)(uintptr_t)all[i], 1, sizes[i], data) == sizes[i];
                fclose(data);
                unsigned char *first = (void *)(uintptr_t)all[i];
                first[0] ^= !strcmp(fault(), "near");
                first[1] ^= strcmp(fault(), "far") ? 0 : 0xff; /* the sign and the exponent of a number of 16 bits */
            }
            break;
        }
    }
    if (plan)
        fclose(plan);
    return !fits;
}
int cuCtxSynchronize(void) { return 0; }
int cuEventCreate(void **event, unsigned flags) { *event = malloc(sizeof(float)); return (int)flags; }
int cuEventRecord(void *event, void *stream)
{
    (void)stream;
    now_ms += (float)launches * (0.001f + (float)(digest % 1000) * 1e-5f);
    now_ms += (float)cold * 0.1f;
    cold = 0;
    launches = launches ? 1 : 0;
    *(float *)event = now_ms;
    return 0;
}
int cuEventSynchronize(void *event) { return !event; }
int cuEventElapsedTime(float *ms, void *start, void *end) { *ms = *(float *)end - *(float *)start; return 0; }
int cuFuncSetAttribute(void *function, int which, int value) { return !function || which != 8 || value <= 0 || value > SHARED; }
