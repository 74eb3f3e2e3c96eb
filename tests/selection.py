"""Which of the tests with the mark `long` a run has, and in which order its files run.

A run with `--long share` has all other tests, the long ones of each room that changed since `--base`, and a quarter of
the remaining ones. The commit's hash chooses the quarter, so that later commits run the others. All of these take at
most `LIMIT_S` seconds of workers' time, by `tests/durations.json`; what exceeds that is left to `make test-all`.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.durations.recorded import Row, recorded

Costs: TypeAlias = Mapping[str, float]

ROOT = Path(__file__).parents[1]
PARTS = 4
LIMIT_S = 1500.0
"""Seconds of workers' time: about a third of that where three workers run side by side."""
UNKNOWN_S = 10.0
"""Seconds of the long tests of a file that was never measured."""

# Folders outside of edgetune/ and tests/, and the room whose tests show a change there.
_BELONGS_TO = {
    "templates": "package",
    "targets": "target",
    "deploy": "boards",
    "benchmarks": "benchmarks",
    ".ci": "repository",
    "docs": "repository",
    "examples": "repository",
    "schemas": "config",
}
# What the tests of every room depend on: a change counts as one of all rooms.
_OF_ALL_ROOMS = ("pyproject.toml",)
# Folders of tests beside those of the rooms, by the rooms that they show.
_SHOWN_ELSEWHERE = {
    "backends": ("acceptance", "cuda"),
    "codegen": ("conformance", "cuda"),
    "frontend": ("axes", "conformance"),
    "graph": ("axes", "conformance"),
    "measure": ("hostile",),
    "package": ("acceptance",),
    "verify": ("acceptance",),
}


def room(path: str) -> str | None:
    """Return the room of a file of the repository, a folder of `edgetune/` or `tests/`; None where it has none."""
    parts = Path(path).parts
    if len(parts) == 1:
        return None
    if parts[0] == "edgetune":
        return parts[1].removesuffix(".py")
    if parts[0] == "tests":
        return parts[1] if len(parts) > 2 else None
    return _BELONGS_TO.get(parts[0])


def is_of_all_rooms(path: str) -> bool:
    """Return whether the tests of every room depend on a file: it pins versions, or several rooms' tests use it."""
    parts = Path(path).parts
    return path in _OF_ALL_ROOMS or (parts[0] == "tests" and len(parts) == 2 and path.endswith(".py"))


def quarters(costs: Costs) -> list[set[str]]:
    """Divide files into `PARTS` sets of about equal cost: each in turn, from the dearest, joins the cheapest set."""
    sets: list[set[str]] = [set() for _ in range(PARTS)]
    sums = [0.0] * PARTS
    for file in sorted(costs, key=lambda one: (-costs[one], one)):
        least = sums.index(min(sums))
        sets[least].add(file)
        sums[least] += costs[file]
    return sets


@dataclass(frozen=True)
class Choice:
    """Files whose long tests run: of changed rooms, and of this commit's quarter; and those that exceed the limit."""

    changed: frozenset[str]
    quarter: frozenset[str]
    beyond: frozenset[str]

    @property
    def run(self) -> frozenset[str]:
        """All files whose long tests run."""
        return self.changed | self.quarter


def choose(costs: Costs, changed_rooms: Collection[str] | None, commit: str) -> Choice:
    """Choose among files with long tests, by their seconds; each commit draws the order of changed rooms' files."""
    quarter = quarters(costs)[int(hashlib.sha256(commit.encode()).hexdigest(), 16) % PARTS]
    in_changed = [file for file in costs if changed_rooms is None or room(file) in changed_rooms]
    quarter -= set(in_changed)
    left = LIMIT_S - sum(costs[file] for file in quarter)
    changed: set[str] = set()
    for file in sorted(in_changed, key=lambda one: hashlib.sha256((commit + one).encode()).digest()):
        if costs[file] <= left:
            changed.add(file)
            left -= costs[file]
    return Choice(frozenset(changed), frozenset(quarter), frozenset(in_changed) - changed)


