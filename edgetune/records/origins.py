"""Origins: on which host and in which run each measurement was started, beside the table of starts."""

from __future__ import annotations

import os

from sqlalchemy import BigInteger, Column, Connection, Table, and_, delete, insert, inspect, or_, select

from edgetune.config.host import host_name
from edgetune.records.record import Record
from edgetune.records.schema import BYTE_ORDERED_TEXT, IDENTITY, later, starts

RUN = "EDGETUNE_RUN"
"""Variable that names a run, such as the night and cell; without it the run has no name."""

_LONGEST = 500

origins = Table(
    "start_origins",
    later,
    Column("start_id", BigInteger, primary_key=True, autoincrement=False),
    Column("host", BYTE_ORDERED_TEXT, nullable=False),
    Column("run", BYTE_ORDERED_TEXT, nullable=False),
)


def log_origin(connection: Connection, start: int) -> None:
    """Note that this host, in this run, logged a start; `origins` must exist."""
    row = {"start_id": start, "host": host_name(), "run": os.environ.get(RUN, "")[:_LONGEST]}
    connection.execute(insert(origins).values(row))


def origins_of(connection: Connection, record: Record) -> list[dict[str, object]]:
    """Start time (UTC), process, host and run of each measurement of a record's candidate, oldest first.

    Host and run are None for those of older versions.
    """
    same = and_(*(starts.c[name] == getattr(record, name) for name in IDENTITY if name != "board"))
    board = or_(starts.c.board == "", starts.c.board == record.board)
    known = inspect(connection).has_table(origins.name)
    columns = [starts.c.utc, starts.c.pid, *([origins.c.host, origins.c.run] if known else [])]
    joined = starts.outerjoin(origins, origins.c.start_id == starts.c.id) if known else starts
    chosen = select(*columns).select_from(joined).where(same, board).order_by(starts.c.id)
    return [{"host": None, "run": None, **row} for row in connection.execute(chosen).mappings()]


def prune_origins(connection: Connection) -> None:
    """Delete origins whose start was deleted."""
    if inspect(connection).has_table(origins.name):
        connection.execute(delete(origins).where(origins.c.start_id.not_in(select(starts.c.id))))
