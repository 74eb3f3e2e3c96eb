/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "trial.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compare.h"
#include "count.h"
#include "fence.h"
#include "floating.h"
#include "sampling.h"
#include "start.h"
#include "system.h"

#define ENTRY "edgetune_call"

OLD_SYMBOL(dlopen);
OLD_SYMBOL(dlclose);
OLD_SYMBOL(dlsym);
OLD_SYMBOL(dlerror);

static const struct trial *now; /* the trial of this process */
static pid_t owner;
static uint64_t floating;
static double phase_began;

bool has_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

static void note_seconds(void)
{
    const double seconds = now_s() - phase_began;
    switch (now->report->phase) {
    case PHASE_LOAD: now->report->load_s = seconds; break;
    case PHASE_CHECK: now->report->check_s = seconds; break;
    case PHASE_TIME: now->report->time_s = seconds; break;
    default: break;
    }
}

static void enter(enum phase phase)
{
    note_seconds();
    now->report->phase = (uint8_t)phase;
    phase_began = now_s();
}

static void finish(enum verdict verdict) __attribute__((noreturn));
static void finish(enum verdict verdict)
{
    note_seconds();
    now->report->verdict = (uint8_t)verdict;
    __atomic_store_n(&now->report->done, 1, __ATOMIC_RELEASE); /* the agent may read it at once */
    kill(now->agent, SIGCHLD); /* it need not wait for our end */
    sched_yield();             /* nor, on a board of one core, for the system to clear us away */
    kill(owner, SIGKILL);      /* emulators take milliseconds over an orderly exit */
    _exit(0); /* no clean-up: this memory is whatever the candidate made of it */
}

static void fail(const char *what) __attribute__((noreturn));
static void fail(const char *what)
{
    snprintf(now->report->reason, REASON_BYTES, "%s: %s", what, strerror(errno));
    finish(VERDICT_FAILED);
}

/* The candidate's turn: the report is out of its reach. */
static void their_turn(void)
{
    if (mprotect(now->report, sizeof *now->report, PROT_NONE) != 0)
        _exit(98);
}

static void our_turn(void)
{
    floating_restore(floating);
    if (getpid() != owner) /* a kernel that forks: the copy ends here */
        _exit(99);
    if (mprotect(now->report, sizeof *now->report, PROT_READ | PROT_WRITE) != 0)
        _exit(98);
}

static const char *trouble; /* met while there was no trial to tell it of */
static int trouble_errno;
static uint64_t own_bytes; /* address space of this process before its trial */
static cpu_set_t all_cores;
static uint16_t kept_on[MOST_CORES]; /* none: on all */
static unsigned kept_count;

static void trouble_is(const char *what)
{
    if (trouble == NULL) {
        trouble = what;
        trouble_errno = errno;
    }
}

static void limit(int kind, uint64_t most)
{
    const rlim_t value = most > (uint64_t)(rlim_t)-2 ? RLIM_INFINITY : (rlim_t)most;
    const struct rlimit both = {value, value};
    if (setrlimit((__rlimit_resource_t)kind, &both) != 0)
        trouble_is("a limit cannot be set");
}

/* Moving a process costs more than anything else here: nothing where it is there already. */
static bool keep_on_cores(const uint16_t *numbers, unsigned count)
{
    if (count == kept_count && memcmp(kept_on, numbers, count * sizeof *kept_on) == 0)
        return true;
    cpu_set_t cores = all_cores;
    if (count > 0)
        CPU_ZERO(&cores);
    for (unsigned i = 0; i < count; ++i)
        if (numbers[i] < CPU_SETSIZE)
            CPU_SET(numbers[i], &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0)
        return false;
    memcpy(kept_on, numbers, count * sizeof *kept_on);
    kept_count = count;
    return true;
}

static bool take_nothing(void *user, uint32_t repeat, uint32_t count, double *samples)
{
    (void)user, (void)repeat;
    for (uint32_t i = 0; i < count; ++i)
        samples[i] = (double)(1000 + i);
    return true;
}

static void rehearse_loading(void)
{
    void *small = dlopen("libutil.so.1", RTLD_NOW | RTLD_LOCAL); /* of every glibc, and nobody's */
    if (small == NULL || dlsym(small, "edgetune_has_no_such_function") == NULL)
        dlerror();
    if (small != NULL)
        dlclose(small);
}

static void rehearse_the_rest(bool counting)
{
    static double samples[64];
    static const float values[16] = {1.0f};
    const struct policy policy = {1e5, 1e3, 1e3, 1e3, 0.01, 3.0, 8, 16, 3};
    struct sampling sampling;
    struct fence fence;
    if (fence_make(&fence, sizeof values, FILL_CHECK)) {
        fence_read_only(&fence);
        fence_harm(&fence);
        fence_free(&fence);
    }
    compare(values, values, sizeof values, DTYPE_F32, (struct tolerance){0.1, 0, 1});
    if (counting)
        count_prepare();
    sample(take_nothing, NULL, &policy, 0, false, samples, &sampling);
}

