"""Do two checkouts emit the same packages? A line for each file that differs, exit status 1 where one does.

python benchmarks/same_packages.py BEFORE [AFTER] [--models FILE ...] [--boards NAME ...] [--out DIR] [--reuse]

BEFORE and AFTER are checkouts; AFTER is this one by default. Each model is built for each board by both, for one thread
and with no records, and all files are compared byte by byte. With --reuse, packages in DIR are not built again.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = sorted((ROOT / "examples" / "models").glob("*.onnx"))
BOARDS = ("host", "generic-aarch64", "generic-armv7")
_TIMEOUT_S = 1800.0


def build(checkout: Path, model: Path, board: str, package: Path) -> None:
    """Build `package` by the code of `checkout`; raises CalledProcessError."""
    package.parent.mkdir(parents=True, exist_ok=True)
    words = ["build", str(model), "--board", board, "--db", str(package.parent / "none.db"), "-o", str(package), "-q"]
    subprocess.run(
        [sys.executable, "-m", "edgetune", *words],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        check=True,
        timeout=_TIMEOUT_S,
    )


def files_of(package: Path) -> set[str]:
    """Paths of what was emitted, relative to the package: not of what was built in it."""
    found = (path.relative_to(package) for path in package.rglob("*") if path.is_file())
    return {str(path) for path in found if path.parts[0] != "build"}


def differences(before: Path, after: Path) -> list[str]:
    """Paths of files that differ between two packages, or that one of them lacks."""
    sides = [files_of(before), files_of(after)]
    shared = sorted(sides[0] & sides[1])
    _, different, unread = filecmp.cmpfiles(before, after, shared, shallow=False)
    return sorted({*(sides[0] ^ sides[1]), *different, *unread})


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what differs, then a sum; 1 where something does, or nothing was compared."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--models", type=Path, nargs="+", default=MODELS)
    parser.add_argument("--boards", nargs="+", default=list(BOARDS))
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "same_packages")
    parser.add_argument("--reuse", action="store_true")
    options = parser.parse_args(arguments)
    compared, files, different = 0, 0, 0
    for model in options.models:
        for board in options.boards:
            sides = [options.out.resolve() / side / board / model.stem for side in ("before", "after")]
            for checkout, package in zip((options.before, options.after), sides, strict=True):
                if not (options.reuse and package.is_dir()):
                    build(checkout.resolve(), model.resolve(), board, package)
            compared += 1
            files += len(files_of(sides[0]))
            for file in differences(*sides):
                different += 1
                print(f"{model.stem} for {board}: {file} differs", flush=True)
    print(f"{compared} packages, untuned, for one thread: {files} files compared, {different} differ")
    return int(different > 0 or files == 0)


if __name__ == "__main__":
    sys.exit(main())
