/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "trial.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "calls.h"
#include "compare.h"
#include "fence.h"
#include "processes.h"
#include "sampling.h"
#include "start.h"
#include "system.h"
#include "turns.h"

#define ENTRY "edgetune_call"

OLD_SYMBOL(dlopen);
OLD_SYMBOL(dlclose);
OLD_SYMBOL(dlsym);
OLD_SYMBOL(dlerror);

static bool filtered; /* starting a process ends this one */
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

static bool watch_nothing(void *user, double *nanoseconds)
{
    (void)user;
    *nanoseconds = 1000;
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
    static const float values[16] = {1.0f}, other[16] = {0.99f};
    const struct policy policy = {1e5, 1e3, 1e3, 1e3, 0.01, 3.0, 8, 16, 3};
    struct sampling sampling;
    struct fence fence;
    if (fence_make(&fence, sizeof values, FILL_CHECK)) {
        fence_read_only(&fence);
        fence_harm(&fence);
        fence_free(&fence);
    }
    compare(F32, values, other, sizeof values, (struct tolerance){0.1, 0, 1});
    if (counting)
        count_prepare();
    const struct calls nothing = {take_nothing, watch_nothing, NULL};
    threads_left(threads_count());
    sample(&nothing, &policy, 0, false, 0, samples, &sampling);
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
    filtered = processes_forbid();
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
    mode_changed = false; /* what a library does when it is loaded is its toolchain's choice */
    memcpy(&entry, &symbol, sizeof entry);
    return entry;
}

void trial_run(const struct trial *trial)
{
    turns_begin(trial);
    calls_begin();
    now->report->filtered = filtered;
    confine();
    enter(PHASE_LOAD);
    const call_fn entry = load();
    enter(PHASE_CHECK);
    calls_check(entry);
    enter(PHASE_TIME);
    calls_measure(entry);
    finish(VERDICT_OK);
}
