"""Import and export of records as JSONL: one file to move between machines, to merge into databases, and to keep.

Imported text is untrusted: a line is stored only after `parse_line` accepted all of it. Where both sides
measured the same candidate, the better measurement stays (`schema.keep_better`), else the earlier one, so merging
in any order gives the same records.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import ColumnElement, select

from edgetune.errors import DatabaseError, DiskFull, OutputRefused
from edgetune.records.database import Database
from edgetune.records.record import MAX_LINE_BYTES, Record, parse_line, record_line
from edgetune.records.schema import find_same, from_row, insert_new, keep_better
from edgetune.records.tables import IDENTITY, records

NAMED_REFUSALS = 100
"""How many refused lines are reported with their reason; the others are only counted."""

_BATCH = 500
_ROWS_AT_ONCE = 200


@dataclass(frozen=True)
class ImportCounts:
    """Counts of the lines of an import by result; blank lines do not count.

    `replaced` counts known candidates whose imported measurement was better or earlier. `reasons` has line
    number (from 1) and reason of the first refused lines.
    """

    imported: int = 0
    duplicates: int = 0
    replaced: int = 0
    refused: int = 0
    reasons: tuple[tuple[int, str], ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The counts as plain JSON values."""
        return {
            "imported": self.imported,
            "duplicates": self.duplicates,
            "replaced": self.replaced,
            "refused": self.refused,
            "reasons": [{"line": line, "reason": reason} for line, reason in self.reasons],
        }


def export_jsonl(database: Database, path: Path, condition: ColumnElement[bool]) -> int:
    """Writes the chosen records to a file beside `path`, then renames it; returns their number.

    Lines are ordered by workload, target, toolchain, codegen version, board and candidate, without ids.
    """
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        _refuse_precious(database, path)
        with temporary.open("xb") as file:
            count = _write(database, file, condition)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise DiskFull(f"no space left to export to {path}: free some, or export elsewhere") from error
        raise OutputRefused(
            f"cannot export to {path} ({error.strerror}): give a file in a folder that can be written"
        ) from error
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):
            temporary.unlink()
    return count


def _refuse_precious(database: Database, path: Path) -> None:
    if path.exists() and (
        not path.is_file() or (isinstance(database.location, Path) and path.samefile(database.location))
    ):
        raise OutputRefused(f"{path} cannot be replaced by an export: give the name of another file")


def _write(database: Database, file: BinaryIO, condition: ColumnElement[bool]) -> int:
    query = select(records).where(condition).order_by(*(records.c[name] for name in IDENTITY))
    count = 0
    with database.reading() as connection:
        rows = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(query)
        for row in rows.mappings():
            file.write(record_line(from_row(row)).encode("utf-8") + b"\n")
            count += 1
    return count


def check_export(path: Path) -> None:
    """Raises DatabaseError where `path` cannot be read, or has lines but no record."""
    first: tuple[int, str] | None = None
    with _reading(path) as file:
        for number, line in _lines(file):
            try:
                parse_line(line)
            except ValueError as error:
                first = first or (number, str(error))
            else:
                return
    if first is not None:
        raise DatabaseError(
            f"{path} is not an export of edgetune (line {first[0]}: {first[1]}): "
            "give a file written by `edgetune records export`"
        )


def import_jsonl(database: Database, path: Path) -> ImportCounts:
    """Adds the records of a file, some hundred per transaction; importing it again changes nothing."""
    importer = _Importer(database)
    with _reading(path) as file:
        for number, line in _lines(file):
            importer.take(number, line)
    importer.flush()
    return importer.counts()


def copy(source: Database, destination: Database) -> ImportCounts:
    """Adds all records of one database to another, some hundred per transaction; copying again changes nothing."""
    importer = _Importer(destination)
    query = select(records).order_by(*(records.c[name] for name in IDENTITY))
    with source.reading() as connection:
        rows = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(query)
        for number, row in enumerate(rows.mappings(), 1):
            importer.take(number, record_line(from_row(row)).encode("utf-8"))
    importer.flush()
    return importer.counts()


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise DatabaseError(
            f"cannot import {path} ({error.strerror}): give a file written by `edgetune records export`"
        ) from error


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each line that is not blank; of a line that is too long, only enough to refuse it."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) <= MAX_LINE_BYTES or line.endswith(b"\n"):
            if line.strip():
                yield number, line.rstrip(b"\r\n")
            continue
        yield number, line
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE_BYTES)


class _Importer:
    """Counts lines and stores the accepted ones in batches."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._batch: list[Record] = []
        self._outcomes = {"imported": 0, "duplicates": 0, "replaced": 0, "refused": 0}
        self._reasons: list[tuple[int, str]] = []

    def take(self, number: int, line: bytes) -> None:
        """Accepts or refuses one line."""
        try:
            self._batch.append(parse_line(line))
        except ValueError as error:
            self._outcomes["refused"] += 1
            if len(self._reasons) < NAMED_REFUSALS:
                self._reasons.append((number, str(error)))
        if len(self._batch) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Commits the lines accepted since the last time."""
        outcomes = dict.fromkeys(("imported", "duplicates", "replaced"), 0)
        if self._batch:
            with self._database.writing() as connection:
                # Two imports of the same records in another order would wait for each other.
                self._database.hold_records(connection)
                for record in self._batch:
                    if insert_new(connection, record) is not None:
                        outcomes["imported"] += 1
                    elif keep_better(connection, find_same(connection, record), record):
                        outcomes["replaced"] += 1
                    else:
                        outcomes["duplicates"] += 1
        for name, count in outcomes.items():
            self._outcomes[name] += count
        self._batch.clear()

    def counts(self) -> ImportCounts:
        """The result so far."""
        return ImportCounts(**self._outcomes, reasons=tuple(self._reasons))
