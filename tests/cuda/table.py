"""Runs all distinct kernels of models on the CPU: python -m tests.cuda.table [--precision fp16] MODEL...

Prints a table. Each kernel has its default schedule, and is compared with the reference, whose sums are in double.
Seconds of CPU count compilation, and for the first model also the start of Python. The exit status is 1 where a kernel
is stopped, is off by more than 1e-4 of the largest element (1e-2 in fp16), or where a model takes more seconds of CPU
than `MOST_CPU_SECONDS` says.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from edgetune.backends.cuda import BACKEND
from edgetune.graph.precision import ALLOWED, with_precision
from edgetune.graph.ways import Ways
from edgetune.pipeline.model_formats import read_model
from edgetune.target.preferences import Precision
from tests.cuda.batch import FLAGS, BatchError, compile_batch
from tests.cuda.cpu_check import checked, cpu_seconds

PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16")  # those of cuda-generic
TOLERANCE = 1e-4  # of the largest element, in fp32
MOST_CPU_SECONDS = {"ds_cnn": 60, "mobilenet_v2": 600}


@dataclass(frozen=True)
class Row:
    """What the kernels of one model gave; `faults` has names and reasons of those that are wrong."""

    model: str
    kernels: int
    worst: float
    seconds: float
    faults: tuple[str, ...]

    def wrong(self, spent: float) -> tuple[str, ...]:
        """`faults`, and that the check was too slow where the model has a limit of seconds of CPU, of which `spent`."""
        most = MOST_CPU_SECONDS.get(self.model, spent)
        slow = (f"took {spent:.0f} s of CPU, and at most {most} are allowed",) if spent > most else ()
        return (*self.faults, *slow)


def row_of(model: Path, precision: Precision, folder: Path) -> Row:
    """Check all kernels of a model, each workload once; they are compiled together."""
    start = time.monotonic()
    program = with_precision(read_model(model).program(ways=Ways(joins_attention=BACKEND.joins_attention)), precision)
    kernels = list({kernel.workload: kernel for kernel in program.kernels}.values())
    tolerance = ALLOWED.get(precision, TOLERANCE)
    checks = [checked(kernel, prefix=f"k{number}") for number, kernel in enumerate(kernels)]
    batch = compile_batch([check.case(f"k{number}") for number, check in enumerate(checks)], folder, FLAGS)
    worst, faults = 0.0, []
    for number, (kernel, check) in enumerate(zip(kernels, checks, strict=True)):
        try:
            error = check.error(batch.run(number, check.buffers))
        except BatchError as stopped:
            faults.append(f"{kernel.name}: {stopped}")
            continue
        if not error <= tolerance:
            faults.append(f"{kernel.name}: off by {error:.2g}")
        else:
            worst = max(worst, error)
    return Row(model.stem, len(kernels), worst, time.monotonic() - start, tuple(faults))


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    given = parser.parse_args()
    sys.stdout.write("| model | precision | kernels | wrong | largest error | seconds | of CPU |\n")
    sys.stdout.write("|---|---|---:|---:|---:|---:|---:|\n")
    wrong, before = 0, 0.0
    for model in given.models:
        with tempfile.TemporaryDirectory() as folder:
            row = row_of(model, given.precision, Path(folder))
        spent, before = cpu_seconds() - before, cpu_seconds()
        faults = row.wrong(spent)
        numbers = f"{row.kernels} | {len(row.faults)} | {row.worst:.1e} | {row.seconds:.0f} | {spent:.0f}"
        sys.stdout.write(f"| {row.model} | {given.precision} | {numbers} |\n")
        sys.stdout.flush()
        for fault in faults:
            sys.stderr.write(f"{row.model}: {fault}\n")
        wrong += len(faults)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
