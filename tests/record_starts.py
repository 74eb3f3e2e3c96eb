"""The measurements that a database says have started, read without edgetune."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from edgetune.records import RecordKey

_KEY = "workload, target_fingerprint, toolchain, codegen_version, board"
_RECORDED = """SELECT 1 FROM records WHERE records.workload = starts.workload
    AND records.target_fingerprint = starts.target_fingerprint AND records.toolchain = starts.toolchain
    AND records.codegen_version = starts.codegen_version AND records.candidate = starts.candidate
    AND starts.board IN ('', records.board)"""


@dataclass(frozen=True)
class Start:
    """A candidate whose measurement started: its key, the time (UTC) and the process."""

    key: RecordKey
    candidate: str
    utc: str
    pid: int


def starts(database: Path) -> list[Start]:
    """Every measurement that started, in order; a candidate appears twice when a kill interrupted its first one."""
    return _read(database, f"SELECT {_KEY}, candidate, utc, pid FROM starts ORDER BY id")  # noqa: S608  constants


def in_flight(database: Path) -> list[Start]:
    """Those that left no record; a start that was logged without a board matches any board."""
    left = f"NOT EXISTS ({_RECORDED})"
    return _read(database, f"SELECT {_KEY}, candidate, utc, pid FROM starts WHERE {left} ORDER BY id")  # noqa: S608


def _read(database: Path, query: str) -> list[Start]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=60)) as connection:
        rows = connection.execute(query).fetchall()
    return [Start(RecordKey(row[0], row[1], row[2], row[3], row[4] or None), *row[5:]) for row in rows]
