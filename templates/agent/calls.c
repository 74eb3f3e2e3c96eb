/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "calls.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "compare.h"
#include "cycles.h"
#include "fence.h"
#include "processes.h"
#include "sampling.h"
#include "turns.h"

static unsigned threads;    /* before the candidate was loaded */
static uint32_t calls_made;

void calls_begin(void)
{
    threads = threads_count();
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
    return use->type >= I8 && use->type <= U64 ? FILL_TIME : FILL_CHECK;
}

static struct fence fences[MOST_ARRAYS + 1]; /* of the first call; outputs in them have been found right */

/* Note a problem, unless there is one. */
static void blame(enum problem problem, size_t index, enum moment moment)
{
    struct report *report = now->report;
    if (report->problem != PROBLEM_NONE)
        return;
    report->problem = (uint8_t)problem;
    report->index = (uint16_t)index;
    report->moment = (uint8_t)moment;
    report->call = calls_made;
}

static void blame_harm(enum harm harm, size_t index, enum moment moment)
{
    if (harm != HARM_NONE)
        blame(harm == HARM_BEFORE ? PROBLEM_BEFORE : PROBLEM_BEHIND, index, moment);
}

/* Compare all outputs with their references; note the first that differs. After the first call, the worst error of all
   is noted as well; later, outputs of the same bytes as then are right, which is quick to see. */
static void judge(uint8_t *const *parts, enum moment moment)
{
    struct report *report = now->report;
    for (unsigned i = 0; i < now->request.array_count; ++i) {
        const struct array_use *use = &now->request.arrays[i];
        const struct content *wanted = &now->arrays[i];
        if (!is_written(use->role) || (moment != MOMENT_FIRST && memcmp(parts[i], fences[i].bytes, wanted->size) == 0))
            continue;
        const struct difference found =
            compare((enum element_type)use->type, parts[i], wanted->bytes, wanted->size, use->tolerance);
        if (!found.allowed && report->problem == PROBLEM_NONE) {
            blame(PROBLEM_DIFFERS, i, moment);
            report->problem_absolute = found.absolute;
            report->problem_relative = found.relative;
        }
        if (moment == MOMENT_FIRST && found.absolute > report->worst_absolute) {
            report->worst_absolute = found.absolute;
            report->worst_relative = found.relative;
        }
    }
}

/* End with the verdict, if there is one by now: of what was noted, and of what the candidate left. */
static void conclude(enum moment moment)
{
    if (has_children())
        finish(VERDICT_FORKED);
    if (mode_changed)
        blame(PROBLEM_MODE, 0, moment);
    else if (now->report->problem == PROBLEM_NONE && threads_left(threads))
        blame(PROBLEM_THREADS, 0, moment);
    if (now->report->problem != PROBLEM_NONE)
        finish(VERDICT_WRONG);
}

/* Call once on fenced buffers, inputs write-protected. */
void calls_check(call_fn entry)
{
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
    ++calls_made;
    for (unsigned i = 0; i < all; ++i)
        blame_harm(fence_harm(&fences[i]), i, MOMENT_FIRST);
    judge(parts, MOMENT_FIRST);
    conclude(MOMENT_FIRST);
    for (unsigned i = 0; i < all; ++i)
        if (!fence_read_only(&fences[i]))
            fail("a buffer cannot be protected");
}

struct timing {
    call_fn entry;
    uint8_t *parts[MOST_ARRAYS + 1];
    size_t sizes[MOST_ARRAYS + 1]; /* the scratch memory comes last, be it empty */
    uint8_t *sweep;                /* memory larger than the caches, or NULL */
};

/* Have the outputs hold a pattern, so that a call which writes nothing is found out. */
static void refill(const struct timing *timing)
{
    for (unsigned i = 0; i < now->request.array_count; ++i)
        if (is_written(now->request.arrays[i].role))
            memset(timing->parts[i], fill_of(&now->request.arrays[i], FILL_TIME), timing->sizes[i]);
}

