/* What the local runner does around the calls of a candidate, and the timing loop: nothing but the call and the clock.
   Not shipped; compiled once a run into a library of its own. The agent has the same by the same headers. */
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

/* How many additions at once the core does just now: the time of additions that wait for each other over that of as
   many in four chains. No memory is touched. Another thread of the same core takes its share of what is done at once,
   not of what waits. Interrupts lengthen one of several tries. */
double edgetune_width(void)
{
    int64_t chain = INT64_MAX, side_by_side = INT64_MAX;
    uint64_t a = 0, b = 0, c = 0, d = 0, one = 1;

    KEPT(one); /* cores that add constants while they rename registers need no time for a chain of those */
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

/* Writes `count` samples to `out`, each the nanoseconds per call over `repeat` calls in a row, and to `widths` how many
   additions at once the core did around each of them, the fewer of before and behind. `owner` is the process that
   began: a copy of it, made by a kernel that forks, ends here without a word. True: a call left the mode of floating
   point changed; it is as before again. */
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

/* One call. True: it left the mode of floating point changed; it is as before again. */
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

/* The kernel of the runner's rehearsal: it copies a number. */
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
