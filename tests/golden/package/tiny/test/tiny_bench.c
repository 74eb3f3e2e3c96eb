/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny: benchmark. The last line is one JSON object; times are microseconds.
 * Written by edgetune 0.1.0; edits are lost when `edgetune build` writes it again.
 */
#define _POSIX_C_SOURCE 200809L
#include "tiny.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tiny_vectors.h"

#define MAX_RUNS 1000
#define MAX_PROFILED 50

/* Nanoseconds from any start; -DTINY_NOW_NS=function brings another clock. */
#ifdef TINY_NOW_NS
uint64_t TINY_NOW_NS(void);
#define now_ns TINY_NOW_NS
#else
static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
#endif

static _Alignas(64) unsigned char workspace[TINY_WORKSPACE_BYTES];
static _Alignas(64) unsigned char output_y[TINY_OUTPUT_Y_BYTES + 1];
static uint64_t run_ns[MAX_RUNS];

#ifndef TINY_NO_PROFILER
/* The last row has the cost of the clock: a layer that does nothing. */
static uint64_t layer_ns[TINY_LAYERS + 1][MAX_PROFILED];

static const char *const layer_names[] = {
    "\042Mul * / one + Add\042",
    "\042second scale\042",
    "\042Add\042",
};

typedef struct {
    uint64_t start;
    size_t run;
} stopwatch;

static void on_layer(void *user, unsigned layer, const char *name, int end)
{
    stopwatch *watch = (stopwatch *)user;

    (void)name;
    if (end)
        layer_ns[layer][watch->run] = now_ns() - watch->start;
    else
        watch->start = now_ns();
}

/* Microseconds of a layer, the median or the least, without what the clock takes. */
static double layer_us(unsigned layer, size_t place)
{
    const uint64_t whole = layer_ns[layer][place], clock = layer_ns[TINY_LAYERS][place];

    return whole > clock ? (double)(whole - clock) / 1e3 : 0.0;
}
#endif

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* tiny_bench [runs [seconds [threads [samples]]]]: at most `runs` runs, and not for longer than `seconds` once three
 * are done (on one thread, whatever `threads` says). A fourth argument prints the nanoseconds of each run as well. */
int main(int argc, char **argv)
{
    const long asked = argc > 1 ? strtol(argv[1], NULL, 10) : MAX_RUNS;
    const double seconds = argc > 2 ? strtod(argv[2], NULL) : 3.0;
    const size_t limit = asked < 1 ? 1 : asked > MAX_RUNS ? MAX_RUNS : (size_t)asked;
    tiny_ctx ctx;
    tiny_inputs inputs;
    tiny_outputs outputs;
    tiny_status status = tiny_init(&ctx, workspace, sizeof workspace);
#ifndef TINY_NO_PROFILER
    stopwatch watch = {0, 0};
#endif
    size_t runs = 0;

    memset(&inputs, 0, sizeof inputs);
    memset(&outputs, 0, sizeof outputs);
    inputs.x = (const float *)tiny_vector_inputs[0][0];
    outputs.y = (float *)(void *)output_y;
    (void)tiny_vector_inputs;
    (void)tiny_vector_outputs;
    if (status == TINY_OK)
        status = tiny_run(&ctx, &inputs, &outputs); /* warm-up */

    const uint64_t begin = now_ns();
    while (status == TINY_OK && runs < limit && (runs < 3 || (double)(now_ns() - begin) < seconds * 1e9)) {
        const uint64_t start = now_ns();
        status = tiny_run(&ctx, &inputs, &outputs);
        run_ns[runs++] = now_ns() - start;
    }
#ifndef TINY_NO_PROFILER
    /* Layers in runs of their own: reading the clock around each of them costs time. It is taken from them again. */
    const tiny_profile_fn volatile hook = on_layer; /* called as the package calls it */
    tiny_set_profiler(&ctx, on_layer, &watch);
    const size_t wanted = runs < MAX_PROFILED ? runs : MAX_PROFILED;
    const uint64_t second = now_ns();
    while (status == TINY_OK && watch.run < wanted && (watch.run < 3 || (double)(now_ns() - second) < seconds * 1e9)) {
        status = tiny_run(&ctx, &inputs, &outputs);
        hook(&watch, TINY_LAYERS, "", 0);
        hook(&watch, TINY_LAYERS, "", 1);
        watch.run++;
    }
    const size_t profiled = watch.run;
#endif
    if (status != TINY_OK) {
        fprintf(stderr, "tiny_bench: %s\n", tiny_strerror(status));
        return 1;
    }

    if (argc > 4) {
        printf("samples_ns:");
        for (size_t i = 0; i < runs; i++)
            printf(" %llu", (unsigned long long)run_ns[i]);
        printf("\n");
    }
    qsort(run_ns, runs, sizeof run_ns[0], ascending);
    printf("{\"median_us\": %.3f, \"min_us\": %.3f, \"runs\": %lu, \"threads\": 1, \"layers\": [", (double)run_ns[runs / 2] / 1e3,
           (double)run_ns[0] / 1e3, (unsigned long)runs);
#ifndef TINY_NO_PROFILER
    for (size_t i = 0; i <= TINY_LAYERS; i++)
        qsort(layer_ns[i], profiled, sizeof layer_ns[i][0], ascending);
    for (unsigned i = 0; i < TINY_LAYERS; i++)
        printf("%s{\"index\": %u, \"name\": %s, \"median_us\": %.3f, \"min_us\": %.3f}", i == 0 ? "" : ", ", i, layer_names[i],
               layer_us(i, profiled / 2), layer_us(i, 0));
    printf("], \"clock_us\": %.3f}\n", (double)layer_ns[TINY_LAYERS][profiled / 2] / 1e3);
#else
    printf("]}\n");
#endif
    return 0;
}
