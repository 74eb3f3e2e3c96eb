/* SPDX-License-Identifier: Apache-2.0 */
/* The canary of a night: the same integer work on every board, from night to night. A board on which it takes longer
   than it did is not the board that it was. The last line is one JSON object; times are microseconds.
   Usage: canary_bench RUNS SECONDS; with -DCANARY_BENCH_RUNS=RUNS it takes no arguments, for an image that gets none. */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LENGTH 1024
#define ROUNDS 32
#define MAX_RUNS 1000

/* Nanoseconds from any start; -DCANARY_NOW_NS=function brings another clock. */
#ifdef CANARY_NOW_NS
uint64_t CANARY_NOW_NS(void);
#define now_ns CANARY_NOW_NS
#else
static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
#endif

static volatile uint32_t given = 1;
static uint32_t values[LENGTH];
static uint64_t run_ns[MAX_RUNS];

/* Each value depends on the one before, so that no compiler makes vectors of it. */
static void work(void)
{
    uint32_t value = given;

    for (int i = 0; i < LENGTH; ++i) {
        for (int round = 0; round < ROUNDS; ++round)
            value = value * UINT32_C(2654435761) + (value >> 15);
        values[i] = value;
    }
}

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

#ifdef CANARY_BENCH_RUNS
int main(void)
{
    long most = CANARY_BENCH_RUNS;
    const double seconds = 0;
#else
int main(int argc, char **argv)
{
    long most = argc > 1 ? strtol(argv[1], NULL, 10) : MAX_RUNS;
    const double seconds = argc > 2 ? strtod(argv[2], NULL) : 0.5;
#endif
    const uint64_t begun = now_ns();
    size_t runs = 0;

    if (most < 1 || most > MAX_RUNS)
        most = MAX_RUNS;
    work();
    do {
        const uint64_t start = now_ns();
        work();
        run_ns[runs++] = now_ns() - start;
    } while (runs < (size_t)most && (seconds <= 0 || (double)(now_ns() - begun) < seconds * 1e9));
    qsort(run_ns, runs, sizeof run_ns[0], ascending);
    const uint64_t median = run_ns[runs / 2]; /* printf of a small C library knows neither double nor 64 bits */
    printf("{\"median_us\": %lu.%03lu, \"runs\": %lu, \"value\": %lu}\n", (unsigned long)(median / 1000u),
           (unsigned long)(median % 1000u), (unsigned long)runs, (unsigned long)values[LENGTH - 1]);
    return 0;
}
