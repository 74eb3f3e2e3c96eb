"""One thread against several, in one run: how much faster a package for threads is, and what handing a loop over costs.

python benchmarks/threads.py PACKAGE... [--pairs 101] [--layers 10]
python benchmarks/threads.py --handover

PACKAGE is a folder that `edgetune build --threads N` wrote for this machine. One process has an instance of it for one
thread on each core and one for N, and uses N cores (of their own, where there are so many), or as many as there are.
By turns it runs the one thread on each of these cores and the N threads on all of them, so that the runs of a pair
meet whatever else the machine does, to any of its cores; the order changes from pair to pair, and before each timed
run its instance runs once untimed. The time on one thread is the harmonic mean over the cores, which N threads that
lose nothing divide by N. Told are the medians of both, and of the pairs' ratios the median and the quartiles.
`--layers` lists the layers that lose most against that, by the lowest decile of their times. What each of the cores
does with runs of its own, all at the same time, is told as a ratio as well: threads that lose nothing to each other,
but for what all cores share (memory, and neighbours on any of them), would come as far. Before and behind each timed
run all cores are probed at once for strangers on another thread of the same core, who make it do less: the median over
pairs in which no probe saw any is told too (who stays all the time is not seen). A stranger on any core holds up all N
threads, but one thread only on its own: the ratio of the lowest deciles, of each core and of all, is told beside.
`--handover` measures loops that do nothing: `handover_cycles` of a target file is the median times the clock. The
machine must be idle for the ratio to mean something: the load is told beside it. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

from benchmarks.threads_driver import driver  # noqa: E402  the path comes first
from edgetune.package.manifest import read_manifest  # noqa: E402
from edgetune.package.rendering import render  # noqa: E402
from edgetune.verify.toolchain import PackageToolchain  # noqa: E402
from edgetune.verify.work_copy import make, run, work_copy  # noqa: E402

TIMEOUT_S = 900.0
_TIMER = ROOT / "edgetune" / "boards" / "local" / "timer.c"
_TIMER_HEADERS = ROOT / "templates" / "agent"
_ALONE = 0.9  # of what a core alone does at once; two threads of a core have about 0.6 of it each
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
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


@dataclass(frozen=True)
class Layer:
    """Lowest deciles of its times in microseconds, on one thread and on all."""

    name: str
    one_us: float
    all_us: float


@dataclass(frozen=True)
class Comparison:
    """Median microseconds of a run on one thread and on `threads`; median and quartiles of the pairs' ratios.

    `cores` are the numbers of the cores that were used. `calm_ratio` is the median over the `calm` of all `pairs` in
    which no probe saw a stranger on any of them, if there are such; `least_ratio` is that of the lowest deciles.
    `apart_ratio` is the median of how many times the runs of one core all cores do, each with runs of its own.
    """

    package: str
    threads: int
    cores: tuple[int, ...]
    one_us: float
    all_us: float
    ratio: float
    lower: float
    upper: float
    pairs: int
    calm: int
    calm_ratio: float | None
    least_ratio: float
    apart_ratio: float
    layers: tuple[Layer, ...]


def compare(package: Path, pairs: int, layers: int) -> Comparison:
    """Build a copy of `package` with instances for one thread and for all, and time these by turns."""
    threads = read_manifest(package).get("threads", 1)
    if threads == 1:
        raise SystemExit(f"{package} is for one thread: write it with `edgetune build --threads 2`")
    with work_copy(package) as (copy, manifest):
        tools = PackageToolchain.of(manifest)
        tools.require()
        prefix = manifest["prefix"]
        (copy / f"test/{prefix}_bench.c").write_text(driver(manifest), encoding="utf-8")
        (copy / "test/edgetune_timer.c").write_bytes(_TIMER.read_bytes())
        for header in _TIMER_HEADERS.glob("*.h"):
            (copy / "test" / header.name).write_bytes(header.read_bytes())
        make(copy, f"build/{prefix}_bench", tools, TIMEOUT_S)
        cores = cores_for(threads)
        words = [str(pairs), str(int(layers > 0)), *map(str, cores)]
        done = run([str(copy / f"build/{prefix}_bench"), *words], copy, TIMEOUT_S)
    if done.status:
        raise SystemExit(f"the paired runs of {package} ended with status {done.status}: {done.stderr.strip()}")
    runs, profiled = json.loads(done.stdout)
    ones = [statistics.harmonic_mean(alone) for alone, *_ in runs]
    all_ = [several for _, several, *_ in runs]
    aparts = [one * sum(1 / took for took in apart) for one, (*_, apart) in zip(ones, runs, strict=True)]
    ratios = [one / several for one, several in zip(ones, all_, strict=True)]
    undisturbed = _undisturbed([widths for *_, widths, _ in runs])
    calm = [ratio for ratio, alone in zip(ratios, undisturbed, strict=True) if alone]
    lower, middle, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    by_core = zip(*(alone for alone, *_ in runs), strict=True)
    least = statistics.harmonic_mean([_lowest_decile(times) for times in by_core])
    found = []
    for index, (layer, times) in enumerate(zip(manifest["layers"], profiled, strict=False)):
        one, several = (_lowest_decile(side) / 1e3 for side in times)
        found.append(Layer(f"{index} {layer['kernel']}", one, several))
    found.sort(key=lambda layer: layer.one_us / len(cores) - layer.all_us)
    return Comparison(
        manifest["name"],
        threads,
        cores,
        statistics.median(ones) / 1e3,
        statistics.median(all_) / 1e3,
        middle,
        lower,
        upper,
        len(runs),
        len(calm),
        statistics.median(calm) if calm else None,
        least / _lowest_decile(all_),
        statistics.median(aparts),
        tuple(found[:layers]),
    )


def cores_for(threads: int) -> tuple[int, ...]:
    """As many of the CPUs of this process as there are threads, if it has them, of cores of their own first."""
    allowed = sorted(os.sched_getaffinity(0))
    cores: dict[str, list[int]] = {}
    for number in allowed:
        siblings = Path(_SIBLINGS.format(number))
        cores.setdefault(siblings.read_text() if siblings.exists() else str(number), []).append(number)
    rank = {number: core.index(number) for core in cores.values() for number in core}
    return tuple(sorted(sorted(allowed, key=lambda number: (rank[number], number))[:threads]))


def _undisturbed(widths: Sequence[Sequence[float]]) -> list[bool]:
    """Whether in a pair no core did clearly less at once than it does alone; `widths` are the least of each core."""
    alone = [sorted(core)[len(core) * 95 // 100] for core in zip(*widths, strict=True)]
    return [all(width >= _ALONE * best for width, best in zip(pair, alone, strict=True)) for pair in widths]


def _lowest_decile(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=10, method="inclusive")[0]


def handover() -> dict[str, float]:
    """Nanoseconds of a loop of 64 iterations that do nothing, on two threads: median and smallest."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        api = {"upper": "IDLE", "threads": 2}
        for name in ("parallel.h", "parallel.c"):
            (folder / f"idle_{name}").write_text(render(f"core/{name}.j2", p="idle", api=api, generator=""))
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
        calm = f"{found.calm_ratio:.2f} in " if found.calm_ratio is not None else ""
        print(
            f"{found.package}: {found.one_us:.0f} us on 1 thread, {found.all_us:.0f} us on {found.threads} "
            f"(cores {', '.join(map(str, found.cores))}): "
            f"{found.ratio:.2f} (quartiles {found.lower:.2f} and {found.upper:.2f}), load {result['load'][0]}; "
            f"{calm}{found.calm} of {found.pairs} pairs without a stranger seen; "
            f"{found.least_ratio:.2f} at the lowest deciles; {found.apart_ratio:.2f} with a run of its own on each core"
        )
        for layer in found.layers:
            print(f"  {layer.name}: {layer.one_us:.1f} us, {layer.all_us:.1f} us, {layer.one_us / layer.all_us:.2f}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
