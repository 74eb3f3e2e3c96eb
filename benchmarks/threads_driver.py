"""The program that runs a package on one thread, of each core, on several, and on each core apart, by turns.

It probes the cores around.
"""

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

#define ALL @P@_THREADS /* the instance for all threads; those before it are for one, each on its core */
#define INSTANCES (ALL + 1)

static _Alignas(64) unsigned char workspaces[INSTANCES][(@P@_WORKSPACE_BYTES + 63) / 64 * 64];
@buffers@
static @p@_ctx instances[INSTANCES];
static @p@_inputs inputs;
static @p@_outputs outputs[INSTANCES];
static double *times, begun; /* of the layers: [layer][one or all][pair] */
static long pairs, now_at;

static cpu_set_t together, alone[@P@_THREADS];
static int count; /* of the cores that are used */
static atomic_int ready;

static void fail(const char *what)
{
    fprintf(stderr, "%s\\n", what);
    exit(1);
}

/* Returns when a thread on each core has come here. */
static void meet(void)
{
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < count)
        ;
}

static void run(int which)
{
    if (@p@_run(&instances[which], &inputs, &outputs[which]) != @P@_OK)
        fail("a run failed");
}

typedef struct {
    int core; /* its place among those that are used */
    double found;
} job;

static void *width_of_core(void *asked)
{
    meet();
    ((job *)asked)->found = edgetune_width();
    return NULL;
}

static void *time_apart(void *asked)
{
    job *const own = (job *)asked;

    run(own->core);
    meet();
    const double start = (double)now_ns();
    run(own->core);
    own->found = (double)now_ns() - start;
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

/* What `task` finds by a thread on each core, all at the same time. */
static void on_each_core(void *(*task)(void *), double *found)
{
    pthread_t threads[@P@_THREADS];
    job jobs[@P@_THREADS];

    atomic_store(&ready, 0);
    for (int i = 0; i < count; i++) {
        pthread_attr_t attributes;

        jobs[i] = (job){i, 0.0};
        if (pthread_attr_init(&attributes) != 0
            || pthread_attr_setaffinity_np(&attributes, sizeof alone[i], &alone[i]) != 0
            || pthread_create(&threads[i], &attributes, task, &jobs[i]) != 0)
            fail("cannot start a thread on a core");
        (void)pthread_attr_destroy(&attributes);
    }
    for (int i = 0; i < count; i++) {
        if (pthread_join(threads[i], NULL) != 0)
            fail("cannot wait for a core");
        found[i] = jobs[i].found;
    }
}

/* What each core does at once just now. */
static void probe(void)
{
    double now[@P@_THREADS];

    on_each_core(width_of_core, now);
    for (int i = 0; i < count; i++)
        widths[i] = now[i] < widths[i] ? now[i] : widths[i];
}

static void on_layer(void *user, unsigned layer, const char *name, int end)
{
    const size_t row = 2 * layer + ((@p@_ctx *)user == &instances[ALL]);

    (void)name;
    if (end)
        times[row * (size_t)pairs + (size_t)now_at] = (double)now_ns() - begun;
    begun = (double)now_ns();
}

/* Nanoseconds of a run of an instance on `cores`. */
static double timed(int which, const cpu_set_t *cores)
{
    stay_on(cores);
    run(which);
    const double start = (double)now_ns();
    run(which);
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
    memset(outputs, 0, sizeof outputs);
@tensors@
    (void)@p@_vector_inputs;
    (void)@p@_vector_outputs;
    find_cores(argv + 3);
    stay_on(&together); /* as the threads do that are started here */
    for (int i = 0; i < INSTANCES; i++)
        if (times == NULL || @p@_init(&instances[i], workspaces[i], sizeof workspaces[i]) @bind@
            || @p@_set_threads(&instances[i], i == ALL ? @P@_THREADS : 1))
            fail("an instance cannot be made");
    printf("[[");
    for (now_at = 0; now_at < pairs; now_at++) {
        double took[@P@_THREADS + 1], apart[@P@_THREADS];
        for (int i = 0; i < count; i++)
            widths[i] = 1e9;
        probe();
        for (int i = 0; i < count + 2; i++) {
            const int next = (i + (int)now_at) % (count + 2);
            if (next > count)
                on_each_core(time_apart, apart);
            else
                took[next] = next < count ? timed(next, &alone[next]) : timed(ALL, &together);
            probe();
        }
        printf("%s[[", now_at ? "," : "");
        for (int i = 0; i < count; i++)
            printf("%s%.0f", i ? "," : "", took[i]);
        printf("],%.0f,[", took[count]);
        for (int i = 0; i < count; i++)
            printf("%s%.6g", i ? "," : "", widths[i]);
        printf("],[");
        for (int i = 0; i < count; i++)
            printf("%s%.0f", i ? "," : "", apart[i]);
        printf("]]");
    }
    printf("],[");
    for (int i = 0; layers && i < INSTANCES; i++)
        @p@_set_profiler(&instances[i], on_layer, &instances[i]);
    for (now_at = 0; layers && now_at < pairs; now_at++)
        for (int i = 0; i < 2; i++) {
            const int core = (int)(now_at % count);
            if ((i + now_at) & 1)
                timed(ALL, &together);
            else
                timed(core, &alone[core]);
        }
    for (size_t l = 0; layers && l < 2u * @P@_LAYERS; l++)
        for (long i = 0; i < pairs; i++) {
            const char *const before = i ? "," : l == 0 ? "[[" : l % 2 == 0 ? "]],[[" : "],[";
            printf("%s%.0f", before, times[l * (size_t)pairs + (size_t)i]);
        }
    printf(layers ? "]]]]" : "]]");
    for (int i = 0; i < INSTANCES; i++)
        @p@_deinit(&instances[i]);
    free(times);
    return 0;
}
"""


def driver(manifest: Mapping[str, Any]) -> str:
    """C text of the program with all instances; it takes the place of the package's own benchmark."""
    prefix, memory = str(manifest["prefix"]), manifest["memory"]
    external = memory["weights_placement"] == "external" and memory["weights_bytes"]
    upper = prefix.upper()
    tensors = [
        f"    inputs.{t['field']} = (const void *){prefix}_vector_inputs[0][{i}];"
        for i, t in enumerate(manifest["inputs"])
    ]
    outputs = [f"        outputs[i].{t['field']} = (void *)output_{t['field']}[i];" for t in manifest["outputs"]]
    tensors += ["    for (int i = 0; i < INSTANCES; i++) {", *outputs, "    }"]
    return (
        _PAIRED.replace(
            "@bind@",
            f"|| {prefix}_bind_weights(&instances[i], {prefix}__test_weights, {upper}_WEIGHTS_BYTES)"
            if external
            else "",
        )
        .replace(
            "@buffers@",
            "\n".join(
                f"static _Alignas(64) unsigned char output_{t['field']}[INSTANCES][({t['bytes']} + 63) / 64 * 64 + 64];"
                for t in manifest["outputs"]
            ),
        )
        .replace("@tensors@", "\n".join(tensors))
        .replace("@p@", prefix)
        .replace("@P@", upper)
    )
