"""Runs all distinct kernels of models on the CPU: python -m tests.cuda.table MODEL...; prints a table.

Each kernel has its default schedule, and is compared with the reference, whose sums are in double. Seconds of CPU count
compilation, and for the first model also the start of Python. The exit status is 1 where a kernel is stopped, or off by
more than 1e-4 of the largest element.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from edgetune.pipeline.model_formats import read_model
from tests.cuda.batch import FLAGS, BatchError, compile_batch
from tests.cuda.cpu_check import checked, cpu_seconds

TOLERANCE = 1e-4  # of the largest element


@dataclass(frozen=True)
class Row:
    """What the kernels of one model gave; `faults` has names and reasons of those that are wrong."""

    model: str
    kernels: int
    worst: float
    seconds: float
    cpu_seconds: float
    faults: tuple[str, ...]


def row_of(model: Path, folder: Path) -> Row:
    """Check all kernels of a model, each workload once; they are compiled together."""
    start = time.monotonic()
    kernels = list({kernel.workload: kernel for kernel in read_model(model).program().kernels}.values())
    checks = [checked(kernel, prefix=f"k{number}") for number, kernel in enumerate(kernels)]
    batch = compile_batch([check.case(f"k{number}") for number, check in enumerate(checks)], folder, FLAGS)
    worst, faults = 0.0, []
    for number, (kernel, check) in enumerate(zip(kernels, checks, strict=True)):
        try:
            error = check.error(batch.run(number, check.buffers))
        except BatchError as stopped:
            faults.append(f"{kernel.name}: {stopped}")
            continue
        if not error <= TOLERANCE:
            faults.append(f"{kernel.name}: off by {error:.2g}")
        else:
            worst = max(worst, error)
    return Row(model.stem, len(kernels), worst, time.monotonic() - start, cpu_seconds(), tuple(faults))


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, nargs="+")
    sys.stdout.write("| model | kernels | wrong | largest error | seconds | of CPU |\n")
    sys.stdout.write("|---|---:|---:|---:|---:|---:|\n")
    wrong, before = 0, 0.0
    for model in parser.parse_args().models:
        with tempfile.TemporaryDirectory() as folder:
            row = row_of(model, Path(folder))
        spent, before = row.cpu_seconds - before, row.cpu_seconds
        numbers = f"{row.kernels} | {len(row.faults)} | {row.worst:.1e} | {row.seconds:.0f} | {spent:.0f}"
        sys.stdout.write(f"| {row.model} | {numbers} |\n")
        sys.stdout.flush()
        for fault in row.faults:
            sys.stderr.write(f"{row.model}: {fault}\n")
        wrong += len(row.faults)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
