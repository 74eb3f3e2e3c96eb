"""Builds packages of models for a GPU, twice each: python -m tests.cuda.packages [--precision fp16] MODEL...

nvcc must compile each for sm_75, 80, 87 and 90 without a word, both builds must give the same bytes, and ptxas must
report no spill on the target's own architecture. Prints a table; the exit status is 1 where one of these fails.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from edgetune.target.cuda_toolkit import require_nvcc
from edgetune.target.preferences import Precision
from edgetune.target.tool_process import run_tool
from edgetune.verify.work_copy import work_copy
from tests.cuda.cpu_check import cpu_seconds, gpu
from tests.distribution_sample import edgetune

ARCHITECTURES = "75 80 87 90"
_SECONDS = 3600


@dataclass(frozen=True)
class Row:
    """What a model's packages showed: kernels, what nvcc said, whether the builds were the same, and spills."""

    kernels: int
    words: str
    same: bool
    spills: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether there is nothing to say."""
        return self.same and not self.words and not self.spills


def row_of(model: Path, precision: Precision, folder: Path) -> Row:
    """Build two packages of a model in `folder`, and compile one. Raises CalledProcessError where there is none."""
    packages = [_built(model, precision, folder / name) for name in ("first", "second")]
    first, second = ({p.relative_to(one): p.read_bytes() for p in one.rglob("*") if p.is_file()} for one in packages)
    with work_copy(packages[0]) as (copy, _):
        words = ["make", "-s", f"NVCC={require_nvcc(gpu())}", f"CUDA_ARCH={ARCHITECTURES}"]
        done = run_tool(words, timeout_s=_SECONDS, folder=copy)
    kernels = json.loads((packages[0] / "MANIFEST.json").read_text())["kernels"]
    spills = tuple(
        used["name"] for kernel in kernels for used in kernel["device"] if used["spill_bytes"] or used["local_bytes"]
    )
    said = f"{done.stdout}{done.stderr}".strip()
    if done.returncode and not said:
        said = f"make ends with {done.returncode}"
    return Row(len(kernels), said, first == second, spills)


def _built(model: Path, precision: Precision, place: Path) -> Path:
    place.mkdir()
    words = ["build", str(model.absolute()), "--board", gpu().name, "--precision", precision, "-o", "package"]
    done = edgetune(words, cwd=place, timeout_s=_SECONDS)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, words, done.stdout, done.stderr)
    return place / "package"


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--precision", choices=get_args(Precision), default="fp32")
    given = parser.parse_args()
    sys.stdout.write("| model | kernels | nvcc's words | same bytes | kernels that spill | seconds of CPU |\n")
    sys.stdout.write("|---|---:|---:|---|---:|---:|\n")
    wrong = 0
    for model in given.models:
        before = cpu_seconds()
        with tempfile.TemporaryDirectory() as folder:
            row = row_of(model, given.precision, Path(folder))
        numbers = f"{len(row.words.split())} | {'yes' if row.same else 'no'} | {len(row.spills)}"
        sys.stdout.write(f"| {model.stem} | {row.kernels} | {numbers} | {cpu_seconds() - before:.0f} |\n")
        sys.stdout.flush()
        sys.stderr.write("".join(f"{model.stem}: {word}\n" for word in (*row.spills, row.words) if word))
        wrong += not row.right
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
