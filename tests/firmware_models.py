"""MLPerf Tiny on every emulated microcontroller: builds each model, and compares its outputs with LiteRT's, all bits.

python -m tests.firmware_models [--boards mps2-an386,...] [--models kws_int8,...]

Packages have default schedules. The four models of floats run where the core has an FPU, within their tolerance. Prints
a line for each model on each board, and exits with 1 where one is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from edgetune.errors import MemoryLimitExceeded
from edgetune.target.target import load_target

ROOT = Path(__file__).resolve().parent.parent
TINY = ROOT.parent / "shared" / "models" / "mlperf_tiny"
BOARDS = ("cortex-m0plus", "mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547")
INTEGERS = ("kws_int8", "ad_int8", "sww_int8", "vww_int8", "resnet8_int8", "resnet_large_int8")
FLOATS = ("kws_fp32", "ad_fp32", "vww_fp32", "resnet8_fp32")
TOO_LARGE = "too large for the board"
_MOST_S = 900  # of one command


def fault(board: str, model: str, folder: Path) -> str:
    """What is wrong with the package of a model on a board, or ""; `folder` holds the package."""
    package = folder / f"{model}-{board}"
    found = _edgetune("build", str(TINY / f"{model}.tflite"), "--board", board, "-o", str(package), folder=folder)
    if found.returncode == MemoryLimitExceeded.exit_code:
        return TOO_LARGE
    if found.returncode:
        return found.stderr.strip().splitlines()[-1]
    found = _edgetune("verify", str(package), "--json", folder=folder)
    if found.returncode:
        return found.stderr.strip().splitlines()[-1]
    told = json.loads(found.stdout)
    differing = max(output["differing"] for output in told["outputs"])
    if not told["passed"]:
        return "the self-test failed"
    return f"{differing:.2%} of the outputs differ" if model in INTEGERS and differing else ""


def _edgetune(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgetune", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=_MOST_S)


def cells(boards: tuple[str, ...], models: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each board with each model that it can run."""
    for board in boards:
        for model in models:
            if model in INTEGERS or load_target(board).has_fpu:
                yield board, model


def main() -> int:
    """Try all, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", default=",".join(BOARDS))
    parser.add_argument("--models", default=",".join((*INTEGERS, *FLOATS)))
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for board, model in cells(tuple(options.boards.split(",")), tuple(options.models.split(","))):
            found = fault(board, model, Path(folder))
            wrong += bool(found) and found != TOO_LARGE
            sys.stdout.write(f"{board:14} {model:18} {found or 'right'}\n")
            sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
