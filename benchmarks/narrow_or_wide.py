"""Measures each layer of integer products beside its wider form, and whether the cost table knew which one is faster.

python -m benchmarks.narrow_or_wide MODEL... [--rounds N] [--seed N]

Both forms have default schedules and the same results, which are compared, and run in turns in one process on the core
that measures: the layer as a package has it without `edgetune tune`, and with products of floats between the same
integers. Told are the estimated instructions of both, the median of the quotients of their times with its 95 %
interval by the bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 6), and where that interval
excludes equality, whether the estimates have the same sign. Equal kernels of several models are measured once. A form
that the compiler refuses, for its stack, is named and left out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.command import run_command
from benchmarks.kernel_call import loaded, seconds_of
from benchmarks.untuned_settings import untuned_settings
from edgetune.boards.cores import CoreSplit, confined
from edgetune.errors import CompileFailed, KernelFailed, SelfTestFailed, UsageError
from edgetune.graph.program import Kernel
from edgetune.pipeline.boards import load_board
from edgetune.pipeline.compile_input import load
from edgetune.schedule.algorithms.schedule_text import FORMS, WIDE, algorithm_of, schedule_text
from edgetune.schedule.default_algorithms import wide_algorithms
from edgetune.schedule.default_schedule import guess_within
from edgetune.schedule.guessed_schedule import default_schedule, estimated_instructions
from edgetune.target.target import Target, with_cpu

_SCRATCH = 1 << 22
_NARROW = [form for form in FORMS if form not in WIDE]
_DRAWS = 2000
_FLOAT_ERROR = 1e-5  # of results in float32, which other instructions may round otherwise
_INTERVAL = (2.5, 97.5)


@dataclass(frozen=True)
class Compared:
    """A layer: estimated instructions by products of integers and of floats, and times of floats over integers."""

    name: str
    form: str
    narrow: float
    wide: float
    ratio: float
    low: float
    high: float

    @property
    def decided(self) -> bool:
        """Whether the interval excludes equality."""
        return self.low > 1 or self.high < 1

    @property
    def foreseen(self) -> bool:
        """Whether the estimates have the sign of the times."""
        return (self.wide > self.narrow) == (self.ratio > 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; the code of an error, such as different results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    return run_command("narrow_or_wide", partial(_run, parser.parse_args(arguments)))


def _run(options: argparse.Namespace, split: CoreSplit) -> int:
    target = with_cpu(load_board("host").target)
    core = frozenset({max(split.measuring)})
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for kernel in _layers(options.model, target, Path(folder)):
            try:
                found.append(_compared(kernel, target, Path(folder), options.rounds, options.seed, core))
            except (CompileFailed, KernelFailed) as error:
                print(f"{kernel.name} is left out: {error.message}", file=sys.stderr)
    if not found:
        raise UsageError("no layer of these models multiplies bytes: give quantised models")
    print(table(found))
    return 0


def _layers(models: Sequence[Path], target: Target, folder: Path) -> Iterator[Kernel]:
    """The kernels of the models that have a wider form, each once."""
    seen: set[str] = set()
    for model in models:
        settings = untuned_settings(model, "layers", target, folder)
        for kernel in load(settings).program.kernels:
            if kernel.workload not in seen and wide_algorithms(kernel.function, FORMS, target):
                seen.add(kernel.workload)
                yield kernel


def _compared(kernel: Kernel, target: Target, folder: Path, rounds: int, seed: int, core: frozenset[int]) -> Compared:
    function = kernel.function
    narrow, _ = default_schedule(function, target, _SCRATCH, _NARROW)
    (algorithm,) = wide_algorithms(function, FORMS, target)
    guess = guess_within(algorithm.function, target, _SCRATCH, streamed=False)
    if guess is None:
        raise SelfTestFailed(f"layer {kernel.name} has no schedule by {algorithm.name}")
    texts = [narrow, schedule_text(algorithm.name, guess.trace)]
    random = np.random.default_rng(seed)
    arrays = [_drawn(random, param.shape, param.dtype, constant=param.role == "constant") for param in kernel.params]
    calls = [loaded(function, text, target, arrays, folder) for text in texts]
    with confined(core):
        for call, _ in calls:
            call()
        if not np.allclose(calls[0][1].astype(float), calls[1][1].astype(float), rtol=_FLOAT_ERROR, equal_nan=True):
            raise SelfTestFailed(f"layer {kernel.name} has other results by {algorithm.name}")
        times = np.empty((rounds, len(calls)))
        for index in range(rounds):
            for number in random.permutation(len(calls)):
                times[index, number] = seconds_of(calls[number][0])
    ratios = times[:, 1] / times[:, 0]
    draws = np.median(random.choice(ratios, (_DRAWS, rounds)), axis=1)
    low, high = np.percentile(draws, _INTERVAL)
    integers, floats = (estimated_instructions(function, text, target) for text in texts)
    return Compared(kernel.name, algorithm_of(narrow), integers, floats, float(median(ratios)), float(low), float(high))


def _drawn(random: np.random.Generator, shape: Sequence[int], dtype: str, *, constant: bool) -> np.ndarray:
    """Bytes of their whole range, but no constant of -128; of wider numbers small ones, as scales and biases are."""
    if dtype in {"int8", "uint8"}:
        limits = np.iinfo(dtype)
        return random.integers(max(limits.min, -127 if constant else -128), limits.max, shape, dtype, endpoint=True)
    if dtype.startswith("float"):
        return (random.random(shape) / 256).astype(dtype)
    return random.integers(1, 99, shape).astype(dtype)


def table(found: Sequence[Compared]) -> str:
    """A row per layer, and in how many of those that the times decide the estimates have the same sign."""
    rows = [
        "| layer | form | instructions, integers | instructions, floats | time of floats / of integers | foreseen |",
        "|---|---|---|---|---|---|",
    ]
    for one in found:
        foreseen = "-" if not one.decided else "yes" if one.foreseen else "**no**"
        times = f"{one.ratio:.2f} ({one.low:.2f} to {one.high:.2f})"
        rows.append(f"| {one.name} | {one.form} | {one.narrow:,.0f} | {one.wide:,.0f} | {times} | {foreseen} |")
    decided = [one for one in found if one.decided]
    right, slower = sum(one.foreseen for one in decided), sum(one.ratio < 1 for one in decided)
    rows += ["", f"The estimates foresee {right} of {len(decided)} layers; floats are faster in {slower}."]
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
