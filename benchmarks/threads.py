"""One thread against several, in one run: how much faster a package for threads is, and what handing a loop over costs.

python benchmarks/threads.py PACKAGE... [--rounds 11] [--seconds 0.5] [--layers 10]
python benchmarks/threads.py --handover

PACKAGE is a folder that `edgetune build --threads N` wrote for this machine. Its own benchmark runs on one thread and
on N by turns, so that whatever else the machine does meets both; the order changes from round to round. Told are the
medians of both, and the ratio of each round: its median, smallest and largest. `--layers` lists the layers that lose
most against N times the speed. `--handover` measures loops that do nothing: `handover_cycles` of a target file is the
median times the clock. The machine must be idle for the ratio to mean something: the load is told beside it. The last
line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

from edgetune.package.manifest import read_manifest  # noqa: E402  the path comes first
from edgetune.package.rendering import render  # noqa: E402

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
    """Smallest of the rounds' medians in microseconds, on one thread and on all."""

    name: str
    one_us: float
    all_us: float


@dataclass(frozen=True)
class Comparison:
    """Microseconds of a run on one thread and on `threads`, medians of the rounds' medians; ratios one / all."""

    package: str
    threads: int
    one_us: float
    all_us: float
    ratio: float
    smallest: float
    largest: float
    layers: tuple[Layer, ...]


def compare(package: Path, rounds: int, seconds: float, layers: int) -> Comparison:
    """Build a copy of `package` and time it on one thread and on all, by turns."""
    manifest = read_manifest(package)
    threads, prefix = manifest.get("threads", 1), manifest["prefix"]
    if threads == 1:
        raise SystemExit(f"{package} is for one thread: write it with `edgetune build --threads 2`")
    with tempfile.TemporaryDirectory() as place:
        copy = Path(shutil.copytree(package, Path(place) / "package"))
        subprocess.run(["make", "-s", f"build/{prefix}_bench"], cwd=copy, check=True)
        told: dict[int, list[dict[str, Any]]] = {1: [], threads: []}
        for index in range(rounds):
            for count in (1, threads) if index % 2 == 0 else (threads, 1):
                command = [str(copy / f"build/{prefix}_bench"), "1000", str(seconds), str(count)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                told[count].append(json.loads(done.stdout.splitlines()[-1]))
    one, several = ([told[count][i]["median_us"] for i in range(rounds)] for count in (1, threads))
    ratios = [a / b for a, b in zip(one, several, strict=True)]
    best = {
        n: [min(r["layers"][i]["median_us"] for r in told[n]) for i in range(len(manifest["layers"]))] for n in told
    }
    found = [
        Layer(f"{i} {layer['kernel']}", best[1][i], best[threads][i]) for i, layer in enumerate(manifest["layers"])
    ]
    found.sort(key=lambda layer: layer.one_us / threads - layer.all_us)
    return Comparison(
        manifest["name"],
        threads,
        statistics.median(one),
        statistics.median(several),
        statistics.median(ratios),
        min(ratios),
        max(ratios),
        tuple(found[:layers]),
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
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--handover", action="store_true")
    asked = parser.parse_args()
    result: dict[str, Any] = {"load": [round(value, 2) for value in os.getloadavg()]}
    if asked.handover:
        result["handover"] = handover()
        print(f"hand-over: {result['handover']['median_ns']:.0f} ns, at best {result['handover']['smallest_ns']:.0f}")
    for package in asked.packages:
        found = compare(package, asked.rounds, asked.seconds, asked.layers)
        result.setdefault("packages", []).append(asdict(found))
        print(
            f"{found.package}: {found.one_us:.0f} us on 1 thread, {found.all_us:.0f} us on {found.threads}: "
            f"{found.ratio:.2f} ({found.smallest:.2f} to {found.largest:.2f}), load {result['load'][0]}"
        )
        for layer in found.layers:
            print(f"  {layer.name}: {layer.one_us:.1f} us, {layer.all_us:.1f} us, {layer.one_us / layer.all_us:.2f}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
