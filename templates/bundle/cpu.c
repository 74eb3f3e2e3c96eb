/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates for the CPU of this machine, as shared libraries: each is called on one core, first with memory that no stray
 * access may touch, then timed. It needs a C library alone, and is compiled for the same instruction set as they are.
 */
#define _GNU_SOURCE
#include "common.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fence.h"

#if defined(__x86_64__)
#include <cpuid.h>
static const char own_isa[] = "x86_64";
#elif defined(__aarch64__)
static const char own_isa[] = "aarch64";
#elif defined(__arm__)
static const char own_isa[] = "armv7";
#elif defined(__riscv) && __riscv_xlen == 64
static const char own_isa[] = "riscv64";
#else
static const char own_isa[] = "another instruction set";
#endif

enum { MOST_CHECKS = 16, CACHE_LINE = 64, MOST_CORES = 1 << 20 };

typedef void (*Entry)(void *const *buffers);

/* Bits of a register of CPUID that must be set. */
typedef struct {
    unsigned leaf, subleaf, mask;
    char which[4];
} CpuidCheck;

static char isa[32], names[256]; /* of the target: its instruction set, and the features that it has for sure */
static unsigned long long hwcap, hwcap2, xcr0;
static unsigned checks;
static CpuidCheck wanted[MOST_CHECKS];

static Entry entry;
static struct fence fences[MOST_BUFFERS];
static size_t sizes[MOST_BUFFERS];
static uint8_t *arena[MOST_BUFFERS], *sweep;

#if defined(__x86_64__)
static int has_features(void)
{
    unsigned eax, ebx, ecx, edx, low, high;

    if (xcr0) {
        if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & (1u << 27))) /* OSXSAVE */
            return 0;
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        if ((low & xcr0) != xcr0)
            return 0;
    }
    for (unsigned i = 0; i < checks; i++) {
        if (!__get_cpuid_count(wanted[i].leaf, wanted[i].subleaf, &eax, &ebx, &ecx, &edx))
            return 0;
        const unsigned found = wanted[i].which[1] == 'a' ? eax : wanted[i].which[1] == 'b' ? ebx : wanted[i].which[1] == 'c' ? ecx : edx;
        if ((found & wanted[i].mask) != wanted[i].mask)
            return 0;
    }
    return 1;
}
#else
static int has_features(void)
{
    return (getauxval(AT_HWCAP) & hwcap) == hwcap && (getauxval(AT_HWCAP2) & hwcap2) == hwcap2;
}
#endif

/* A file system without execution refuses every library: that is no fault of a candidate. */
static void check_execution(void)
{
    const int file = open("plan.txt", O_RDONLY | O_CLOEXEC);
    void *code = file < 0 ? MAP_FAILED : mmap(NULL, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);

    if (code == MAP_FAILED)
        stop(UNAVAILABLE, "this machine runs no code from the folder of the bundle (%s): copy it to a file system that is "
             "mounted without noexec", strerror(errno));
    munmap(code, 1);
    close(file);
}

static void probe(void)
{
    if (strcmp(isa, own_isa))
        stop(OTHER_PART, "the candidates are for %s, and this runner was compiled for %s: run the bundle on a board of the "
             "target, with a compiler of its own", isa, own_isa);
    if (!has_features())
        stop(OTHER_PART, "the candidates need %s, which this CPU lacks: export a bundle for it", names);
    check_execution();
}

/* Whether an emulator runs this program: it says that it is the program, except where it does not look. */
static int emulated(void)
{
    char own[4096] = "", thread[4096] = "";

    return readlink("/proc/self/exe", own, sizeof own - 1) > 0
           && readlink("/proc/thread-self/exe", thread, sizeof thread - 1) > 0 && strcmp(own, thread);
}

/* Keeps this process on the last core that it may use, and returns it: the first ones serve interrupts. */
static int keep_on_core(void)
{
    size_t cores = CPU_SETSIZE, bytes, core;
    cpu_set_t *set;

    for (;; cores *= 2) { /* a kernel for more cores than the set holds refuses it */
        bytes = CPU_ALLOC_SIZE(cores);
        set = CPU_ALLOC(cores);
        if (set && sched_getaffinity(0, bytes, set) == 0)
            break;
        if (!set || errno != EINVAL || cores >= MOST_CORES)
            stop(UNAVAILABLE, "this machine does not tell on which cores a process may run (%s): run the bundle elsewhere",
                 strerror(errno));
        CPU_FREE(set);
    }
    for (core = 8 * bytes - 1; core > 0 && !CPU_ISSET_S(core, bytes, set);)
        core--;
    CPU_ZERO_S(bytes, set);
    CPU_SET_S(core, bytes, set);
    if (sched_setaffinity(0, bytes, set))
        stop(UNAVAILABLE, "a candidate cannot be kept on core %zu (%s): run the bundle where it can", core, strerror(errno));
    CPU_FREE(set);
    return (int)core;
}

