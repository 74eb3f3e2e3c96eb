"""Runs all distinct kernels of models on the CPU: python -m tests.cuda.table MODEL...; prints a table.

Each kernel has its default schedule, and is compared with the reference, whose sums are in double. The exit status is 1
where a kernel is stopped, or off by more than 1e-4 of the largest element.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from edgetune.pipeline.model_formats import read_model
from tests.cuda.cpu_check import checked, run

TOLERANCE = 1e-4  # of the largest element


@dataclass(frozen=True)
class Row:
    """What the kernels of one model gave; `faults` has names and reasons of those that are wrong."""

    model: str
    kernels: int
    worst: float
    seconds: float
    faults: tuple[str, ...]


def row_of(model: Path, folder: Path) -> Row:
    """Check all kernels of a model, each workload once."""
    start = time.monotonic()
    kernels = {kernel.workload: kernel for kernel in read_model(model).program().kernels}
    worst, faults = 0.0, []
    for kernel in kernels.values():
        error = run(checked(kernel), folder)
        if not isinstance(error, float):
            faults.append(f"{kernel.name}: {error.stderr.strip()}")
        elif not error <= TOLERANCE:
            faults.append(f"{kernel.name}: off by {error:.2g}")
        else:
            worst = max(worst, error)
    return Row(model.stem, len(kernels), worst, time.monotonic() - start, tuple(faults))


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, nargs="+")
    sys.stdout.write("| model | kernels | wrong | largest error | seconds |\n|---|---:|---:|---:|---:|\n")
    wrong = 0
    for model in parser.parse_args().models:
        with tempfile.TemporaryDirectory() as folder:
            row = row_of(model, Path(folder))
        numbers = f"{row.kernels} | {len(row.faults)} | {row.worst:.1e} | {row.seconds:.0f}"
        sys.stdout.write(f"| {row.model} | {numbers} |\n")
        sys.stdout.flush()
        for fault in row.faults:
            sys.stderr.write(f"{row.model}: {fault}\n")
        wrong += len(row.faults)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
