"""What trials cost in one version of edgetune and in another: the same candidates, by turns, on this machine.

python benchmarks/trial_overhead.py MODEL.onnx --before CHECKOUT [--rounds 15] [--limit 1.03]

CHECKOUT is a folder with the other version, with its `.venv` if it has one. Every kernel of the model is built once,
by its fixed schedule. In a round each is tried by the local runner of either version, which of them first drawn anew:
once as a candidate that may be the best, and once as one that is hopeless and timed briefly. Told are the median wall
time of a trial, from request to result, of both versions; the median over pairs of the ratio, with its standard error
by the bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 6); and the median ratio of the least
times of each candidate, which other programs of the machine touch least. The exit status tells whether the ratio of the
medians is at most the limit. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

from edgetune.boards.cores import split_cores  # noqa: E402
from edgetune.boards.lock import TimingLock  # noqa: E402
from edgetune.errors import EdgetuneError, KernelFailed  # noqa: E402
from edgetune.frontend.onnx.importer import import_onnx  # noqa: E402
from edgetune.frontend.onnx.reader import read_onnx  # noqa: E402
from edgetune.graph.partition import to_program  # noqa: E402
from edgetune.measure.compiler import build_library, toolchain_of  # noqa: E402
from edgetune.measure.jobs import ReferenceJob, first_constants  # noqa: E402
from edgetune.measure.reference import make_case  # noqa: E402
from edgetune.schedule.default_schedule import default_trace  # noqa: E402
from edgetune.schedule.kernel_spec import kernel_spec  # noqa: E402
from edgetune.schedule.source import make_source  # noqa: E402
from edgetune.target.target import load_target  # noqa: E402  the path comes first

RESAMPLES = 200
SIDE = """
import json, sys, time
from pathlib import Path
from edgetune.boards.local.runner import RunnerProcess
from edgetune.boards.protocol import RunRequest
from edgetune.boards.sampling import TimingPolicy
from edgetune.graph.accuracy import Tolerance

