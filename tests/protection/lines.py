"""Which lines of a room do the room's own tests run? Measured by coverage.py, for two trees side by side.

    python -m tests.protection.lines TABLE --tree NAME=FOLDER [--tree NAME=FOLDER] [--room ROOM ...]

Each FOLDER is a clone with a `.venv` of its own, with pytest-cov beside what the tests need. Workers and the programs
of Python that they start count. TABLE has a line of JSON for each room and tree; what is in it already is not measured
again. A tree whose tests know `--long` runs with `--long share --base HEAD`, the room counting as changed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.protection.faults import WORKERS, named_trees, rooms
from tests.protection.table import append, read

_CONFIGURATION = """[run]
source = {source}
parallel = true
patch = subprocess
"""


@dataclass(frozen=True)
class Covered:
    """Lines of a room that its tests ran in a tree, of those that there are, and the seconds that took."""

    room: str
    tree: str
    covered: int
    lines: int
    seconds: float

    @property
    def percent(self) -> float:
        """The covered share of the lines, in percent."""
        return 100.0 * self.covered / max(self.lines, 1)


def measure(room: str, name: str, tree: Path) -> Covered:
    """Run the room's tests and count the lines; raises SystemExit where the tests fail."""
    folder = tree / "build" / "coverage" / room
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rc").write_text(_CONFIGURATION.format(source=tree / "edgetune" / room), encoding="utf-8")
    result = folder / "result.json"
    command = [str(tree / ".venv/bin/pytest"), "--numprocesses", str(WORKERS), "--dist", "loadfile", "-q"]
    command += [f"--cov-config={folder / 'rc'}", f"--cov={tree / 'edgetune' / room}", f"--cov-report=json:{result}"]
    command += ["-p", "no:cacheprovider", f"tests/{room}"]
    touched = tree / "edgetune" / room / "touched-for-coverage.txt"  # so that the room counts as changed
    if (tree / "tests" / "selection.py").exists():
        command += ["--long", "share", "--base", "HEAD"]
        touched.touch()
    start = time.monotonic()
    try:
        environment = os.environ | {"COVERAGE_FILE": str(folder / "data")}
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    finally:
        touched.unlink(missing_ok=True)
    if done.returncode != 0:
        raise SystemExit(f"the tests of {room} fail in {tree}:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    totals = json.loads(result.read_text(encoding="utf-8"))["totals"]
    return Covered(room, name, totals["covered_lines"], totals["num_statements"], round(time.monotonic() - start, 1))


def summary(found: Iterable[Covered], trees: Iterable[str]) -> list[str]:
    """Return a line of text for each room: percent in each tree."""
    by_room: dict[str, dict[str, Covered]] = {}
    for one in found:
        by_room.setdefault(one.room, {})[one.tree] = one
    lines = []
    for room, measured in by_room.items():
        shares = [f"{tree} {measured[tree].percent:.2f} %" for tree in trees if tree in measured]
        lines.append(f"{room:12} {', '.join(shares)}")
    return lines


def main(arguments: list[str]) -> int:
    """Measure what the table lacks, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("table", type=Path)
    parser.add_argument("--tree", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--room", action="append", default=[])
    options = parser.parse_args(arguments)
    trees = named_trees(options.tree)
    found = read(options.table, Covered)
    done = {(one.room, one.tree) for one in found}
    for room in options.room or rooms(next(iter(trees.values()))):
        for name, tree in trees.items():
            if (room, name) not in done:
                found.append(measure(room, name, tree))
                append(options.table, asdict(found[-1]))
                sys.stdout.write(f"{found[-1]}\n")
                sys.stdout.flush()
    sys.stdout.write("".join(f"{line}\n" for line in summary(found, trees)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
