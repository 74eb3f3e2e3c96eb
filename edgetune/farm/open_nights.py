"""Open nights: those that have not finished, such as one whose host died or that was reopened, and missing ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import select, update

from edgetune.farm.engine import Engine, OnVerdict
from edgetune.farm.farm_file import Farm
from edgetune.farm.night_store import Night, NightStore
from edgetune.farm.night_tables import nights

OVERDUE_HOURS = 26


def open_nights(store: NightStore, farm: str) -> list[Night]:
    """The nights of a farm that have not finished, oldest first."""
    return [night for night in store.nights(farm) if night.finished_utc is None]


def others_alone(farm: Farm, store: NightStore) -> list[str]:
    """Names of the farms of the database in a farm's own folder where it has none of the farm's; else none."""
    if not isinstance(farm.db, Path) or farm.db.parent != farm.folder:
        return []  # several farms may share it
    with store.database.reading() as connection:
        names = sorted(set(connection.scalars(select(nights.c.farm))))
    return [] if farm.name in names else names


def window_over(night: Night, now: datetime) -> bool:
    """Whether the window of a night is over, finished or not; a night by day has none."""
    return night.ends_utc is not None and datetime.fromisoformat(night.ends_utc) <= now


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


def overdue(past: Sequence[Night], now: datetime) -> str:
    """Return why a night is missing, "" where the last one began less than 26 hours ago and none died."""
    if not past:
        return "no night has run yet"
    for night in reversed(past):
        if night.finished_utc is None and window_over(night, now):
            return f"night {night.night} has not finished, and its window was over at {night.ends_utc}"
    hours = (now - datetime.fromisoformat(past[-1].begun_utc)) / timedelta(hours=1)
    return f"the last night began {hours:.0f} hours ago" if hours > OVERDUE_HOURS else ""
