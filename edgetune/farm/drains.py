"""Drains: boards and hosts that somebody has taken out of the nights, as rows of the records database."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import delete, inspect, select

from edgetune.farm.calendar import clock_time
from edgetune.farm.night_tables import attempts, drained, night_cells, nights
from edgetune.records.database import Database
from edgetune.records.record import utc_now
from edgetune.records.schema import insert_unless_known


@dataclass(frozen=True)
class Drain:
    """A board or host (`name`) that takes no cells, who said so, and when (UTC)."""

    name: str
    by: str
    utc: str

    def sentence(self, timezone: str | None) -> str:
        """Who drained what, and since when, in the farm's time zone."""
        return f"{self.name} was drained by {self.by} at {clock_time(self.utc, timezone)}"


def drains(database: Database) -> Mapping[str, Drain]:
    """All drains by their name. Raises DatabaseError."""
    with database.reading() as connection:
        if not inspect(connection).has_table(drained.name):
            return {}
        rows = connection.execute(select(drained.c.name, drained.c.by, drained.c.utc)).all()
    return {name: Drain(name, by, utc) for name, by, utc in rows}


def hosts_of(database: Database, farm: str) -> list[str]:
    """Hosts that ran a cell of a farm, which can be drained. Raises DatabaseError."""
    joined = (
        select(attempts.c.host)
        .join(night_cells, night_cells.c.id == attempts.c.night_cell_id)
        .join(nights, nights.c.id == night_cells.c.night_id)
        .where(nights.c.farm == farm)
    )
    with database.reading() as connection:
        return sorted(set(connection.scalars(joined)))


def drain(database: Database, name: str) -> None:
    """Take a board or host out of all nights, now; it stays out until `undrain`. Raises DatabaseError."""
    with database.writing() as connection:
        row = {"name": name, "by": getpass.getuser(), "utc": utc_now()}
        insert_unless_known(connection, drained, row, "one_drain_per_name")


def undrain(database: Database, name: str) -> bool:
    """Give a board or host back to the nights; False where it was not drained. Raises DatabaseError."""
    with database.writing() as connection:
        return connection.execute(delete(drained).where(drained.c.name == name)).rowcount > 0
