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

/* Writes `count` samples to `out`, each the nanoseconds per call over `repeat` calls in a row. `owner` is the process
   that began: a copy of it, made by a kernel that forks, ends here without a word. */
void edgetune_sample(call_fn call, void *const *buffers, int64_t repeat, int64_t count, int64_t owner, double *out)
{
    for (int64_t s = 0; s < count; ++s) {
        const int64_t start = now_ns();
        for (int64_t r = 0; r < repeat; ++r)
            call(buffers);
        const int64_t end = now_ns();
        if ((int64_t)getpid() != owner)
            _exit(99);
        out[s] = (double)(end - start) / (double)repeat;
    }

}
