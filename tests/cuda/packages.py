"""Builds packages of models for a GPU, twice each: python -m tests.cuda.packages [--precision fp16] MODEL...

nvcc must compile each for sm_75, 80, 87 and 90 without a word, both builds must give the same bytes, and ptxas must
report no spill on the target's own architecture. With `--trials N` a search by bundles comes first, which takes N
candidates to a stub of the driver, whose times are invented; the builds use its records. Prints a table; the exit
status is 1 where one of these fails.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.target.cuda_toolkit import require_nvcc
from edgetune.target.preferences import Precision
from edgetune.target.tool_process import run_tool
from edgetune.verify.work_copy import work_copy
from tests.bundle.bundle_sample import compiled
from tests.cuda.cpu_check import cpu_seconds, gpu
from tests.cuda.table import PRECISIONS
from tests.distribution_sample import edgetune

ARCHITECTURES = "75 80 87 90"
_SECONDS = 3600


@dataclass(frozen=True)
class Row:
    """What a model's packages showed: kernels, what nvcc said, whether the builds were the same, and spills.

    `records` came from the search, and `measured` kernels have one.
    """

    kernels: int
    records: int
    measured: int
    words: str
    same: bool
    spills: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether there is nothing to say."""
        return self.same and not self.words and not self.spills


def row_of(model: Path, precision: Precision, folder: Path, trials: int = 0, *, cmake: bool = False) -> Row:
    """Build two packages of a model in `folder`, and compile one. Raises CalledProcessError where there is none.

    `trials` > 0: with the records of a search that takes so many candidates to a stub of the driver. `cmake`: CMake
    builds it as well.
    """
    words = [str(model.absolute()), "--board", gpu().name, "--precision", precision, "--db", str(folder / "records.db")]
    records = _searched(words, folder, trials) if trials else 0
    packages = [_built(words, folder / name) for name in ("first", "second")]
    first, second = ({p.relative_to(one): p.read_bytes() for p in one.rglob("*") if p.is_file()} for one in packages)
    with work_copy(packages[0]) as (copy, _):
        make = ["make", "-s", f"NVCC={require_nvcc(gpu())}", f"CUDA_ARCH={ARCHITECTURES}"]
        done = run_tool(make, timeout_s=_SECONDS, folder=copy)
    kernels = json.loads((packages[0] / "MANIFEST.json").read_text())["kernels"]
    spills = tuple(
        used["name"] for kernel in kernels for used in kernel["device"] if used["spill_bytes"] or used["local_bytes"]
    )
    said = f"{done.stdout}{done.stderr}{_cmake_words(packages[0]) if cmake else ''}".strip()
    if done.returncode and not said:
        said = f"make ends with {done.returncode}"
    measured = sum(kernel["provenance"]["origin"] == "record" for kernel in kernels)
    return Row(len(kernels), records, measured, said, first == second, spills)


def _cmake_words(package: Path) -> str:
    """What CMake complains of, with the nvcc of the wheels and for the target's own architecture."""
    with work_copy(package) as (copy, _):
        for words in (["-S", ".", "-B", "build-cmake", f"-DNVCC={require_nvcc(gpu())}"], ["--build", "build-cmake"]):
            done = run_tool(["cmake", *words], timeout_s=_SECONDS, folder=copy)
            if done.returncode or done.stderr.strip():
                return done.stderr.strip() or f"cmake {words[0]} ends with {done.returncode}"
    return ""


def _searched(words: Sequence[str], folder: Path, trials: int) -> int:
    """Records of a search by bundles, which the stub of the driver runs."""
    _, stub = compiled(folder)
    tune = ["tune", *words, "--via", "bundle", "--trials", str(trials), "-o", "tuned", "--json"]
    return int(json.loads(_done(tune, folder, {"EDGETUNE_CUDA_DRIVER": str(stub)}))["records"])


def _built(words: Sequence[str], place: Path) -> Path:
    place.mkdir()
    _done(["build", *words, "--flavour", "cmake", "-o", "package"], place, {})
    return place / "package"


def _done(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    done = edgetune(words, cwd=folder, timeout_s=_SECONDS, environment=environment)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, words, done.stdout, done.stderr)
    return done.stdout


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--trials", type=int, default=0, help="candidates of a search that comes first")
    parser.add_argument("--cmake", action="store_true", help="build with CMake as well")
    given = parser.parse_args()
    sys.stdout.write("| model | kernels | with a record | records | nvcc's words | same bytes | spills | s of CPU |\n")
    sys.stdout.write("|---|---:|---:|---:|---:|---|---:|---:|\n")
    wrong = 0
    for model in given.models:
        before = cpu_seconds()
        with tempfile.TemporaryDirectory() as folder:
            row = row_of(model, given.precision, Path(folder), given.trials, cmake=given.cmake)
        found = f"{row.kernels} | {row.measured} | {row.records}"
        numbers = f"{len(row.words.split())} | {'yes' if row.same else 'no'} | {len(row.spills)}"
        sys.stdout.write(f"| {model.stem} | {found} | {numbers} | {cpu_seconds() - before:.0f} |\n")
        sys.stdout.flush()
        sys.stderr.write("".join(f"{model.stem}: {word}\n" for word in (*row.spills, row.words) if word))
        wrong += not row.right
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
