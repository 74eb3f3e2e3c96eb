/* Timing loop of the local runner, which contains only the call and the clock, and the checks around the calls.
   Not shipped; compiled once per run into its own library. The agent does the same with the same headers. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "cycles.h"
#include "floating.h"
#include "processes.h"

typedef void (*call_fn)(void *const *buffers);

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#define KEPT(x) __asm__ volatile("" : "+r"(x)) /* the compiler must not know the sum */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Number of additions that the core does in parallel now: the time of dependent additions divided by the time of as
   many additions in four independent chains. No memory is touched. Another thread of the same core slows the parallel
   additions, not the dependent ones. Interrupts lengthen only one of several tries. */
double edgetune_width(void)
{
    int64_t chain = INT64_MAX, side_by_side = INT64_MAX;
    uint64_t a = 0, b = 0, c = 0, d = 0, one = 1;

    KEPT(one); /* a core that adds constants during register renaming takes no time for a chain of them */
    for (int t = 0; t < 3; ++t) {
        const int64_t start = now_ns();
        for (int i = 0; i < 512; ++i) {
            a += one; KEPT(a); a += one; KEPT(a); a += one; KEPT(a); a += one; KEPT(a);
            a += one; KEPT(a); a += one; KEPT(a); a += one; KEPT(a); a += one; KEPT(a);
        }
        const int64_t middle = now_ns();
        for (int i = 0; i < 512; ++i) {
            a += one; KEPT(a); b += one; KEPT(b); c += one; KEPT(c); d += one; KEPT(d);
            a += one; KEPT(a); b += one; KEPT(b); c += one; KEPT(c); d += one; KEPT(d);
        }
        const int64_t end = now_ns();
        chain = least(chain, middle - start);
        side_by_side = least(side_by_side, end - middle);
    }
    return (double)chain / (double)(side_by_side > 0 ? side_by_side : 1);
}

/* Writes `count` samples to `out`, each the nanoseconds per call over `repeat` consecutive calls. Writes to `widths`
   the parallel additions of the core around each sample, the minimum of before and after. `owner` is the calling
   process: a copy of it, made by a kernel that forks, ends here silently. Returns true if a call changed the
   floating-point mode, which is then restored. */
bool edgetune_sample(call_fn call, void *const *buffers, int64_t repeat, int64_t count, int64_t owner, double *out,
                     double *widths)
{
    const uint64_t mode = floating_mode();
    bool changed = false;
    double before = edgetune_width();

    for (int64_t s = 0; s < count; ++s) {
        const int64_t start = now_ns();
        for (int64_t r = 0; r < repeat; ++r)
            call(buffers);
        const int64_t end = now_ns();
        changed |= floating_mode() != mode;
        floating_restore(mode);
        if ((int64_t)getpid() != owner)
            _exit(99);
        out[s] = (double)(end - start) / (double)repeat;
        const double behind = edgetune_width();
        widths[s] = before < behind ? before : behind;
        before = behind;
    }
    return changed;
}

/* Makes one call. Returns true if it changed the floating-point mode, which is then restored. */
bool edgetune_call_once(call_fn call, void *const *buffers, int64_t owner)
{
    const uint64_t mode = floating_mode();
    call(buffers);
    const bool changed = floating_mode() != mode;
    floating_restore(mode);
    if ((int64_t)getpid() != owner)
        _exit(99);
    return changed;
}

/* The kernel of the runner's warm-up trial: it copies a number. */
void edgetune_call(void *const *buffers);
void edgetune_call(void *const *buffers)
{
    *(float *)buffers[1] = *(const float *)buffers[0];
}

uint64_t edgetune_mode(void) { return floating_mode(); }

void edgetune_restore_mode(uint64_t mode) { floating_restore(mode); }

double edgetune_cycle(void) { return cycle_ns(); }

bool edgetune_forbid_processes(void) { return processes_forbid(); }

bool edgetune_any_process(int32_t spared) { return processes_any(spared); }

void edgetune_end_processes(void) { processes_end(); }

int32_t edgetune_threads(void) { return (int32_t)threads_count(); }

bool edgetune_threads_left(int32_t before) { return threads_left((unsigned)before); }
