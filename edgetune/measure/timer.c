/* The timing loop: nothing but the call and the clock. Not shipped; compiled once a run into a library of its own. */
#define _GNU_SOURCE
#include <stdint.h>
#include <time.h>
#include <unistd.h>

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
   began: a copy of it, made by a kernel that forks, ends here without a word. */
void edgetune_sample(call_fn call, void *const *buffers, int64_t repeat, int64_t count, int64_t owner, double *out,
                     double *widths)
{
    double before = edgetune_width();

    for (int64_t s = 0; s < count; ++s) {
        const int64_t start = now_ns();
        for (int64_t r = 0; r < repeat; ++r)
            call(buffers);
        const int64_t end = now_ns();
        if ((int64_t)getpid() != owner)
            _exit(99);
        out[s] = (double)(end - start) / (double)repeat;
        const double behind = edgetune_width();
        widths[s] = before < behind ? before : behind;
        before = behind;
    }
}
