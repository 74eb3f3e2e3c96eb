"""Open nights: those that have not finished, such as one whose host died, what runs in them, and missing ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psutil
from sqlalchemy import select, update

from edgetune.config.host import host_name
from edgetune.farm.calendar import clock_time
from edgetune.farm.engine import Engine, OnVerdict
from edgetune.farm.night_store import Night, NightStore
from edgetune.farm.night_tables import attempts, night_cells, nights, verdicts

OVERDUE_HOURS = 26


def open_nights(store: NightStore, farm: str) -> list[Night]:
    """The nights of a farm that have not finished, oldest first."""
    return [night for night in store.nights(farm) if night.finished_utc is None]


def window_over(night: Night, now: datetime) -> bool:
    """Whether the window of a night is over, finished or not; a night by day has none."""
    return night.ends_utc is not None and datetime.fromisoformat(night.ends_utc) <= now


@dataclass(frozen=True)
class RunningCell:
    """The host that runs a cell now, and since when (UTC)."""

    host: str
    since_utc: str


def running_cells(store: NightStore, night: Night) -> dict[int, RunningCell]:
    """The cells of a night that run now, by their ids: those whose last attempt has not ended.

    Where this host has no process of an attempt, the attempt is over as well, though nobody noted it: whoever began it
    is gone. What became of another host's, that host or the next one notes within seconds.
    """
    present = (attempts.c.night_cell_id == night_cells.c.id) & (attempts.c.number == night_cells.c.attempt)
    chosen = (
        select(night_cells.c.id, attempts.c.host, attempts.c.begun_utc, attempts.c.pid, attempts.c.number)
        .join(attempts, present)
        .where(night_cells.c.night_id == night.id, attempts.c.ended_utc.is_(None))
        .where(night_cells.c.id.not_in(select(verdicts.c.night_cell_id)))
    )
    with store.database.reading() as connection:
        rows = connection.execute(chosen).all()
    return {
        number: RunningCell(host, begun)
        for number, host, begun, pid, attempt in rows
        if host != host_name() or _runs(pid, number, attempt)
    }


def _runs(pid: int, number: int, attempt: int) -> bool:
    """Whether a child of that process has the last words of an attempt's command line, see `attempt`.

    The clock may have been set since, so the times of processes say nothing of which had that number first.
    """
    with suppress(psutil.Error):
        for child in psutil.Process(pid).children() if pid > 0 else ():
            with suppress(psutil.Error):
                if child.cmdline()[-2:] == [str(number), str(attempt)]:
                    return True
    return False


def window_over_words(night: Night, timezone: str | None) -> str:
    """That the window of a night was over, and when, for the reason of its cells."""
    ends = f" ({clock_time(night.ends_utc, timezone)})" if night.ends_utc else ""
    return f"the window was over{ends}"


def close(store: NightStore, night: Night, reason: str) -> Night:
    """End a night at once: its cells without a verdict are *not measured* for `reason`."""
    for row in store.cells(night):
        if row.verdict is None:
            store.cancel(row.id, reason)
    store.finish(night)
    return store.night(night.id)


def end_with(store: NightStore, night: Night, ends: datetime) -> Night:
    """Let a night end when another window does."""
    with store.database.writing() as connection:
        row = update(nights).where(nights.c.id == night.id).values(ends_utc=ends.astimezone(UTC).isoformat())
        connection.execute(row)
    return store.night(night.id)


def finish(store: NightStore, engine: Engine, night: Night, on_verdict: OnVerdict) -> Night:
    """Run the cells of a night until each has a verdict, also those that somebody wants measured again meanwhile.

    Raises what the engine raises. A night whose cells all have one needs no engine.
    """
    while not store.finish(night):
        engine.work(night, on_verdict)
        night = store.night(night.id)
    on_verdict(night)
    return store.night(night.id)


def overdue(past: Sequence[Night], now: datetime, timezone: str | None = None) -> str:
    """Return why a night is missing, "" where the last one began less than 26 hours ago and none died.

    `timezone` is that of the farm.
    """
    if not past:
        return "no night has run yet"
    for night in reversed(past):
        if night.finished_utc is None and window_over(night, now):
            return f"night {night.night} has not finished, and {window_over_words(night, timezone)}"
    hours = (now - datetime.fromisoformat(past[-1].begun_utc)) / timedelta(hours=1)
    return f"the last night began {hours:.0f} hours ago" if hours > OVERDUE_HOURS else ""
