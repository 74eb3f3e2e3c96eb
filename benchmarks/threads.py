"""One thread against several, in one run: how much faster a package for threads is, and what handing a loop over costs.

python benchmarks/threads.py PACKAGE... [--pairs 101] [--layers 10]
python benchmarks/threads.py --handover

PACKAGE is a folder that `edgetune build --threads N` wrote for this machine. One process has two instances of it, for
one thread and for N, and runs them by turns, so that both runs of a pair meet whatever else the machine does; the order
changes from pair to pair, and before each timed run its instance runs once untimed. Told are the medians of both, and
of the pairs' ratios the median and the quartiles. `--layers` lists the layers that lose most against N times the speed,
by the lowest decile of their times. `--handover` measures loops that do nothing: `handover_cycles` of a target file is
the median times the clock. The machine must be idle for the ratio to mean something: the load is told beside it. The
last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

from edgetune.package.manifest import read_manifest  # noqa: E402  the path comes first
from edgetune.package.rendering import render  # noqa: E402
from edgetune.package.toolchain import Toolchain  # noqa: E402
from edgetune.package.work_copy import make, run, work_copy  # noqa: E402

TIMEOUT_S = 900.0
LOOPS = 20000
_HANDOVER = """
#include "idle_parallel.h"
#include <stdio.h>
#include <time.h>
static void nothing(const void *w, int32_t b, int32_t e, int32_t n) { (void)w; (void)b; (void)e; (void)n; }
int main(void)
{
    static _Alignas(64) unsigned char memory[IDLE_POOL_BYTES];
    struct idle__pool *pool = idle__pool_init(memory);
    if (idle__pool_start(pool, IDLE_THREADS) != 0)
        return 1;
    for (int i = 0; i < %d; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        idle__parallel_for(pool, nothing, 0, 64, 8);
        clock_gettime(CLOCK_MONOTONIC, &b);
        printf("%%ld\\n", (long)(b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec);
    }
    idle__pool_stop(pool);
    return 0;
}
"""
_HEADER = """
#include <stddef.h>
#include <stdint.h>
#define IDLE_THREADS 2
#define IDLE_POOL_BYTES 1024
typedef enum { IDLE_OK = 0, IDLE_ERR_THREADS = -9 } idle_status;
typedef void (*idle_task_fn)(void *argument, int n);
typedef void (*idle_executor_fn)(void *user, idle_task_fn task, void *argument, int threads);
"""


_PAIRED = """
#define _POSIX_C_SOURCE 200809L
#include "@p@.h"
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

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void on_layer(void *user, unsigned layer, const char *name, int end)
{
    (void)name;
    if (end)
        times[(2 * layer + (size_t)((@p@_ctx *)user - two)) * (size_t)pairs + (size_t)now_at] = now_ns() - begun;
    begun = now_ns();
}

static double timed(int which)
{
    if (@p@_run(&two[which], &inputs, &outputs) != @P@_OK)
        exit(2);
    const double start = now_ns();
    if (@p@_run(&two[which], &inputs, &outputs) != @P@_OK)
        exit(2);
    return now_ns() - start;
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
        for (int i = 0; i < 2; i++)
            took[(i + now_at) & 1] = timed((i + (int)now_at) & 1);
        printf("%s[%.0f,%.0f]", now_at ? "," : "", took[0], took[1]);
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


@dataclass(frozen=True)
class Layer:
    """Lowest deciles of its times in microseconds, on one thread and on all."""

    name: str
    one_us: float
    all_us: float


@dataclass(frozen=True)
class Comparison:
    """Median microseconds of a run on one thread and on `threads`; median and quartiles of the pairs' ratios."""

    package: str
    threads: int
    one_us: float
    all_us: float
    ratio: float
    lower: float
    upper: float
    layers: tuple[Layer, ...]


def compare(package: Path, pairs: int, layers: int) -> Comparison:
    """Build a copy of `package` with instances for one thread and for all, and time these by turns."""
    threads = read_manifest(package).get("threads", 1)
    if threads == 1:
        raise SystemExit(f"{package} is for one thread: write it with `edgetune build --threads 2`")
    with work_copy(package) as (copy, manifest):
        tools = Toolchain.of(manifest)
        tools.require()
        prefix = manifest["prefix"]
        (copy / f"test/{prefix}_bench.c").write_text(driver(manifest), encoding="utf-8")
        make(copy, f"build/{prefix}_bench", tools, TIMEOUT_S)
        done = run([str(copy / f"build/{prefix}_bench"), str(pairs), str(int(layers > 0))], copy, TIMEOUT_S)
    if done.status:
        raise SystemExit(f"the paired runs of {package} ended with status {done.status}: {done.stderr.strip()}")
    runs, profiled = json.loads(done.stdout)
    ratios = [one / several for one, several in runs]
    lower, middle, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    found = []
    for index, (layer, times) in enumerate(zip(manifest["layers"], profiled, strict=False)):
        one, several = (statistics.quantiles(side, n=10, method="inclusive")[0] / 1e3 for side in times)
        found.append(Layer(f"{index} {layer['kernel']}", one, several))
    found.sort(key=lambda layer: layer.one_us / threads - layer.all_us)
    medians = [statistics.median(side) / 1e3 for side in zip(*runs, strict=True)]
    return Comparison(manifest["name"], threads, medians[0], medians[1], middle, lower, upper, tuple(found[:layers]))


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


def handover() -> dict[str, float]:
    """Nanoseconds of a loop of 64 iterations that do nothing, on two threads: median and smallest."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        api = {"upper": "IDLE", "threads": 2}
        for name in ("parallel.h", "parallel.c"):
            (folder / f"idle_{name}").write_text(render(f"{name}.j2", p="idle", api=api, generator=""))
        (folder / "idle.h").write_text(_HEADER)
        (folder / "main.c").write_text(_HANDOVER % LOOPS)
        sources = ["main.c", "idle_parallel.c"]
        subprocess.run(["cc", "-std=gnu11", "-O2", "-I.", *sources, "-pthread", "-o", "idle"], cwd=folder, check=True)
        done = subprocess.run([str(folder / "idle")], capture_output=True, text=True, check=True)
    times = [float(line) for line in done.stdout.split()][LOOPS // 10 :]
    return {"median_ns": statistics.median(times), "smallest_ns": min(times)}


def main() -> None:
    """Measure, and print a table and one JSON line."""
    parser = argparse.ArgumentParser(description="One thread against several.")
    parser.add_argument("packages", nargs="*", type=Path)
    parser.add_argument("--pairs", type=int, default=101)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--handover", action="store_true")
    asked = parser.parse_args()
    if asked.pairs < 2:
        parser.error("--pairs needs at least 2: quartiles of one ratio are none")
    result: dict[str, Any] = {"load": [round(value, 2) for value in os.getloadavg()]}
    if asked.handover:
        result["handover"] = handover()
        print(f"hand-over: {result['handover']['median_ns']:.0f} ns, at best {result['handover']['smallest_ns']:.0f}")
    for package in asked.packages:
        found = compare(package, asked.pairs, asked.layers)
        result.setdefault("packages", []).append(asdict(found))
        print(
            f"{found.package}: {found.one_us:.0f} us on 1 thread, {found.all_us:.0f} us on {found.threads}: "
            f"{found.ratio:.2f} (quartiles {found.lower:.2f} and {found.upper:.2f}), load {result['load'][0]}"
        )
        for layer in found.layers:
            print(f"  {layer.name}: {layer.one_us:.1f} us, {layer.all_us:.1f} us, {layer.one_us / layer.all_us:.2f}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
