"""Checks a board before its cells run: `boards check`, then the canary and the pinned package against its own past.

A board that fails goes up the ladder of recovery; if that does not help, its cells are not measured. The first cell of
a board in a night checks it, the others read what it found. Another attempt checks a board again that was not fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from edgetune.boards.access import BoardAccess
from edgetune.boards.opening import open_agent_board
from edgetune.errors import (
    BoardBusy,
    BoardLost,
    BoardUnavailable,
    CompileFailed,
    HostUnknown,
    PackageInvalid,
    SelfTestFailed,
    ToolchainMissing,
    ToolHung,
)
from edgetune.events import Event
from edgetune.farm.acceptances import accepted_on
from edgetune.farm.bench import Bench
from edgetune.farm.cells import Cell
from edgetune.farm.farm_file import Farm
from edgetune.farm.health.board_health import (
    CANARY,
    REFERENCE,
    BoardHealth,
    known,
    latest,
    past_of_program,
    slow,
    unfit,
)
from edgetune.farm.health.history import past_of_board
from edgetune.farm.health.pinned import PinnedProgram, canary, reference, start_canary
from edgetune.farm.night_store import Night, NightCell, NightStore
from edgetune.findings import Finding
from edgetune.pipeline.boards import accesses, check, elsewhere, load_board
from edgetune.records.record import utc_now

_STARTS, _SECONDS = 3, 10.0
"""Starts of a pinned program in one night: so many, as long as they have not taken this many seconds."""
_AGAIN = 2
"""How often a slow board is timed again before it goes up the ladder: what disturbs it may pass."""
_LOST = (BoardLost.exit_code, HostUnknown.exit_code)
_HOSTS = (ToolchainMissing.exit_code, CompileFailed.exit_code)
"""Codes of findings that tell of this host: another one may build for the same board."""

At = Callable[[Cell, Callable[[Bench], BoardHealth]], BoardHealth]
"""Calls a function with the bench of a cell's board, while nobody else times there."""
Events = Callable[[Event], None]