void trial_prepare(bool counting)
{
    dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    rehearse_loading();
    rehearse_the_rest(counting);
}

void trial_rehearse(bool counting, bool (*enough)(void))
{
    if (!enough())
        rehearse_loading();
    if (!enough())
        rehearse_the_rest(counting);
}

void trial_await(const uint16_t *cores, unsigned core_count)
{
    char text[64];
    uint64_t pages = 0;
    if (!read_text("/proc/self/statm", text, sizeof text) || !read_number(text, 10, &pages))
        trouble_is("/proc/self/statm cannot be read");
    own_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);
    if (sched_getaffinity(0, sizeof all_cores, &all_cores) != 0)
        trouble_is("the cores of the board are not told");
    keep_on_cores(cores, core_count); /* a guess: the trial says which */
}

/* Limit this process to what the trial may take: address space beyond its own, CPU time, its cores. */
static void confine(void)
{
    limit(RLIMIT_AS, own_bytes + now->request.memory_bytes);
    limit(RLIMIT_CPU, (uint64_t)now->request.deadline_s + 2);
    if (!keep_on_cores(now->request.cores, now->request.core_count))
        trouble_is("the candidate cannot be kept on the cores of the board");
    errno = trouble_errno;
    if (trouble != NULL)
        fail(trouble);
}

static call_fn load(void)
{
    char path[64];
    call_fn entry = NULL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", now->library);
    their_turn();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, ENTRY) : NULL;
    our_turn();
    if (symbol == NULL) {
        const char *why = dlerror();
        snprintf(now->report->reason, REASON_BYTES, "%s", why != NULL ? why : "no reason given");
        finish(VERDICT_NOT_LOADED);
    }
    close(now->library);
    memcpy(&entry, &symbol, sizeof entry);
    return entry;
}

static bool is_written(uint8_t role)
{
    return role == ROLE_OUTPUT || role == ROLE_PART;
}

/* What an array holds before a call: one with gaps, what the reference has in them. */
static uint8_t fill_of(const struct array_use *use, uint8_t otherwise)
{
    if (use->role != ROLE_PART)
        return otherwise;
    return use->dtype >= DTYPE_I8 && use->dtype <= DTYPE_U64 ? FILL_TIME : FILL_CHECK;
}

/* Compare all outputs with their references; note the first that differs, and the worst error of all when asked. */
static void judge(uint8_t *const *parts, bool first_call)
{
    struct report *report = now->report;
    for (unsigned i = 0; i < now->request.array_count; ++i) {
        const struct array_use *use = &now->request.arrays[i];
        if (!is_written(use->role))
            continue;
        const struct content *wanted = &now->arrays[i];
        const struct difference found =
            compare(parts[i], wanted->bytes, wanted->size, (enum dtype)use->dtype, use->tolerance);
        if (!found.allowed && report->problem == PROBLEM_NONE) {
            report->problem = PROBLEM_DIFFERS;
            report->after_many = !first_call;
            report->index = (uint16_t)i;
            report->problem_absolute = found.absolute;
            report->problem_relative = found.relative;
        }
        if (first_call && found.absolute > report->worst_absolute) {
            report->worst_absolute = found.absolute;
            report->worst_relative = found.relative;
        }
    }
}

/* Call once on fenced buffers, inputs write-protected. */
static void check(call_fn entry)
{
    static struct fence fences[MOST_ARRAYS + 1];
    static uint8_t *parts[MOST_ARRAYS + 1];
    const struct request *request = &now->request;
    const unsigned arrays = request->array_count, all = arrays + (request->scratch_bytes > 0);
    for (unsigned i = 0; i < all; ++i) {
        const size_t size = i < arrays ? now->arrays[i].size : (size_t)request->scratch_bytes;
        const uint8_t fill = i < arrays ? fill_of(&request->arrays[i], FILL_CHECK) : FILL_CHECK;
        if (!fence_make(&fences[i], size, fill))
            fail("no memory for the buffers of a call");
        parts[i] = fences[i].bytes;
        if (i < arrays && !is_written(request->arrays[i].role)) {
            memcpy(parts[i], now->arrays[i].bytes, size);
            if (!fence_read_only(&fences[i]))
                fail("a buffer cannot be protected");
        }
    }
    their_turn();
    entry((void *const *)parts);
    our_turn();
    judge(parts, true);
    for (unsigned i = 0; i < all; ++i) {
        const enum harm harm = fence_harm(&fences[i]);
        if (harm == HARM_NONE)
            continue;
        now->report->problem = harm == HARM_BEFORE ? PROBLEM_BEFORE : PROBLEM_BEHIND;
        now->report->index = (uint16_t)i;
        break;
    }
    if (now->report->problem != PROBLEM_NONE)
        finish(VERDICT_WRONG);
    if (has_children())
        finish(VERDICT_FORKED);
}

