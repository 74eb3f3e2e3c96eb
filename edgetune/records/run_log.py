"""Run log: which measurements were started, when, on which host and in which run; and when a run over a key ended."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, insert, or_, select, update

from edgetune.config.host import host_name, run_name
from edgetune.records.record import Record, RecordKey, utc_now
from edgetune.records.schema import insert_unless_known
from edgetune.records.tables import IDENTITY, ends, records, starts

_ORDER = tuple(ends.c[name] for name in IDENTITY[:-1])


def log_start(connection: Connection, key: RecordKey, candidate: str) -> None:
    """Log that the measurement of a candidate starts now, in this process, host and run."""
    row = {**_columns(key), "candidate": candidate, "utc": utc_now(), "pid": os.getpid()}
    connection.execute(insert(starts).values({**row, "host": host_name(), "run": run_name()}))


def origins_of(connection: Connection, record: Record) -> list[dict[str, Any]]:
    """Start time (UTC), process, host and run of each measurement of a record's candidate, oldest first.

    Host and run are empty for those of versions that did not log them.
    """
    same = and_(*(starts.c[name] == getattr(record, name) for name in IDENTITY if name != "board"))
    board = or_(starts.c.board == "", starts.c.board == record.board)
    columns = [starts.c.host, starts.c.run, starts.c.utc, starts.c.pid]
    chosen = select(*columns).where(same, board).order_by(starts.c.id)
    return [dict(row) for row in connection.execute(chosen).mappings()]


def forget_starts(connection: Connection, doomed: ColumnElement[bool]) -> None:
    """Delete the starts of records that meet a condition."""
    same = and_(*(records.c[name] == starts.c[name] for name in IDENTITY if name != "board"))
    board = or_(starts.c.board == "", starts.c.board == records.c.board)
    connection.execute(delete(starts).where(exists().where(same, board, doomed)))


def in_order(keys: Iterable[RecordKey]) -> list[RecordKey]:
    """The keys, each once, in the order in which every transaction changes their ends."""
    return sorted(set(keys), key=lambda key: tuple(_columns(key).values()))


def log_end(connection: Connection, key: RecordKey, branch: str) -> None:
    """Log that a run over this key ended now, in a branch or ("") outside of any."""
    row = {**_columns(key), "branch": branch}
    ended = {"utc": utc_now()}
    if insert_unless_known(connection, ends, row | ended, "one_end_per_key_and_branch") is None:
        same = and_(*(ends.c[name] == value for name, value in row.items()))
        connection.execute(update(ends).where(same).values(ended))


def last_end(connection: Connection, key: RecordKey, within: ColumnElement[bool] | None = None) -> str | None:
    """When the last run over this key ended, in UTC, of those that meet a condition; None when none did."""
    same = [ends.c[name] == value for name, value in _columns(key).items()]
    chosen = select(func.max(ends.c.utc)).where(*same, *([] if within is None else [within]))
    ended: str | None = connection.scalar(chosen)
    return ended


def merge_ends(connection: Connection, condition: ColumnElement[bool]) -> None:
    """Count the runs of branches that are deleted, whose rows meet a condition, as runs outside of them."""
    for row in connection.execute(select(ends).where(condition).order_by(*_ORDER)).mappings().all():
        key = {name: row[name] for name in IDENTITY[:-1]}
        connection.execute(delete(ends).where(ends.c.id == row["id"]))
        if insert_unless_known(connection, ends, {**key, "utc": row["utc"]}, "one_end_per_key_and_branch") is None:
            same = and_(*(ends.c[name] == value for name, value in key.items()), ends.c.branch == "")
            connection.execute(update(ends).where(same, ends.c.utc < row["utc"]).values(utc=row["utc"]))


def _columns(key: RecordKey) -> dict[str, Any]:
    return {**asdict(key), "board": key.board or ""}
