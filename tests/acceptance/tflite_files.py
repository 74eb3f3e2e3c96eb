"""Builds TensorFlow Lite files for boards and compares the packages with LiteRT's reference kernels.

    python -m tests.acceptance.tflite_files FILE... [--board BOARD]...

Each package's self-test runs on its board, or emulated, on seeded inputs. Where a file of goldens lies beside a model
(NAME.npz, inputs i_0... and outputs o_0...), the package for this machine runs on these as well. Columns: bytes of
weights and their ratio to the constant buffers of the file, bytes of the arena, and of the worst output the largest
difference (in steps, or as a share of the largest element) and the share of equal elements. The exit status is 1
where a package fails, an int8 output is off by more than a step or by anything in 5 % of its elements, or a float
output by more than 1e-5.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgetune import Package
from edgetune.frontend.tflite.content import TfliteContent
from edgetune.frontend.tflite.reader import read_content

BOARDS = ("host", "generic-aarch64", "mps2-an500")
_THIS_MACHINE = "host"
_QUANTISED_ALONE = {"mps2-an500"}
"""Boards that the files of floats are not built for."""

_FLOAT, _STEP, _EQUAL = 1e-5, 1.0, 0.95
_LONGEST_S = 1800


@dataclass(frozen=True)
class Row:
    """One file on one board."""

    file: str
    board: str
    weights: int
    buffers: int
    arena: int
    error: float
    equal: float
    passed: bool

    def __str__(self) -> str:
        """One line of the table."""
        verdict = "ok" if self.passed else "FALLS SHORT"
        return (
            f"{self.file:16} {self.board:16} {self.weights:9,} {self.weights / max(self.buffers, 1):6.3f} "
            f"{self.arena:9,} {self.error:9.3g} {100 * self.equal:7.2f} %  {verdict}"
        )


def constant_bytes(content: TfliteContent) -> int:
    """Bytes of all constants, with those of shapes and axes."""
    return sum(tensor.data.nbytes for tensor in content.tensors if tensor.data is not None)


def measured(file: Path, board: str, folder: Path) -> Row:
    """The row of a file on a board, whose package is written into `folder`."""
    package = folder / f"{file.stem}-{board}"
    _edgetune("build", str(file), "--board", board, "--out", str(package), "--db", str(folder / "records.db"))
    found = _edgetune("verify", str(package), "--model", str(file), "--json")
    manifest = json.loads((package / "MANIFEST.json").read_text())
    content = read_content(file)
    whole = all(content.tensors[number].quantisation is not None for number in content.outputs)
    errors = [float(one["max_abs" if whole else "max_rel"]) for one in found["outputs"]]
    equal = min(1.0 - float(one["differing"]) for one in found["outputs"])
    goldens = file.with_suffix(".npz")
    if board == _THIS_MACHINE and goldens.is_file():
        for error, share in on_goldens(package, goldens, whole):
            errors.append(error)
            equal = min(equal, share)
    right = max(errors) <= (_STEP if whole else _FLOAT) and (equal >= _EQUAL or not whole)
    return Row(
        file.stem,
        board,
        int(manifest["memory"]["weights_bytes"]),
        constant_bytes(content),
        int(manifest["memory"]["arena_bytes"]),
        max(errors),
        equal,
        bool(found["passed"]) and right,
    )


def on_goldens(package: Path, goldens: Path, whole: bool) -> Iterator[tuple[float, float]]:
    """Of each case: the largest difference, in steps or as a share of the largest element, and how many are equal."""
    with np.load(goldens) as cases, Package.open(package) as opened:
        (name,) = (tensor.name for tensor in opened.inputs)
        for number in range(sum(key.startswith("i_") for key in cases)):
            (found,) = opened.run(**{name: cases[f"i_{number}"]}).values()
            wanted = cases[f"o_{number}"]
            off = float(np.max(np.abs(found.astype(np.float64) - wanted)))
            yield off if whole else off / float(np.max(np.abs(wanted))), float(np.mean(found == wanted))


def _edgetune(*words: str) -> dict[str, Any]:
    """What the command says in JSON, where it is asked to; raises SystemExit with its message where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "edgetune", *words], capture_output=True, text=True, timeout=_LONGEST_S, check=False
    )
    if done.returncode:
        raise SystemExit(f"edgetune {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout) if "--json" in words else {}
    return found


def rows(files: Sequence[Path], boards: Sequence[str], folder: Path) -> Iterator[Row]:
    """Each file on each board that it is for."""
    for file in files:
        content = read_content(file)
        quantised = any(tensor.quantisation is not None for tensor in content.tensors)
        for board in boards:
            if quantised or board not in _QUANTISED_ALONE:
                yield measured(file, board, folder)


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--board", action="append", dest="boards", help=f"default: {', '.join(BOARDS)}")
    chosen = parser.parse_args()
    sys.stdout.write("file             board              weights  ratio     arena     error     equal\n")
    short = 0
    with tempfile.TemporaryDirectory() as name:
        for row in rows(chosen.files, chosen.boards or BOARDS, Path(name)):
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
            short += not row.passed
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