def _git(*words: str) -> tuple[str | None, str]:
    """Return what git says, and its error; None and the error where it fails."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError as error:
        return None, str(error)
    return (done.stdout, "") if done.returncode == 0 else (None, done.stderr.strip().partition("\n")[0])


@dataclass(frozen=True)
class Change:
    """What differs from the base: the rooms, None for all. `words` says it; `commit` draws the quarter."""

    rooms: tuple[str, ...] | None
    commit: str
    words: str


def change_since(base: str) -> Change:
    """Return what differs between `base` and the working tree, new files included. All rooms where git cannot tell."""
    commit, _ = _git("rev-parse", "HEAD")
    differing, error = _git("diff", "--name-only", "--no-renames", "-z", base, "--")
    if commit is None or differing is None:
        return Change(
            None, (commit or "").strip(), f"all rooms count as changed: git cannot compare with {base}: {error}"
        )
    new, _ = _git("ls-files", "--others", "--exclude-standard", "-z")
    paths = [path for path in (differing + (new or "")).split("\0") if path]
    short = base[:12]
    if wide := next((path for path in paths if is_of_all_rooms(path)), None):
        return Change(None, commit.strip(), f"all rooms count as changed since {short}: {wide} differs")
    rooms = {found for path in paths if (found := room(path)) is not None}
    rooms |= {folder for one in rooms for folder in _SHOWN_ELSEWHERE.get(one, ())}
    return Change(
        tuple(sorted(rooms)), commit.strip(), f"changed since {short}: {', '.join(sorted(rooms)) or 'no room'}"
    )


class Selection:
    """Plugin: deselects the long tests that are not chosen, and runs the files that take longest first."""

    def __init__(self, config: pytest.Config) -> None:
        given = getattr(config, "workerinput", {}).get("change")
        self.change = Change(*given) if given else change_since(config.getoption("--base"))
        again = config.getoption("lf", default=False)  # what failed runs again, whatever was drawn
        self.share = config.getoption("--long") == "share" and not again
        self.counts: dict[str, int] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: object) -> None:
        """Tell a worker what changed, so that all of them choose alike."""
        node.workerinput["change"] = (self.change.rooms, self.change.commit, self.change.words)  # type: ignore[attr-defined]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Take a worker's counts: each has the same."""
        self.counts = getattr(node, "workeroutput", {}).get("long", self.counts)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        known = recorded()
        if self.share:
            self._select(config, items, known)
        seconds = {file: float(row["wall_s"]) for file, row in known.items()}
        items.sort(key=lambda item: -seconds.get(_file(item), UNKNOWN_S))  # stable: a file's tests keep their order

    def _select(self, config: pytest.Config, items: list[pytest.Item], known: Mapping[str, Row]) -> None:
        of_file: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            if item.get_closest_marker("long") is not None:
                of_file[_file(item)].append(item)
        costs = {file: known[file]["long_wall_s"] or UNKNOWN_S if file in known else UNKNOWN_S for file in of_file}
        choice = choose(costs, self.change.rooms, self.change.commit)
        dropped = {id(item) for file, long in of_file.items() if file not in choice.run for item in long}
        config.hook.pytest_deselected(items=[item for item in items if id(item) in dropped])
        items[:] = [item for item in items if id(item) not in dropped]

        def count(files: Iterable[str]) -> int:
            return sum(len(of_file[file]) for file in files)

        self.counts = {
            "all": count(of_file),
            "changed": count(choice.changed),
            "quarter": count(choice.quarter),
            "beyond": count(choice.beyond),
        }
        if hasattr(config, "workeroutput"):
            config.workeroutput["long"] = self.counts

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.share or not self.counts:
            return
        counts = self.counts
        terminalreporter.write_sep("=", f"{self.change.words}")
        terminalreporter.write_line(
            f"Of {counts['all']} long tests, {counts['changed']} of changed rooms ran, and {counts['quarter']} of the "
            f"others: this commit's quarter. `make test-all` runs all."
        )
        if counts["beyond"]:
            terminalreporter.write_line(
                f"{counts['beyond']} long tests of changed rooms were left to `make test-all`: with them, long tests "
                f"take more than {LIMIT_S:.0f} s."
            )


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
