"""The program that runs a package on one thread and on several by turns, and probes all cores around each run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PAIRED = """
#include "edgetune_timer.c"
#include "@p@.h"
#include <pthread.h>
#include <sched.h>
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

static void *width_of_core(void *width)
{
    *(double *)width = edgetune_width();
    return NULL;
}

static double narrowest, widest; /* since they were set, of all probes of all cores */

/* What each core of this process does at once just now: of a thread on each, all at the same time. */
static void probe(void)
{
    pthread_t threads[CPU_SETSIZE];
    double widths[CPU_SETSIZE];
    cpu_set_t cores;
    int count = 0;

    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        exit(3);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        cpu_set_t one;
        pthread_attr_t attributes;

        if (!CPU_ISSET(core, &cores))
            continue;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        if (pthread_attr_init(&attributes) != 0
            || pthread_attr_setaffinity_np(&attributes, sizeof one, &one) != 0
            || pthread_create(&threads[count], &attributes, width_of_core, &widths[count]) != 0)
            exit(3);
        (void)pthread_attr_destroy(&attributes);
        count++;
    }
    for (int i = 0; i < count; i++)
        if (pthread_join(threads[i], NULL) != 0)
            exit(3);
    for (int i = 0; i < count; i++) {
        narrowest = widths[i] < narrowest ? widths[i] : narrowest;
        widest = widths[i] > widest ? widths[i] : widest;
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

static double timed(int which)
{
    if (@p@_run(&two[which], &inputs, &outputs) != @P@_OK)
        exit(2);
    const double start = (double)now_ns();
    if (@p@_run(&two[which], &inputs, &outputs) != @P@_OK)
        exit(2);
    return (double)now_ns() - start;
}

int main(int argc, char **argv)
{
    pairs = strtol(argv[argc - 2], NULL, 10);
    const int layers = argv[argc - 1][0] == '1';
    times = calloc(2u * @P@_LAYERS * (size_t)pairs, sizeof *times);
    memset(&inputs, 0, sizeof inputs);
    memset(&outputs, 0, sizeof outputs);
@tensors@
    (void)@p@_vector_inputs;
    (void)@p@_vector_outputs;
    for (int i = 0; i < 2; i++)
        if (times == NULL || @p@_init(&two[i], workspaces[i], sizeof workspaces[i]) @bind@
            || @p@_set_threads(&two[i], i == 0 ? 1 : @P@_THREADS))
            return 1;
    printf("[[");
    for (now_at = 0; now_at < pairs; now_at++) {
        double took[2];
        narrowest = 1e9, widest = 0;
        probe();
        for (int i = 0; i < 2; i++) {
            took[(i + now_at) & 1] = timed((i + (int)now_at) & 1);
            probe();
        }
        printf("%s[%.0f,%.0f,%.6g,%.6g]", now_at ? "," : "", took[0], took[1], narrowest, widest);
    }
    printf("],[");
    for (int i = 0; layers && i < 2; i++)
        @p@_set_profiler(&two[i], on_layer, &two[i]);
    for (now_at = 0; layers && now_at < pairs; now_at++)
        for (int i = 0; i < 2; i++)
            timed((i + (int)now_at) & 1);
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
