"""Two packages timed in turns by the gate of a night, on this machine or on a board: for `edgetune compare --bench`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.boards.lock import TimingLock
from edgetune.errors import BoardUnavailable, UsageError
from edgetune.events import Event
from edgetune.farm import gate
from edgetune.farm.bench import turns
from edgetune.farm.gate import Which
from edgetune.package.manifest import read_manifest
from edgetune.pipeline.boards import accesses, elsewhere, load_board
from edgetune.pipeline.comparison import TimesInTurns
from edgetune.pipeline.on_board import Events, at_board
from edgetune.target.board_kind import BoardKind
from edgetune.target.target import with_cpu
from edgetune.verify import starts
from edgetune.verify.place import ExecutionPlace
from edgetune.verify.probed import execution_place
from edgetune.verify.starts import Start
from edgetune.verify.toolchain import PackageToolchain

LIMIT = 0.02
"""Turns end where half of the ratio's interval is a third of this, or after `gate.MOST_TURNS`."""
_NS = 1e3


@dataclass(frozen=True)
class _Places:
    """Where each of the packages runs, `target` in place of its own, and whether instructions are counted there."""

    by_package: Mapping[Which, ExecutionPlace]
    target: BoardKind | None
    cores: Sequence[int] = ()
    counts: bool = False


def time_in_turns(old: Path, new: Path, board: str | None, events: Events) -> TimesInTurns:
    """Time both packages in turns, each start in a new process, on `board` or on this machine.

    The board, or this machine, is locked, but other runs have a turn between two turns. Raises UsageError where no one
    machine runs both, BoardUnavailable where times would be those of an emulator, and what `edgetune.api.bench` raises.
    """
    packages: dict[Which, Path] = {"old": old, "new": new}
    if board is None:
        tools = {which: PackageToolchain.of(read_manifest(package)) for which, package in packages.items()}
        if len({each.isa for each in tools.values()}) > 1:
            kinds = " and ".join(f"{each.isa} (board {each.board})" for each in tools.values())
            raise UsageError(f"no machine runs both packages, which are for {kinds}: leave out --bench")
        return _here(packages, _Places({which: execution_place(each) for which, each in tools.items()}, None), events)
    resolved = load_board(board)
    boards = accesses(resolved)
    for package in packages.values():
        PackageToolchain.of(read_manifest(package), resolved.target)  # refuses another ISA before a board is reserved
    if elsewhere(boards):
        return at_board(
            boards,
            events,
            lambda place, cores: _timed(packages, _Places(_both(place), resolved.target, cores), events, _no_turn),
        )
    if any(access.carrier.counts for access in boards):
        place = starts.counting_here(PackageToolchain.of_board(with_cpu(resolved.target)))
        return _timed(packages, _Places(_both(place), resolved.target, counts=True), events, _no_turn)
    here = execution_place(PackageToolchain.of(read_manifest(old), resolved.target))
    return _here(packages, _Places(_both(here), resolved.target), events)


def _both(place: ExecutionPlace) -> Mapping[Which, ExecutionPlace]:
    return {"old": place, "new": place}


def _no_turn() -> None:
    """Let nobody else have a turn: the board is reserved, or counts, which nobody disturbs."""


def _here(packages: Mapping[Which, Path], places: _Places, events: Events) -> TimesInTurns:
    with turns(TimingLock(on_event=events)) as between:
        return _timed(packages, places, events, between)


def _timed(
    packages: Mapping[Which, Path], places: _Places, events: Events, between_turns: Callable[[], None]
) -> TimesInTurns:
    emulated = next((place.where for place in places.by_package.values() if place.emulated and not places.counts), None)
    if emulated:
        raise BoardUnavailable(
            f"times on {emulated} say nothing about a real core: name a board that has an address with --board, or "
            "leave out --bench"
        )
    with tempfile.TemporaryDirectory(prefix="edgetune-compare-") as name:
        for which, package in packages.items():
            events(Event("phase", {"name": f"compile {package}"}))
            starts.build(package, places.target, places.by_package[which], Path(name) / which)

        events(Event("phase", {"name": "time both in turns"}))

        def measured(which: Which) -> Start:
            return starts.start(packages[which], Path(name) / which, places.by_package[which], places.cores)

        found = gate.compare_counts(measured) if places.counts else gate.compare(measured, LIMIT, 1, between_turns)
    return _result(found, places)


def _result(found: gate.Comparison, places: _Places) -> TimesInTurns:
    scale = 1.0 if found.counted else _NS
    return TimesInTurns(
        unit="instructions" if found.counted else "us",
        a=found.old / scale,
        b=found.new / scale,
        ratio=found.whole.ratio,
        low=found.whole.low,
        high=found.whole.high,
        coverage=1.0 if found.counted else gate.COVERAGE,
        turns=found.turns,
        ran_on=places.by_package["new"].where,
        layers_a=tuple(time / scale for time in found.old_layers),
        layers_b=tuple(time / scale for time in found.new_layers),
        changed_layers=tuple(n for n, layer in found.layers.items() if layer.word in {"slower", "faster"}),
    )
