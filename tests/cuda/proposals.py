"""Compiles random proposals for a GPU: python -m tests.cuda.proposals MODEL NUMBER [--board NAME] [--run].

Of proposals that pass the decision test, counts those that compile within the target, without a spill by ptxas, and the
seconds of CPU that one takes: proposing, printing, the reference, nvcc. With `--run` each also runs on the CPU, against
the reference. The exit status is 1 where fewer than 70 % compile, where one is wrong, and where one takes more than 3 s
of CPU: 40 a minute on two cores. What `--run` adds does not count, so it asks for no seconds.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np

from edgetune.errors import KernelFailed
from edgetune.graph.program import Program
from edgetune.pipeline.model_formats import read_model
from edgetune.schedule.gpu.spaces import gpu_designs, proposals
from edgetune.target.cuda_toolkit import require_nvcc
from edgetune.target.gpu import GpuTarget
from edgetune.target.target import load_board_kind
from edgetune.target.tool_process import run_tool
from tests.cuda.cpu_check import checked, cpu_seconds, gpu, run, unit

LEAST = 0.7
MOST_SECONDS = 3.0  # of CPU for each proposal
TOLERANCE = 1e-4  # of the largest element


def tried(program: Program, number: int, folder: Path, *, runs: bool, target: GpuTarget | None = None) -> Counter[str]:
    """What became of `number` proposals, as many of each kernel that a design fits; for cuda-generic by default."""
    target = target or gpu()
    kernels = [kernel for kernel in program.kernels if gpu_designs(kernel.function, target)]
    counts: Counter[str] = Counter()
    for place, kernel in enumerate(kernels):
        share = number // len(kernels) + (place < number % len(kernels))
        for text, _ in islice(proposals(kernel.function, target, np.random.default_rng(place)), share):
            counts["proposed"] += 1
            try:
                check = checked(kernel, trace=text, target=target)
            except KernelFailed:
                counts["not printed"] += 1
                continue
            counts["copies run ahead"] += "wait_for_copies(" in check.source.definition
            counts[_compiled(unit(check), folder, target)] += 1
            if runs:
                error = run(check, folder)
                counts["right" if isinstance(error, float) and error < TOLERANCE else "wrong"] += 1
    return counts


def _compiled(text: str, folder: Path, target: GpuTarget) -> str:
    (folder / "kernel.cu").write_text("#include <math.h>\n#include <stdint.h>\n" + text)
    flags = [f"-arch={target.arch}", "-cubin", *target.compiler.nvccflags, "-Xptxas", "-v"]
    command = [str(require_nvcc(target)), *flags, "kernel.cu", "-o", "kernel.cubin"]
    done = run_tool(command, timeout_s=300, folder=folder)
    if done.returncode:
        return "not compiled"
    spilled = re.findall(r"(\d+) bytes (?:stack frame|spill)", done.stdout + done.stderr)
    return "spilling" if any(map(int, spilled)) else "compiled"


def failed(counts: Counter[str], seconds: float) -> bool:
    """Whether too few proposals compile, one is wrong, or each took too many seconds of CPU; see the module."""
    slow = seconds > MOST_SECONDS and not counts["right"] + counts["wrong"]
    return counts["compiled"] < LEAST * counts["proposed"] or counts["wrong"] > 0 or slow


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("number", type=int)
    parser.add_argument("--board", default=gpu().name)
    parser.add_argument("--run", action="store_true")
    given = parser.parse_args()
    target = load_board_kind(given.board)
    if not isinstance(target, GpuTarget):
        parser.error(f"{given.board} is no board with a GPU")
    with tempfile.TemporaryDirectory() as folder:
        program, before = read_model(given.model).program(), cpu_seconds()
        counts = tried(program, given.number, Path(folder), runs=given.run, target=target)
    seconds = (cpu_seconds() - before) / given.number
    sys.stdout.write(f"{dict(counts)}, {seconds:.2f} s of CPU each\n")
    return int(failed(counts, seconds))


if __name__ == "__main__":
    sys.exit(main())