folder, cores = Path(sys.argv[1]), frozenset(json.loads(sys.argv[2]))
runner = RunnerProcess(folder, "gcc", cores)
for line in sys.stdin:
    asked = json.loads(line)
    request = RunRequest(
        "candidate", asked["library"], tuple(asked["arrays"]), tuple(asked["roles"]),
        tuple(None if t is None else Tolerance(*t) for t in asked["tolerances"]), asked["scratch"],
        TimingPolicy(budget_ns=asked["budget_ns"]), asked["best_ns"],
    )
    began = time.perf_counter()
    runner.begin(request)
    while (result := runner.collect(1.0)) is None:
        pass
    wall = time.perf_counter() - began
    told = [wall, result.status, result.reason, sorted(result.samples_ns)[len(result.samples_ns) // 2 :][:1]]
    print(json.dumps(told), flush=True)
runner.close()
"""


@dataclass(frozen=True)
class Candidate:
    """What is asked for, as the sides read it, without the best time so far."""

    name: str
    asked: dict[str, object]


class Side:
    """A version's runner in a process of its own."""

    def __init__(self, checkout: Path, folder: Path, cores: Sequence[int]) -> None:
        folder.mkdir()
        (folder / "side.py").write_text(SIDE)
        own = checkout / ".venv" / "bin" / "python"
        command = [str(own) if own.exists() else sys.executable, str(folder / "side.py"), str(folder)]
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        self._process = subprocess.Popen(
            [*command, json.dumps(list(cores))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=folder,
        )

    def try_it(self, candidate: Candidate, best_ns: float) -> tuple[float, float]:
        """Return the seconds of a trial and the kernel's nanoseconds. Raises KernelFailed."""
        if self._process.stdin is None or self._process.stdout is None:
            raise ValueError("the process was started without pipes")
        self._process.stdin.write(json.dumps({**candidate.asked, "best_ns": best_ns}) + "\n")
        self._process.stdin.flush()
        wall, status, reason, median = json.loads(self._process.stdout.readline())
        if status != "ok":
            raise KernelFailed(f"{candidate.name} is {status} ({reason})")
        return float(wall), float(median[0])

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=30)


def candidates(model: Path, folder: Path) -> Iterator[Candidate]:
    """Build every kernel of a model by its fixed schedule."""
    target = load_target("host")
    toolchain = toolchain_of(target)
    program = to_program(import_onnx(read_onnx(model)))
    weights = first_constants(program)
    seen = {kernel.workload: kernel for kernel in program.kernels}
    for number, kernel in enumerate(seen.values()):
        spec = kernel_spec(kernel, 1 << 30)
        here = folder / f"kernel-{number}"
        here.mkdir()
        given = {}
        for index, array in weights.get(kernel.workload, {}).items():
            given[index] = here / f"given_{index}.npy"
            np.save(given[index], array)
        case = make_case(spec, here, ReferenceJob(spec.key, 0, given))
        source = make_source(spec, default_trace(kernel.function, target, 1 << 30)[0], target)
        arrays = list(case.arrays)
        for index, layout in source.packing.items():
            arrays[index] = here / f"packed_{index}.npy"
            np.save(arrays[index], np.ascontiguousarray(layout.apply(np.load(case.arrays[index]))))
        (here / "unit.c").write_text(source.unit)
        (here / "shim.c").write_text(source.shim)
        compiled = build_library(toolchain, here / "unit.c", here / "shim.c", here / "candidate.so")
        if compiled.reason:
            raise KernelFailed(f"{kernel.name} does not compile: {compiled.reason}")
        allowed = [None if t is None else (t.relative, t.absolute, t.share) for t in case.tolerances]
        asked: dict[str, object] = {
            "library": str(here / "candidate.so"),
            "arrays": [str(path) for path in arrays],
            "roles": list(case.roles),
            "tolerances": allowed,
            "scratch": source.scratch_bytes,
            "budget_ns": 0.18e9,
        }
        yield Candidate(kernel.name, asked)


@contextmanager
def both(before: Path, folder: Path) -> Iterator[tuple[Side, Side]]:
    """The other version and this one, while nobody else measures on this machine."""
    split = split_cores()
    lock = TimingLock(None, 600.0, lambda _: None)
    with ExitStack() as stack:
        lock.acquire()
        stack.callback(lock.close)
        sides = []
        for name, checkout in (("before", before), ("after", ROOT)):
            side = Side(checkout, folder / name, sorted(split.measuring))
            stack.callback(side.close)
            sides.append(side)
        yield sides[0], sides[1]


def standard_error(ratios: Sequence[float]) -> float:
    """Of the median."""
    draws = random.Random(1)  # noqa: S311  a resampling
    return statistics.pstdev(statistics.median(draws.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))


def least_ratios(walls: tuple[list[float], list[float]], rounds: int) -> tuple[float, float]:
    """Ratios of the least times of the last candidate tried: as one that may be the best, and as a hopeless one."""
    before, after = (side[-2 * rounds :] for side in walls)
    return min(after[::2]) / min(before[::2]), min(after[1::2]) / min(before[1::2])


def main() -> int:
    """Print what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--limit", type=float, default=1.03)
    options = parser.parse_args()
    order = random.Random(2)  # noqa: S311  an order
    walls: tuple[list[float], list[float]] = ([], [])
    least: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        try:
            built = list(candidates(options.model, Path(name)))
            with both(options.before.resolve(), Path(name)) as sides:
                for candidate in built:
                    _, median_ns = sides[1].try_it(candidate, 0.0)
                    for number in range(2 * options.rounds):
                        best_ns = median_ns / 10 if number % 2 else 0.0
                        for which in order.sample((0, 1), 2):
                            walls[which].append(sides[which].try_it(candidate, best_ns)[0])
                    least += least_ratios(walls, options.rounds)
        except EdgetuneError as error:
            print(error.message, file=sys.stderr)
            return error.exit_code
    ratios = [after / before for before, after in zip(*walls, strict=True)]
    ratio, off = statistics.median(ratios), standard_error(ratios)
    of_medians = statistics.median(walls[1]) / statistics.median(walls[0])
    before_ms, after_ms = (1e3 * statistics.median(side) for side in walls)
    print(f"{len(built)} kernels, {len(ratios)} pairs of trials")
    print(f"median wall time of a trial: {before_ms:.2f} ms before, {after_ms:.2f} ms now ({of_medians:.3f})")
    print(f"ratio of a pair: {ratio:.3f} +- {off:.3f}; of the least times: {statistics.median(least):.3f}")
    found = {"before_ms": before_ms, "after_ms": after_ms, "of_medians": of_medians, "ratio": ratio, "error": off}
    found["least"] = statistics.median(least)
    print(json.dumps({**found, "limit": options.limit, "within": of_medians <= options.limit}))
    return 0 if of_medians <= options.limit else 1


if __name__ == "__main__":
    sys.exit(main())