class DoesNotRun(Exception):  # noqa: N818  it is no fault of a command
    """A pinned program, by its name, does not run on the board; the text says why."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name


@dataclass(frozen=True)
class Pinned:
    """The pinned programs of a board on its bench: canary and package, by name, and comparable nights of the board."""

    bench: Bench
    programs: dict[str, PinnedProgram]
    nights: Sequence[BoardHealth]

    def costs(self) -> dict[str, float]:
        """Median cost of some starts of each program, in the unit of the bench. Raises DoesNotRun."""
        found = {}
        for name, program in self.programs.items():
            try:
                found[name] = median(self._starts(name, program.folder))
            except (PackageInvalid, SelfTestFailed) as error:
                raise DoesNotRun(name, error.message) from error
        return found

    def _starts(self, name: str, folder: Path) -> Iterator[float]:
        begun = time.monotonic()
        for _ in range(1 if self.bench.counts else _STARTS):
            yield start_canary(self.bench, folder) if name == CANARY else self.bench.start(folder).cost
            if time.monotonic() - begun > _SECONDS:
                break


def health_of(farm: Farm, store: NightStore, night: Night, row: NightCell, at: At, events: Events) -> BoardHealth:
    """Return the health of a cell's board in a night, as an earlier cell found it, or by checking the board now.

    Raises BoardBusy where somebody holds it, BoardLost where it stays lost after the whole ladder: then the engine
    tries the cell again, behind the others. Raises ToolchainMissing and ToolHung where this host cannot build for it,
    which says nothing of the board, and what the database and the archive raise.
    """
    board = row.cell.board
    found = latest(store.cells(night), board)
    if found is not None and (row.attempt <= 1 or not found.fault):
        return found
    try:
        if fault := fitness(accesses(load_board(board)), lambda: check(load_board(board)), events):
            return BoardHealth(utc_now(), fault)
        return at(row.cell, lambda bench: _timed(farm, store, night, board, bench))
    except (BoardBusy, BoardLost):
        raise
    except BoardUnavailable as error:
        return BoardHealth(utc_now(), error.message)


def fitness(boards: Sequence[BoardAccess], findings: Callable[[], Iterator[Finding]], events: Events) -> str:
    """Why a board cannot be measured, "" where it can: what `boards check` demands. A lost board goes up the ladder.

    Raises BoardLost where that does not help, ToolchainMissing and ToolHung where this host cannot build for it.
    """
    faults = _demanded(findings())
    if hung := [fault for fault in faults if fault.exit_code == ToolHung.exit_code]:
        raise ToolHung(_said(hung))
    if hosts := [fault for fault in faults if fault.exit_code in _HOSTS]:
        raise ToolchainMissing(_said(hosts))
    if any(fault.exit_code in _LOST for fault in faults) and elsewhere(boards):
        for access in boards:
            _bring_back(access, events)
        faults = _demanded(findings())
    said = _said(faults)
    if any(fault.exit_code in _LOST for fault in faults):
        raise BoardLost(said)
    return said


def _said(faults: Sequence[Finding]) -> str:
    return "; ".join(f"{one.check}: {one.detail}" + (f" ({one.fix})" if one.fix else "") for one in faults)


def _demanded(findings: Iterator[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.required and not finding.ok]


def _bring_back(access: BoardAccess, events: Events) -> None:
    board = open_agent_board(access, events)
    try:
        board.recover()
    finally:
        board.close()


def _timed(farm: Farm, store: NightStore, night: Night, board: str, bench: Bench) -> BoardHealth:
    """Time the pinned programs of a board where costs are compared, and judge them by its past.

    A program that does not run any more gives way to the next one, so that it stops the board for no second night.
    """
    found = BoardHealth(utc_now(), unit=bench.unit, facts=bench.board_facts())
    if not bench.judges:
        return found
    past = past_of_board(store, night, board, bench.unit, found.facts)
    last = past.pinned or {}
    folder = Path.cwd() / "health"
    told: list[str] = []
    kept = [last[REFERENCE]] if REFERENCE in last else []
    left = iter(dict.fromkeys([*kept, *accepted_on(store.database, farm.name, board)]))
    programs = {CANARY: _canary(bench, farm, last.get(CANARY, ""), folder)}
    package = reference(farm.archive, left, folder / "reference")
    again = CANARY in last
    while True:
        own = programs if package is None else {**programs, REFERENCE: package}
        try:
            return replace(judged(found, Pinned(bench, own, past.nights)), notes=tuple(told))
        except DoesNotRun as stopped:
            if stopped.name == REFERENCE:
                package = reference(farm.archive, left, folder / "reference")
                instead = "no accepted one runs there" if package is None else "the next accepted one is pinned"
                told.append(f"a pinned package does not run there any more ({stopped}): {instead}")
            elif again:
                again, programs = False, {CANARY: _canary(bench, farm, "", folder)}
                told.append(f"the canary did not run there any more ({stopped}): it was built anew")
            else:
                return replace(found, fault=f"a new canary does not run there: {stopped}", notes=tuple(told))


def _canary(bench: Bench, farm: Farm, digest: str, folder: Path) -> PinnedProgram:
    try:
        return canary(bench, farm.archive, digest, folder / "canary")
    except CompileFailed as error:
        raise ToolchainMissing(f"the canary cannot be built: {error.message}") from error


def judged(found: BoardHealth, pinned: Pinned) -> BoardHealth:
    """Time the pinned programs; where they are slow, again, and after a restart of the board once more."""
    bench = pinned.bench
    digests = {name: program.digest for name, program in pinned.programs.items()}
    pasts = {name: past_of_program(pinned.nights, name, digests[name]) for name in digests}
    was = next((past.facts for past in pasts.values() if past.facts), {})
    costs, facts, ladder = pinned.costs(), found.facts, []
    for _ in range(_AGAIN):
        if slow(costs, pasts):
            bench.between_turns()
            again = pinned.costs()
            costs = {name: min(cost, again[name]) for name, cost in costs.items()}
    if slow(costs, pasts):
        try:
            ladder.append("the board was restarted" if bench.restart() else "no recovery is set up for this machine")
        except BoardLost as error:
            ladder.append(error.message)
        else:
            costs, facts = pinned.costs(), bench.board_facts()
    found = replace(
        found,
        costs=costs,
        pinned=digests,
        ratios=known({name: past.ratio(costs[name]) for name, past in pasts.items()}),
        facts=facts,
        ladder=tuple(ladder),
    )
    if ratios := slow(costs, pasts):
        return replace(found, fault=unfit(ratios, was, facts, ladder))
    return found
