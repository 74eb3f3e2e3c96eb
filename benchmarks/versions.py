"""Packages of one model in one process, their runs interleaved: which version is faster, and by how much.

python benchmarks/versions.py BEFORE AFTER... [--rounds 201] [--seed 1] [--twins]

Each PACKAGE is a folder that `edgetune build` wrote for this machine; those for several threads are run on one thread,
of each of their cores, and on all. In a round each version runs once in each of these ways, all in an order drawn
anew, and before each timed run once untimed; inputs are zeroes. So whatever else the machine does meets all versions
alike: where neighbours move the results of separate runs by ten percent, some hundred rounds tell one. Told are
medians, the ratio of one thread to all, and for each version behind the first the median over rounds of its time
divided by the first one's of the same round, less 1, with its standard error by the bootstrap (Efron and Tibshirani,
An Introduction to the Bootstrap, chapter 6). The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

from benchmarks.threads import cores_for  # noqa: E402
from edgetune.package.manifest import read_manifest  # noqa: E402
from edgetune.verify.shared_library import build_library  # noqa: E402  the path comes first

RESAMPLES = 200


@dataclass(frozen=True)
class Change:
    """Median over rounds of a quotient of times, less 1, and its standard error."""

    share: float
    error: float


@dataclass(frozen=True)
class Version:
    """Median microseconds of a run of a package on one thread and on all, and the median of their ratio.

    `one` and `all` are the changes against the first version; `all` is of the same runs as `one` for one thread.
    """

    package: str
    threads: int
    one_us: float
    all_us: float
    ratio: float
    one: Change
    all: Change


class Instance:
    """A package in this process. `run` raises SystemExit when the package answers with an error."""

    def __init__(self, package: Path, folder: Path) -> None:
        self.package = package
        self.threads: int = read_manifest(package).get("threads", 1)
        folder.mkdir()
        self._library = ctypes.CDLL(str(build_library(package, folder).path))
        self._check(self._library.shim_start())

    def run(self, threads: int, cores: Sequence[int]) -> float:
        """Nanoseconds of a run by `threads` threads on `cores`, behind one that is not timed."""
        os.sched_setaffinity(0, cores)
        if self.threads > 1:
            self._check(self._library.shim_threads(threads))
        self._check(self._library.shim_run())
        start = time.perf_counter_ns()
        self._check(self._library.shim_run())
        return float(time.perf_counter_ns() - start)

    def _check(self, status: int) -> None:
        if status:
            raise SystemExit(f"{self.package} ended with status {status}: `edgetune verify` it first")


def compare(packages: Sequence[Path], rounds: int, seed: int, *, twins: bool = False) -> list[Version]:
    """Time `packages` by turns; raises SystemExit where they are not of one model, or fail.

    `twins`: they may be of models whose inputs and outputs have other types and names, in the same order.
    """
    seen = [_exchanged(package, of_types=not twins) for package in packages]
    if any(one != seen[0] for one in seen):
        raise SystemExit("the packages have different interfaces: give versions of one model, for as many threads")
    allowed = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as place:
        versions = [Instance(package, Path(place) / str(number)) for number, package in enumerate(packages)]
        threads = versions[0].threads
        cores = cores_for(threads)
        ways = [(1, (core,)) for core in cores] + ([(threads, cores)] if threads > 1 else [])
        jobs = [(version, way) for version in range(len(versions)) for way in range(len(ways))]
        drawn = random.Random(seed)  # noqa: S311  an order, no secret
        times = np.empty((len(versions), len(ways), rounds))
        try:
            for index in range(rounds):
                for version, way in drawn.sample(jobs, len(jobs)):
                    times[version, way, index] = versions[version].run(*ways[way])
        finally:
            os.sched_setaffinity(0, allowed)
    ones = [over_cores(each[: len(cores)]) for each in times]
    alls = [each[-1] if len(ways) > len(cores) else one for each, one in zip(times, ones, strict=True)]
    return [
        Version(
            str(version.package),
            version.threads,
            float(np.median(one)) / 1e3,
            float(np.median(every)) / 1e3,
            float(np.median(one / every)),
            change(one / ones[0], seed),
            change(every / alls[0], seed),
        )
        for version, one, every in zip(versions, ones, alls, strict=True)
    ]


def _exchanged(package: Path, *, of_types: bool) -> tuple[object, ...]:
    """What a caller of a package sees; its fingerprint also changes with the generator, which does not matter here."""
    manifest = read_manifest(package)
    keys = ("field", "dtype", "shape", "layout") if of_types else ("shape",)
    tensors = [[tuple(str(t.get(key)) for key in keys) for t in manifest[side]] for side in ("inputs", "outputs")]
    return manifest.get("threads", 1), *tensors


def over_cores(times: np.ndarray) -> np.ndarray:
    """Harmonic means over cores of times (cores, rounds): what threads that lose nothing divide by their number."""
    return np.array([statistics.harmonic_mean(column) for column in times.T])


def change(quotients: np.ndarray, seed: int) -> Change:
    """Median of `quotients` less 1, with its standard error."""
    drawn = np.random.default_rng(seed).integers(0, len(quotients), (RESAMPLES, len(quotients)))
    return Change(float(np.median(quotients)) - 1, float(np.std(np.median(quotients[drawn], axis=1), ddof=1)))


def main() -> None:
    """Measure, and print a table and one JSON line."""
    parser = argparse.ArgumentParser(description="Versions of a package against each other.")
    parser.add_argument("packages", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=201)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--twins", action="store_true", help="also packages of models in other types, such as a float twin"
    )
    asked = parser.parse_args()
    if asked.rounds < 2:
        parser.error("--rounds needs at least 2: one has no spread")
    load = [round(value, 2) for value in os.getloadavg()]
    found = compare(asked.packages, asked.rounds, asked.seed, twins=asked.twins)
    for version in found:
        several = f", {version.all_us:.0f} us on {version.threads}: {version.ratio:.3f}" if version.threads > 1 else ""
        print(f"{version.package}: {version.one_us:.0f} us on 1 thread{several}")
        if version is not found[0]:
            changes = [("1 thread", version.one), (f"{version.threads} threads", version.all)]
            told = [f"{100 * c.share:+.2f} +- {100 * c.error:.2f} % on {name}" for name, c in changes]
            print(f"  {', '.join(told[: 2 if version.threads > 1 else 1])} against the first")
    print(json.dumps({"load": load, "rounds": asked.rounds, "versions": [asdict(version) for version in found]}))


if __name__ == "__main__":
    main()
