"""Lost boards: a cell is given up after three losses, and what it searched for goes on at another board of its kind.

So does the search of a board that is not fit.
"""

from __future__ import annotations

from sqlalchemy import select, update

from edgetune.farm.health.board_health import INFRASTRUCTURE
from edgetune.farm.night_store import NightCell, NightStore
from edgetune.farm.night_tables import night_cells, verdicts

MOST_LOST = 3


def give_up(store: NightStore, row: NightCell, times: int) -> bool:
    """Judge a cell whose board was lost `MOST_LOST` times; False where it may be tried again.

    A twin without a verdict searches from now on, on its own board; the others wait for it.
    """
    if times < MOST_LOST:
        return False
    said = pass_search(store, row)
    board = row.cell.board
    store.cancel(row.id, f"{INFRASTRUCTURE}board {board} was lost {times} times: `edgetune boards check {board}`{said}")
    return True


def pass_search(store: NightStore, row: NightCell) -> str:
    """Let the next twin search, where `row` did; return what to add to its reason, "" where there is none."""
    night = select(night_cells.c.night_id).where(night_cells.c.id == row.id).scalar_subquery()
    twins = (
        select(night_cells.c.id, night_cells.c.cell)
        .where(
            night_cells.c.night_id == night,
            night_cells.c.model == row.cell.model,
            night_cells.c.kind == row.cell.kind,
            night_cells.c.id != row.id,
            night_cells.c.id.not_in(select(verdicts.c.night_cell_id)),
        )
        .order_by(night_cells.c.position)
        .limit(1)
    )
    with store.database.writing() as connection:
        searches = connection.scalar(select(night_cells.c.searches).where(night_cells.c.id == row.id))
        heir = connection.execute(twins).one_or_none() if searches else None
        if heir is None:
            return ""
        connection.execute(update(night_cells).where(night_cells.c.id == heir.id).values(searches=1))
        return f"; {heir.cell} searches instead"
