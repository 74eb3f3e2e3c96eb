"""Which faults do the tests catch? Draws faults over the rooms, and tries each against the room's own tests.

    python -m tests.protection.faults TABLE --tree NAME=FOLDER [--tree NAME=FOLDER] [--number 20] [--seed 1]

Each FOLDER is a clone with a `.venv` of its own, which nobody else uses meanwhile: a fault is written into its file,
then pytest runs on the room's tests until one fails, for `LIMIT_S` seconds of its `WORKERS` cores at most: CPU time is
counted, so that a busy machine judges as an idle one does. A tree whose tests know `--long` runs with `--long share
--base HEAD`, as `make test` does after a change of that room.

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
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from tests.protection.fault_kinds import Fault, faults
from tests.protection.table import append, read

LIMIT_S = 240.0
WORKERS = 2
_WAITING = 4  # times the limit by the clock: tests wait as well
_LOOK_S = 0.5


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


def named_trees(texts: Iterable[str]) -> dict[str, Path]:
    """Return the folders of trees by name, from texts NAME=FOLDER."""
    pairs = (text.partition("=") for text in texts)
    return {name: Path(folder).resolve() for name, _, folder in pairs}


def rooms(tree: Path) -> dict[str, list[Path]]:
    """Return the files of each room that has tests."""
    folders = sorted(path for path in (tree / "edgetune").iterdir() if (tree / "tests" / path.name).is_dir())
    found = {folder.name: sorted(folder.rglob("*.py")) for folder in folders}
    return {room: files for room, files in found.items() if files}  # not those of bytecode


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


class TreeError(Exception):
    """Nothing can be said of a tree: it differs from its commit, or its tests do not run."""


def attempt(drawn: Drawn, name: str, tree: Path) -> Outcome:
    """Try the room's tests on the tree with the fault; the file is as before afterwards.

    A test that fails with the fault is run again without it.

    Raises:
        TreeError: the tests do not run, or the test that failed does so without the fault as well.
    """
    path = tree / drawn.file
    source = path.read_text(encoding="utf-8")
    start = time.monotonic()
    try:
        path.write_text(drawn.fault.apply(source), encoding="utf-8")
        status, text = _tests(tree, [f"tests/{drawn.room}"])
    finally:
        path.write_text(source, encoding="utf-8")
    seconds = round(time.monotonic() - start, 1)
    if status in {0, None}:
        return Outcome(drawn.name, name, "passed" if status == 0 else "time is up", seconds, "")
    failed = [line for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if status not in {1, 2} or not failed:
        raise TreeError(f"the tests of {drawn.room} do not run in {tree} with {drawn.name}:\n{text[-3000:]}")
    test = failed[0].split(" - ")[0].partition(" ")[2]
    status, text = _tests(tree, [test])
    if status != 0:
        raise TreeError(f"{test} fails in {tree} without a fault as well:\n{text[-3000:]}")
    return Outcome(drawn.name, name, "caught", seconds, test)


def _tests(tree: Path, what: Sequence[str]) -> tuple[int | None, str]:
    """Run tests of a tree until one fails; return the exit status, None where time was up, and what they printed."""
    command = [str(tree / ".venv/bin/pytest"), "--exitfirst", "--numprocesses", str(WORKERS), "--dist", "loadfile"]
    command += ["--no-loadscope-reorder", "-p", "no:cacheprovider", "-q", *what]
    if (tree / "tests" / "selection.py").exists():
        command += ["--long", "share", "--base", "HEAD"] if what[0].count("/") == 1 else ["--long", "all"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    log = tree / "build" / "fault.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(command, cwd=tree, env=environment, stdout=out, stderr=out, start_new_session=True)
        try:
            status = _wait(process)
        finally:
            _end(process)
    return status, log.read_text(encoding="utf-8", errors="replace")


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit status of a process, or None where it and its children take more than their time."""
    watched = psutil.Process(process.pid)
    start = time.monotonic()
    while (status := process.poll()) is None:
        used = 0.0
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            for one in (watched, *watched.children()):  # the workers: their own children count once they have ended
                times = one.cpu_times()
                used += times.user + times.system + times.children_user + times.children_system
        if used > LIMIT_S * WORKERS or time.monotonic() - start > LIMIT_S * _WAITING:
            return None
        time.sleep(_LOOK_S)
    return status


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the tests and whatever they started in their session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _require_clean(tree: Path) -> None:
    """Raise TreeError where the code of a tree differs from its commit: a killed run may have left a fault."""
    said = subprocess.run(
        ["git", "status", "--porcelain", "edgetune"], cwd=tree, capture_output=True, text=True, check=True
    ).stdout
    if said:
        raise TreeError(f"{tree} differs from its commit: `git checkout edgetune` there:\n{said}")


def _require_same(one: Path, other: Path) -> None:
    """Raise TreeError where two trees have different files: a fault is not the same in both."""
    if one.read_text(encoding="utf-8") != other.read_text(encoding="utf-8"):
        raise TreeError(f"{other} differs from {one}: the fault is not the same in both")


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
    trees = named_trees(options.tree)
    outcomes = read(options.table, Outcome)
    done = {(outcome.name, outcome.tree) for outcome in outcomes}
    first = next(iter(trees.values()))
    try:
        for tree in trees.values():
            _require_clean(tree)
        for drawn in draw(first, options.number, options.seed):
            for name, tree in trees.items():
                if (drawn.name, name) in done:
                    continue
                _require_same(first / drawn.file, tree / drawn.file)
                outcomes.append(attempt(drawn, name, tree))
                append(options.table, asdict(outcomes[-1]))
                sys.stdout.write(f"{outcomes[-1]}\n")
                sys.stdout.flush()
    except TreeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("".join(f"{line}\n" for line in summary(outcomes, trees)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