/* After a watched call; ends with the verdict when it went wrong. */
static void look(const struct timing *timing)
{
    size_t index = 0;
    ++calls_made;
    judge(timing->parts, MOMENT_LATER);
    const enum harm harm = arena_harm(now->request.array_count + 1u, timing->sizes, timing->parts, &index);
    blame_harm(harm, index, MOMENT_LATER);
    if (mode_changed || now->report->problem != PROBLEM_NONE)
        conclude(MOMENT_LATER);
}

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
    void *const *const buffers = (void *const *)timing->parts;
    const size_t sweep = timing->sweep != NULL ? (size_t)now->request.cold_bytes : 0;
    their_turn();
    for (uint32_t s = 0; s < count; ++s) {
        for (size_t i = 0; i < sweep; i += ALIGNMENT)
            ((volatile uint8_t *)timing->sweep)[i]++;
        const int64_t start = now_ns();
        for (uint32_t r = 0; r < repeat; ++r)
            entry(buffers);
        const int64_t end = now_ns();
        if (!is_owner())
            _exit(99);
        taken[s] = (end > start ? (double)(end - start) : 1.0) / (double)repeat; /* less than a tick is not nothing */
    }
    our_turn();
    calls_made += repeat * count;
    memcpy(samples, taken, count * sizeof *samples);
    return true;
}

static bool watch_time(void *user, double *nanoseconds)
{
    refill(user);
    const uint32_t before = calls_made;
    take_time(user, 1, 1, nanoseconds);
    calls_made = before;
    look(user);
    return true;
}

/* One instruction is one nanosecond. The first call is dropped; counts are equal from then on, unless the kernel is not
   the same every time. Every call is watched: it costs nothing that is counted. */
static bool take_counts(const struct timing *timing, struct sampling *sampling)
{
    const struct request *request = &now->request;
    uint32_t wanted = request->policy.few_samples;
    *sampling = (struct sampling){0, 1, STOP_NARROW};
    for (bool first = true; sampling->count < wanted; first = false) {
        double count;
        refill(timing);
        their_turn();
        const bool counted = count_call(timing->entry, (void *const *)timing->parts, &count);
        our_turn();
        look(timing);
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

static void set_up(struct timing *timing)
{
    const struct request *request = &now->request;
    const unsigned arrays = request->array_count;
    for (unsigned i = 0; i < arrays; ++i)
        timing->sizes[i] = now->arrays[i].size;
    timing->sizes[arrays] = (size_t)request->scratch_bytes;
    if (!arena_make(arrays + 1, timing->sizes, timing->parts))
        fail("no memory for the buffers of the timing");
    for (unsigned i = 0; i < arrays; ++i)
        if (!is_written(request->arrays[i].role))
            memcpy(timing->parts[i], now->arrays[i].bytes, timing->sizes[i]);
    if (request->cold_bytes > 0) {
        const size_t bytes = (size_t)request->cold_bytes;
        if (!arena_make(1, &bytes, &timing->sweep))
            fail("no memory to sweep the caches with");
    }
}

void calls_measure(call_fn entry)
{
    static struct timing timing;
    const struct request *request = &now->request;
    timing.entry = entry;
    set_up(&timing);
    struct rusage before, after;
    struct sampling sampling;
    const struct calls calls = {take_time, watch_time, &timing};
    getrusage(RUSAGE_SELF, &before);
    const bool told = now->counting ? take_counts(&timing, &sampling)
                                    : sample(&calls, &request->policy, request->best_ns, timing.sweep != NULL,
                                             request->seed, now->report->samples, &sampling);
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
    now->report->cycle_ns = now->counting ? 0 : cycle_ns();
    for (unsigned i = 0; i < request->array_count; ++i)
        if (!is_written(request->arrays[i].role)
            && memcmp(timing.parts[i], now->arrays[i].bytes, timing.sizes[i]) != 0)
            blame(PROBLEM_INPUT, i, MOMENT_END);
    conclude(MOMENT_END);
}
