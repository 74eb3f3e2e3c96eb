"""Do two checkouts emit the same packages? A line for each file that differs, exit status 1 where one does.

python benchmarks/same_packages.py BEFORE [AFTER] [--models FILE ...] [--boards NAME ...] [--out DIR] [--reuse]
                                   [--threads N] [--machine-code]

BEFORE and AFTER are checkouts; AFTER is this one by default. Each model is built for each board by both, for one thread
(or N) and with no records, and all files are compared byte by byte. With --machine-code the C may differ: each package
is compiled by its own Makefile, and code and constants of its objects are compared. With --reuse, packages in DIR are
not built again.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

from benchmarks.machine_code import compile_objects, loaded_sections  # noqa: E402  the path comes first

MODELS = sorted((ROOT / "examples" / "models").glob("*.onnx"))
BOARDS = ("host", "generic-aarch64", "generic-armv7")
_TIMEOUT_S = 1800.0


def build(checkout: Path, model: Path, board: str, package: Path, threads: int = 1) -> None:
    """Build `package` by the code of `checkout`; raises CalledProcessError."""
    package.parent.mkdir(parents=True, exist_ok=True)
    words = ["build", str(model), "--board", board, "--db", str(package.parent / "none.db"), "-o", str(package), "-q"]
    words += ["--threads", str(threads)] if threads > 1 else []
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


@dataclass(frozen=True)
class Comparison:
    """How many things of two packages were compared, and the names of those that differ or that one of them lacks."""

    compared: int
    different: tuple[str, ...]


def differences(before: Path, after: Path) -> Comparison:
    """Compare the files of two packages."""
    sides = [files_of(before), files_of(after)]
    shared = sorted(sides[0] & sides[1])
    _, different, unread = filecmp.cmpfiles(before, after, shared, shallow=False)
    return Comparison(len(sides[0]), tuple(sorted({*(sides[0] ^ sides[1]), *different, *unread})))


def code_differences(before: Path, after: Path) -> Comparison:
    """Compile two packages and compare code and constants of their objects; raises CalledProcessError."""
    sides = [compile_objects(package) for package in (before, after)]
    different = sides[0].keys() ^ sides[1].keys()
    for name in sides[0].keys() & sides[1].keys():
        one, two = (loaded_sections(objects[name].read_bytes()) for objects in sides)
        if one != two:
            different.add(name)
    return Comparison(len(sides[0]), tuple(sorted(different)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what differs, then a sum; 1 where something does, or nothing was compared."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--models", type=Path, nargs="+", default=MODELS)
    parser.add_argument("--boards", nargs="+", default=list(BOARDS))
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "same_packages")
    parser.add_argument("--reuse", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--machine-code", action="store_true")
    options = parser.parse_args(arguments)
    compare = code_differences if options.machine_code else differences
    packages, compared, different = 0, 0, 0
    for model in options.models:
        for board in options.boards:
            sides = [options.out.resolve() / side / board / model.stem for side in ("before", "after")]
            for checkout, package in zip((options.before, options.after), sides, strict=True):
                if not (options.reuse and package.is_dir()):
                    build(checkout.resolve(), model.resolve(), board, package, options.threads)
            found = compare(*sides)
            packages += 1
            compared += found.compared
            different += len(found.different)
            for name in found.different:
                print(f"{model.stem} for {board}: {name} differs", flush=True)
    threads = "one thread" if options.threads == 1 else f"{options.threads} threads"
    things = "objects" if options.machine_code else "files"
    print(f"{packages} packages, untuned, for {threads}: {compared} {things} compared, {different} differ")
    return int(different > 0 or compared == 0)


if __name__ == "__main__":
    sys.exit(main())
