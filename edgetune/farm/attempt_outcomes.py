"""Outcomes of attempts, as `night_attempts.outcome` keeps them: what the database says, and else what their host saw.

A host that sees a cell taken from an attempt does not know whether the attempt itself has just written the verdict,
another host has begun the next one, or the cell was cancelled.
"""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from edgetune.farm.night_tables import attempts, verdicts

FROZEN = "frozen for "
"""How the outcome of an attempt begins whose host did not run for a while."""


def leave_open_ones(connection: Connection, number: int, outcome: str) -> None:
    """Note what became of the attempts at a cell whose end nobody has noted: their hosts may be dead."""
    open_ones = update(attempts).where(attempts.c.night_cell_id == number, attempts.c.outcome == "")
    connection.execute(open_ones.values(outcome=outcome))


def outcome_of(connection: Connection, number: int, attempt: int, seen: str) -> str:
    """How an attempt ended, by what the database says of its cell; `seen` where it says nothing of that."""
    judged = select(verdicts.c.attempt, verdicts.c.verdict, verdicts.c.reason).where(verdicts.c.night_cell_id == number)
    found = connection.execute(judged).one_or_none()
    if found is not None and found.attempt == attempt:
        return f"finished: {found.verdict}"
    own = (attempts.c.night_cell_id == number, attempts.c.number > attempt)
    newer = connection.execute(
        select(attempts.c.number, attempts.c.host).where(*own).order_by(attempts.c.number)
    ).first()
    if newer is not None:
        by = superseded(newer.number, newer.host)
        return f"{seen}; {by}" if seen.startswith(FROZEN) else by
    return seen if found is None else str(found.reason)  # it was cancelled, or its window was over


def superseded(attempt: int, host: str) -> str:
    """The outcome of an attempt whose cell another one has."""
    return f"superseded by attempt {attempt} of host {host}"