struct timing {
    call_fn entry;
    void *const *buffers;
    uint8_t *sweep; /* memory larger than the caches, or NULL */
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool take_time(void *user, uint32_t repeat, uint32_t count, double *samples)
{
    static double taken[2 * MOST_SAMPLES];
    const struct timing *timing = user;
    const call_fn entry = timing->entry;
    void *const *const buffers = timing->buffers;
    const size_t sweep = timing->sweep != NULL ? (size_t)now->request.cold_bytes : 0;
    their_turn();
    for (uint32_t s = 0; s < count; ++s) {
        for (size_t i = 0; i < sweep; i += ALIGNMENT)
            ((volatile uint8_t *)timing->sweep)[i]++;
        const int64_t start = now_ns();
        for (uint32_t r = 0; r < repeat; ++r)
            entry(buffers);
        const int64_t end = now_ns();
        if (getpid() != owner)
            _exit(99);
        taken[s] = (end > start ? (double)(end - start) : 1.0) / (double)repeat; /* less than a tick is not nothing */
    }
    our_turn();
    memcpy(samples, taken, count * sizeof *samples);
    return true;
}

/* One instruction is one nanosecond. The first call is dropped; counts are equal from then on, unless the kernel is not
   the same every time. */
static bool take_counts(const struct timing *timing, struct sampling *sampling)
{
    const struct request *request = &now->request;
    uint32_t wanted = request->policy.few_samples;
    *sampling = (struct sampling){0, 1, STOP_NARROW};
    for (bool first = true; sampling->count < wanted; first = false) {
        double count;
        their_turn();
        const bool counted = count_call(timing->entry, timing->buffers, &count);
        our_turn();
        if (!counted)
            return false;
        if (!first) {
            now->report->samples[sampling->count++] = count;
        } else if (request->best_ns > 0 && count > request->policy.hopeless * request->best_ns) {
            wanted = 1;
            sampling->stopped = STOP_SLOW;
        }
    }
    return true;
}

static void measure(call_fn entry)
{
    static uint8_t *parts[MOST_ARRAYS + 1];
    static size_t sizes[MOST_ARRAYS + 1];
    const struct request *request = &now->request;
    const unsigned arrays = request->array_count;
    for (unsigned i = 0; i < arrays; ++i)
        sizes[i] = now->arrays[i].size;
    sizes[arrays] = (size_t)request->scratch_bytes;
    if (!arena_make(arrays + 1, sizes, parts))
        fail("no memory for the buffers of the timing");
    for (unsigned i = 0; i < arrays; ++i) {
        if (is_written(request->arrays[i].role))
            memset(parts[i], fill_of(&request->arrays[i], FILL_TIME), sizes[i]);
        else
            memcpy(parts[i], now->arrays[i].bytes, sizes[i]);
    }
    struct timing timing = {entry, (void *const *)parts, NULL};
    if (request->cold_bytes > 0) {
        const size_t bytes = (size_t)request->cold_bytes;
        if (!arena_make(1, &bytes, &timing.sweep))
            fail("no memory to sweep the caches with");
    }
    struct rusage before, after;
    struct sampling sampling;
    getrusage(RUSAGE_SELF, &before);
    const bool told = now->counting ? take_counts(&timing, &sampling)
                                    : sample(take_time, &timing, &request->policy, request->best_ns,
                                             timing.sweep != NULL, now->report->samples, &sampling);
    getrusage(RUSAGE_SELF, &after);
    if (!told) {
        snprintf(now->report->reason, REASON_BYTES, "%s",
                 now->counting ? "nobody counts its instructions" : "the clock of the board does not tick");
        finish(VERDICT_FAILED);
    }
    now->report->minor_faults = (uint64_t)(after.ru_minflt - before.ru_minflt);
    now->report->major_faults = (uint64_t)(after.ru_majflt - before.ru_majflt);
    now->report->repeat = sampling.repeat;
    now->report->count = sampling.count;
    now->report->stopped = (uint8_t)sampling.stopped;
    judge(parts, false);
}

void trial_run(const struct trial *trial)
{
    now = trial;
    owner = getpid();
    floating = floating_save();
    confine();
    enter(PHASE_LOAD);
    const call_fn entry = load();
    enter(PHASE_CHECK);
    check(entry);
    enter(PHASE_TIME);
    measure(entry);
    finish(trial->report->problem != PROBLEM_NONE ? VERDICT_WRONG : VERDICT_OK);
}
