"""Which faults do the tests catch? Draws faults over the rooms, and tries each against the room's own tests.

    python -m tests.protection.faults TABLE --tree NAME=FOLDER [--tree NAME=FOLDER] [--number 20] [--seed 1]

Each FOLDER is a clone with a `.venv` of its own, which nobody else uses meanwhile: a fault is written into its file,
then pytest runs on the room's tests until one fails, for `LIMIT_S` seconds at most. A tree whose tests know `--long`
runs with `--long share --base HEAD`, as `make test` does after a change of that room.

A room is drawn by its lines, a kind of fault evenly among those that the room has, a place evenly. TABLE has a line of
JSON for each fault and tree; what is in it already is not tried again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.protection.fault_kinds import Fault, faults
from tests.protection.table import append, read

LIMIT_S = 240.0
WORKERS = 2


@dataclass(frozen=True)
class Drawn:
    """A fault and its file, from the root of a tree."""

    file: str
    fault: Fault

    @property
    def room(self) -> str:
        """The room that the file lies in."""
        return Path(self.file).parts[1]

    @property
    def name(self) -> str:
        """What tells it from others."""
        return f"{self.file}:{self.fault.line}:{self.fault.column} {self.fault.kind}"


def rooms(tree: Path) -> dict[str, list[Path]]:
    """Return the files of each room that has tests."""
    folders = sorted(path for path in (tree / "edgetune").iterdir() if (tree / "tests" / path.name).is_dir())
    return {folder.name: sorted(folder.rglob("*.py")) for folder in folders}


def draw(tree: Path, number: int, seed: int) -> list[Drawn]:
    """Draw faults: the same ones for the same tree, number and seed."""
    generator = random.Random(seed)  # noqa: S311
    files = rooms(tree)
    lines = [sum(path.read_text(encoding="utf-8").count("\n") for path in files[room]) for room in files]
    places: dict[str, list[list[Drawn]]] = {}
    drawn: list[Drawn] = []
    while len(drawn) < number:
        (room,) = generator.choices(list(files), lines)
        if room not in places:
            places[room] = _places(tree, files[room])
        one = generator.choice(generator.choice(places[room]))
        if one not in drawn:
            drawn.append(one)
    return drawn


def _places(tree: Path, files: Iterable[Path]) -> list[list[Drawn]]:
    """Return all faults that files can have, by kind; kinds without a place are left out."""
    by_kind: dict[str, list[Drawn]] = {}
    for path in files:
        for kind in faults(path.read_text(encoding="utf-8")):
            for fault in kind:
                by_kind.setdefault(fault.kind, []).append(Drawn(str(path.relative_to(tree)), fault))
    return [by_kind[kind] for kind in sorted(by_kind)]


@dataclass(frozen=True)
class Outcome:
    """What became of a fault in a tree: `caught`, `passed` or `time is up`; and the test that failed."""

    name: str
    tree: str
    verdict: str
    seconds: float
    test: str


def attempt(drawn: Drawn, name: str, tree: Path) -> Outcome:
    """Try the room's tests on the tree with the fault; the file is as before afterwards."""
    path = tree / drawn.file
    source = path.read_text(encoding="utf-8")
    log = tree / "build" / "fault.log"
    log.parent.mkdir(exist_ok=True)
    command = [str(tree / ".venv/bin/pytest"), "--exitfirst", "--numprocesses", str(WORKERS), "--dist", "loadfile"]
    command += ["--no-loadscope-reorder", "-p", "no:cacheprovider", "-q", f"tests/{drawn.room}"]
    if (tree / "tests" / "selection.py").exists():
        command += ["--long", "share", "--base", "HEAD"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    start = time.monotonic()
    try:
        path.write_text(drawn.fault.apply(source), encoding="utf-8")
        with log.open("w", encoding="utf-8") as out:
            process = subprocess.Popen(
                command, cwd=tree, env=environment, stdout=out, stderr=out, start_new_session=True
            )
            try:
                verdict = {0: "passed", 1: "caught"}.get(process.wait(timeout=LIMIT_S), "caught")
            except subprocess.TimeoutExpired:
                verdict = "time is up"
            finally:
                _end(process)
    finally:
        path.write_text(source, encoding="utf-8")
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    failed = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    test = failed[0].split(" - ")[0].partition(" ")[2] if failed and verdict == "caught" else ""
    return Outcome(drawn.name, name, verdict, round(time.monotonic() - start, 1), test)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the tests and whatever they started in their session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def summary(outcomes: Iterable[Outcome], trees: Iterable[str]) -> list[str]:
    """Return lines of text: each fault and its verdicts, then how many each tree caught."""
    by_fault: dict[str, dict[str, Outcome]] = {}
    for outcome in outcomes:
        by_fault.setdefault(outcome.name, {})[outcome.tree] = outcome
    names = list(trees)
    lines = []
    for name, found in by_fault.items():
        verdicts = [f"{tree}: {found[tree].verdict} ({found[tree].seconds:.0f} s)" for tree in names if tree in found]
        lines.append(f"{name}: {', '.join(verdicts)}")
    for tree in names:
        caught = sum(found[tree].verdict == "caught" for found in by_fault.values() if tree in found)
        lines.append(f"{tree} catches {caught} of {sum(tree in found for found in by_fault.values())}")
    return lines


def main(arguments: list[str]) -> int:
    """Draw, try, write the table; print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("table", type=Path)
    parser.add_argument("--tree", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    trees: Mapping[str, Path] = {
        name: Path(folder).resolve() for name, _, folder in (t.partition("=") for t in options.tree)
    }
    outcomes = read(options.table, Outcome)
    done = {(outcome.name, outcome.tree) for outcome in outcomes}
    first = next(iter(trees.values()))
    for drawn in draw(first, options.number, options.seed):
        for name, tree in trees.items():
            if (drawn.name, name) in done:
                continue
            if (tree / drawn.file).read_text("utf-8") != (first / drawn.file).read_text("utf-8"):
                raise SystemExit(f"{drawn.file} differs between the trees: the fault is not the same in both")
            outcomes.append(attempt(drawn, name, tree))
            append(options.table, asdict(outcomes[-1]))
            sys.stdout.write(f"{outcomes[-1]}\n")
            sys.stdout.flush()
    sys.stdout.write("".join(f"{line}\n" for line in summary(outcomes, trees)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