static void check(int ok, const char *what)
{
    if (!ok)
        answer_with("crashed 0 - 0 %s", what);
}

static void load(void)
{
    char path[HASH + 16];
    void *library, *symbol;

    snprintf(path, sizeof path, "./libraries/%s", candidate.binary);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    symbol = library ? dlsym(library, "edgetune_call") : NULL;
    if (!symbol)
        answer_with("crashed 0 - 0 it cannot be loaded: %s", dlerror());
    memcpy(&entry, &symbol, sizeof entry);
}

static double worst_error(uint8_t *const *parts)
{
    double worst = 0;

    for (unsigned i = 0; i < candidate.buffers; i++)
        if (is_output(&candidate.buffer[i]))
            worst = fmax(worst, error_of_output(&candidate.buffer[i], parts[i]));
    return worst;
}

/* The first call: a page without access lies behind each buffer, and inputs cannot be written. */
static void call_fenced(void)
{
    uint8_t *parts[MOST_BUFFERS];

    for (unsigned i = 0; i < candidate.buffers; i++) {
        const Buffer *buffer = &candidate.buffer[i];
        check(fence_make(&fences[i], buffer->bytes, is_output(buffer) ? (uint8_t)buffer->fill : FILL_CHECK), "no memory");
        parts[i] = fences[i].bytes;
        if (buffer->given && !is_output(buffer)) {
            memcpy(parts[i], buffer->given, buffer->bytes);
            check(fence_read_only(&fences[i]), "memory cannot be protected");
        }
    }
    entry((void *const *)parts);
    for (unsigned i = 0; i < candidate.buffers; i++)
        if (fence_harm(&fences[i]) != HARM_NONE)
            answer_with("wrong_result 0 - 1e30 it writes beside buffer %u", i);
    judge(worst_error(parts), "first");
    for (unsigned i = 0; i < candidate.buffers; i++)
        fence_free(&fences[i]);
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds of so many calls; with cold caches there is one, after a sweep. */
static double timed(int repeats)
{
    for (size_t i = 0; i < cold; i += CACHE_LINE)
        ((volatile uint8_t *)sweep)[i]++;
    const double start = now_ns();
    for (int i = 0; i < repeats; i++)
        entry((void *const *)arena);
    return fmax(now_ns() - start, 1); /* less than a tick is not nothing */
}

/* Buffers one after the other, as in a package; outputs hold nothing of an earlier call. */
static void set_up(void)
{
    for (unsigned i = 0; i < candidate.buffers; i++)
        sizes[i] = candidate.buffer[i].bytes;
    check(arena_make(candidate.buffers, sizes, arena), "no memory");
    check(!cold || arena_make(1, &cold, &sweep), "no memory");
    for (unsigned i = 0; i < candidate.buffers; i++)
        if (is_output(&candidate.buffer[i]))
            memset(arena[i], (int)candidate.buffer[i].fill, sizes[i]);
        else if (candidate.buffer[i].given)
            memcpy(arena[i], candidate.buffer[i].given, sizes[i]);
}

/* Checks the outputs of a candidate, times it, checks them again. */
static void try_candidate(void)
{
    char samples[2048] = "";
    size_t index = 0;
    double error;
    int repeats;
    const int core = keep_on_core();

    load();
    call_fenced();
    set_up();
    if (cold)
        repeats_wanted = 1; /* a sample that is longer needs a sweep for each of its calls */
    repeats = take_samples(timed, samples, sizeof samples);
    if (arena_harm(candidate.buffers, sizes, arena, &index) != HARM_NONE)
        answer_with("wrong_result 0 - 1e30 it writes beside buffer %zu", index);
    error = worst_error(arena);
    judge(error, "last");
    answer_with("ok %d %s %.6g %s, core %d", repeats, samples, error, emulated() ? "emulated" : own_isa, core);
}

static int reads_head(const char *words)
{
    int at = 0, used = 0;

    if (sscanf(words, " isa %31s features %255s hwcap %llx %llx xcr0 %llx cpuid %u%n", isa, names, &hwcap, &hwcap2, &xcr0,
               &checks, &at) != 6
        || checks > MOST_CHECKS)
        return 0;
    for (unsigned i = 0; i < checks; i++, at += used)
        if (sscanf(words + at, " %u:%u:%3s:%x%n", &wanted[i].leaf, &wanted[i].subleaf, wanted[i].which, &wanted[i].mask, &used) != 4)
            return 0;
    return 1;
}

static void begin(void)
{
}

static int reads_line(const char *line)
{
    (void)line;
    return 0;
}

const Member member = {reads_head, probe, begin, reads_line, try_candidate};
