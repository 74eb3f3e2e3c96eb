"""What the nights of a farm say of its boards: their past, health tonight, drift, and winners of one board."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from sqlalchemy import select

from edgetune.farm.causes.board import Facts, same_cores
from edgetune.farm.cells import Cell
from edgetune.farm.drift import drift_of
from edgetune.farm.health.board_health import CANARY, NIGHTS, REFERENCE, BoardHealth, latest
from edgetune.farm.night_store import Night, NightCell, NightStore, Verdict
from edgetune.farm.night_tables import night_cells, nights, verdicts

_ROWS_AT_ONCE = 50
_WINNERS = ("first", "faster")
_CONFIRM = ("first", "same", "faster")


class BoardHistory:
    """Boards and cells over nights: names of nights with their cells, oldest first; the last one is tonight."""

    def __init__(self, nights: Sequence[tuple[str, Sequence[NightCell]]]) -> None:
        self._nights = nights
        boards = dict.fromkeys(row.cell.board for _, rows in nights for row in rows)
        self._health = {board: _by_night(nights, board) for board in boards}
        self._verdicts: dict[str, dict[str, tuple[NightCell, Verdict]]] = {}
        for night, rows in nights:
            for row in rows:
                if row.verdict is not None:
                    self._verdicts.setdefault(row.cell.name, {})[night] = (row, row.verdict)

    @property
    def _tonight(self) -> str:
        return self._nights[-1][0]

    def sentence_of(self, board: str) -> str:
        """The health of a board tonight, "" where nothing has checked it."""
        found = self._health[board].get(self._tonight)
        return found.sentence if found else ""

    def drift_of_board(self, board: str) -> str:
        """A lasting change of a board's canary, "" where there is none."""
        return self._drift(
            {night: health.costs.get(CANARY) for night, health in self._like(board, CANARY).items()}, board
        )

    def drift_of(self, cell: Cell) -> str:
        """A lasting change of a cell as a share of its board's pinned package, "" where there is none."""
        verdicts, found = self._verdicts.get(cell.name, {}), {}
        for night, health in self._like(cell.board, REFERENCE).items():
            row, verdict = verdicts.get(night, (None, None))
            if row is None or verdict is None or row.cell.settings != cell.settings:
                continue
            new, reference = verdict.facts.get("new"), health.costs.get(REFERENCE)
            found[night] = new / reference if new and reference and verdict.facts.get("unit") == health.unit else None
        return self._drift(found, cell.board)

    def _like(self, board: str, name: str) -> dict[str, BoardHealth]:
        """Nights in which a board was healthy, and had tonight's program of that name, unit and cores."""
        tonight = self._health[board].get(self._tonight)
        if tonight is None or name not in tonight.pinned:
            return {}
        return {
            night: health
            for night, health in self._health[board].items()
            if not health.fault
            and health.unit == tonight.unit
            and health.pinned.get(name) == tonight.pinned[name]
            and same_cores(health.facts, tonight.facts)
        }

    def _drift(self, costs: Mapping[str, float | None], board: str) -> str:
        known = {night: cost for night, cost in costs.items() if cost}
        tonight = self._health[board].get(self._tonight)
        if not known or tonight is None:
            return ""
        found = drift_of(list(known), list(known.values()), counts=tonight.unit == "instructions")
        return found.sentence if found else ""


def _by_night(nights: Sequence[tuple[str, Sequence[NightCell]]], board: str) -> dict[str, BoardHealth]:
    found = {night: latest(rows, board) for night, rows in nights}
    return {night: health for night, health in found.items() if health is not None}


def unconfirmed(rows: Iterable[NightCell]) -> set[int]:
    """Ids of tonight's winners whose program no second board of the kind has run and found no slower."""
    known = [(row, row.verdict) for row in rows if row.verdict is not None and row.verdict.facts.get("program")]

    def confirmed(row: NightCell, verdict: Verdict) -> bool:
        return any(
            (other.cell.model, other.cell.kind) == (row.cell.model, row.cell.kind)
            and other.cell.board != row.cell.board
            and found.verdict in _CONFIRM
            and found.facts["program"] == verdict.facts["program"]
            for other, found in known
        )

    return {row.id for row, verdict in known if verdict.verdict in _WINNERS and not confirmed(row, verdict)}


@dataclass(frozen=True)
class BoardPast:
    """A board's health in its last `NIGHTS` nights that compare with tonight, oldest first.

    `pinned` are the digests of canary and package in the last night in which the board was fit, whatever else was
    other then; they stay.
    """

    nights: Sequence[BoardHealth] = ()
    pinned: Mapping[str, str] | None = None


def past_of_board(store: NightStore, night: Night, board: str, unit: str, facts: Facts) -> BoardPast:
    """The past of a board before a night: nights in which it was fit, with the present unit and cores (`facts`).

    Nights in which it was not fit, or had other cores, take no place of the others. Raises DatabaseError.
    """
    pinned: Mapping[str, str] | None = None
    found: list[BoardHealth] = []
    for health in _newest_first(store, night, board):
        if health.fault:
            continue
        if pinned is None and health.pinned:
            pinned = health.pinned
        if health.unit == unit and same_cores(health.facts, facts):
            found.append(health)
        if len(found) == NIGHTS:
            break
    return BoardPast(found[::-1], pinned)


def _newest_first(store: NightStore, night: Night, board: str) -> Iterator[BoardHealth]:
    """The last health of a board in each earlier night that has one."""
    chosen = (
        select(nights.c.id, verdicts.c.facts)
        .join(night_cells, night_cells.c.night_id == nights.c.id)
        .join(verdicts, verdicts.c.night_cell_id == night_cells.c.id)
        .where(nights.c.farm == night.farm, nights.c.id < night.id, night_cells.c.board == board)
        .where(verdicts.c.facts.contains('"health": {'))
        .order_by(nights.c.id.desc())
    )
    with store.database.reading() as connection:
        rows = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(chosen)
        for _, own in groupby(rows, key=itemgetter(0)):
            yield max((BoardHealth.from_json(json.loads(text)["health"]) for _, text in own), key=_when)


def _when(health: BoardHealth) -> str:
    return health.utc
