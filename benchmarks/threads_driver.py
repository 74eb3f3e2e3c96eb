"""The program that runs a package on one thread, of each core, and on several by turns, and probes the cores around."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PAIRED = """
#include "edgetune_timer.c"
#include "@p@.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "@p@_vectors.h"

static _Alignas(64) unsigned char workspaces[2][(@P@_WORKSPACE_BYTES + 63) / 64 * 64];
@buffers@
static @p@_ctx two[2];
static @p@_inputs inputs;
static @p@_outputs outputs;
static double *times, begun; /* of the layers: [layer][instance][pair] */
static long pairs, now_at;

static cpu_set_t together, alone[@P@_THREADS];
static int count; /* of the cores that are used */
static atomic_int ready;

static void fail(const char *what)
{
    fprintf(stderr, "%s\\n", what);
    exit(1);
}

static void *width_of_core(void *width)
{
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < count)
        ;
    *(double *)width = edgetune_width();
    return NULL;
}

static double widths[@P@_THREADS]; /* the least of all probes of a core since they were set */

/* The cores that the command line names from its third word on. */
static void find_cores(char **names)
{
    CPU_ZERO(&together);
    for (; *names != NULL && count < @P@_THREADS; names++, count++) {
        const unsigned core = (unsigned)strtoul(*names, NULL, 10);

        CPU_SET(core, &together);
        CPU_ZERO(&alone[count]);
        CPU_SET(core, &alone[count]);
    }
}

static void stay_on(const cpu_set_t *cores)
{
    if (sched_setaffinity(0, sizeof *cores, cores) != 0)
        fail("cannot stay on a core");
}

/* What each core does at once just now: of a thread on each, all at the same time. */
static void probe(void)
{
    pthread_t threads[@P@_THREADS];
    double now[@P@_THREADS];

    atomic_store(&ready, 0);
    for (int i = 0; i < count; i++) {
        pthread_attr_t attributes;

        if (pthread_attr_init(&attributes) != 0
            || pthread_attr_setaffinity_np(&attributes, sizeof alone[i], &alone[i]) != 0
            || pthread_create(&threads[i], &attributes, width_of_core, &now[i]) != 0)
            fail("cannot probe a core");
        (void)pthread_attr_destroy(&attributes);
    }
    for (int i = 0; i < count; i++) {
        if (pthread_join(threads[i], NULL) != 0)
            fail("cannot probe a core");
        widths[i] = now[i] < widths[i] ? now[i] : widths[i];
    }
}

static void on_layer(void *user, unsigned layer, const char *name, int end)
{
    const size_t row = 2 * layer + (size_t)((@p@_ctx *)user - two);

    (void)name;
    if (end)
        times[row * (size_t)pairs + (size_t)now_at] = (double)now_ns() - begun;
    begun = (double)now_ns();
}

/* Nanoseconds of a run of an instance on `cores`. */
static double timed(int which, const cpu_set_t *cores)
{
    stay_on(cores);
    if (@p@_run(&two[which], &inputs, &outputs) != @P@_OK)
        fail("a run failed");
    const double start = (double)now_ns();
    if (@p@_run(&two[which], &inputs, &outputs) != @P@_OK)
        fail("a run failed");
    return (double)now_ns() - start;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        fail("usage: PAIRS LAYERS CORE...");
    pairs = strtol(argv[1], NULL, 10);
    const int layers = argv[2][0] == '1';
    times = calloc(2u * @P@_LAYERS * (size_t)pairs, sizeof *times);
    memset(&inputs, 0, sizeof inputs);
    memset(&outputs, 0, sizeof outputs);
@tensors@
    (void)@p@_vector_inputs;
    (void)@p@_vector_outputs;
    find_cores(argv + 3);
    stay_on(&together); /* as the threads do that are started here */
    for (int i = 0; i < 2; i++)
        if (times == NULL || @p@_init(&two[i], workspaces[i], sizeof workspaces[i]) @bind@
            || @p@_set_threads(&two[i], i == 0 ? 1 : @P@_THREADS))
            fail("an instance cannot be made");
    printf("[[");
    for (now_at = 0; now_at < pairs; now_at++) {
        double took[@P@_THREADS + 1];
        for (int i = 0; i < count; i++)
            widths[i] = 1e9;
        probe();
        for (int i = 0; i <= count; i++) {
            const int next = (i + (int)now_at) % (count + 1);
            took[next] = next < count ? timed(0, &alone[next]) : timed(1, &together);
            probe();
        }
        printf("%s[[", now_at ? "," : "");
        for (int i = 0; i < count; i++)
            printf("%s%.0f", i ? "," : "", took[i]);
        printf("],%.0f,[", took[count]);
        for (int i = 0; i < count; i++)
            printf("%s%.6g", i ? "," : "", widths[i]);
        printf("]]");
    }
    printf("],[");
    for (int i = 0; layers && i < 2; i++)
        @p@_set_profiler(&two[i], on_layer, &two[i]);
    for (now_at = 0; layers && now_at < pairs; now_at++)
        for (int i = 0; i < 2; i++) {
            const int which = (i + (int)now_at) & 1;
            timed(which, which ? &together : &alone[now_at % count]);
        }
    for (size_t l = 0; layers && l < 2u * @P@_LAYERS; l++)
        for (long i = 0; i < pairs; i++) {
            const char *const before = i ? "," : l == 0 ? "[[" : l % 2 == 0 ? "]],[[" : "],[";
            printf("%s%.0f", before, times[l * (size_t)pairs + (size_t)i]);
        }
    printf(layers ? "]]]]" : "]]");
    for (int i = 0; i < 2; i++)
        @p@_deinit(&two[i]);
    free(times);
    return 0;
}
"""


def driver(manifest: Mapping[str, Any]) -> str:
    """C text of the program with both instances; it takes the place of the package's own benchmark."""
    prefix, memory = str(manifest["prefix"]), manifest["memory"]
    external = memory["weights_placement"] == "external" and memory["weights_bytes"]
    upper = prefix.upper()
    tensors = [
        f"    inputs.{t['field']} = (const void *){prefix}_vector_inputs[0][{i}];"
        for i, t in enumerate(manifest["inputs"])
    ]
    tensors += [f"    outputs.{t['field']} = (void *)output_{t['field']};" for t in manifest["outputs"]]
    return (
        _PAIRED.replace(
            "@bind@",
            f"|| {prefix}_bind_weights(&two[i], {prefix}__test_weights, {upper}_WEIGHTS_BYTES)" if external else "",
        )
        .replace(
            "@buffers@",
            "\n".join(
                f"static _Alignas(64) unsigned char output_{t['field']}[{t['bytes']} + 1];" for t in manifest["outputs"]
            ),
        )
        .replace("@tensors@", "\n".join(tensors))
        .replace("@p@", prefix)
        .replace("@P@", upper)
    )
