"""Tables of the records database. A change of them is a revision in `migrations/` and a new `SCHEMA_VERSION`."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, Table, Text, UniqueConstraint

from edgetune.config.database_location import DatabaseLocation
from edgetune.errors import DatabaseError

SCHEMA_VERSION = 2
"""Stored in the database; increases whenever a table changes."""

APPLICATION_ID = 0x65744E31
"""Stored in the database: identifies those of edgetune."""

IDENTITY = ("workload", "target_fingerprint", "toolchain", "codegen_version", "board", "candidate")
"""The columns that make a record unique, and the order of exported lines."""

BYTE_ORDERED_TEXT = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that every engine orders by its bytes, so that exports of equal records are equal."""

ROW_ID = BigInteger().with_variant(Integer, "sqlite")
"""The type of an id: SQLite counts rows only in a column of its own type."""


def _key_columns() -> tuple[Column[Any], ...]:
    """The columns of a record key, made anew for each table because a column belongs to one table."""
    return (
        Column("workload", BYTE_ORDERED_TEXT, nullable=False),
        Column("target_fingerprint", BYTE_ORDERED_TEXT, nullable=False),
        Column("toolchain", BYTE_ORDERED_TEXT, nullable=False),
        Column("codegen_version", BigInteger, nullable=False),
        Column("board", BYTE_ORDERED_TEXT, nullable=False),
    )


def _measured_columns() -> tuple[Column[Any], ...]:
    """The columns of a record but for its key; long ones come last: SQLite reads a row only as far as needed."""
    return (
        Column("candidate", BYTE_ORDERED_TEXT, nullable=False),
        Column("status", BYTE_ORDERED_TEXT, nullable=False),
        Column("median_ns", Float),
        Column("ci_low_ns", Float),
        Column("ci_high_ns", Float),
        Column("max_error", Float),
        Column("scratch_bytes", BigInteger, nullable=False),
        Column("code_bytes", BigInteger, nullable=False),
        Column("seed", BigInteger, nullable=False),
        Column("round", BigInteger, nullable=False),
        Column("build_seconds", Float, nullable=False),
        Column("measure_seconds", Float, nullable=False),
        Column("created_utc", BYTE_ORDERED_TEXT, nullable=False),
        Column("tool_version", BYTE_ORDERED_TEXT, nullable=False),
        Column("workload_name", BYTE_ORDERED_TEXT, nullable=False),
        Column("target", BYTE_ORDERED_TEXT, nullable=False),
        Column("reason", BYTE_ORDERED_TEXT, nullable=False),
        Column("environment", BYTE_ORDERED_TEXT, nullable=False),
        Column("samples_ns", BYTE_ORDERED_TEXT, nullable=False),
        Column("trace", BYTE_ORDERED_TEXT, nullable=False),
    )


metadata = MetaData()

records = Table(
    "records",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    *_key_columns(),
    *_measured_columns(),
    UniqueConstraint(*IDENTITY, name="one_record_per_candidate"),
    sqlite_autoincrement=True,  # the id of a pruned record is never reused
)

starts = Table(
    "starts",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    *_key_columns(),
    Column("candidate", BYTE_ORDERED_TEXT, nullable=False, index=True),
    Column("utc", BYTE_ORDERED_TEXT, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("host", BYTE_ORDERED_TEXT, nullable=False, server_default=""),
    Column("run", BYTE_ORDERED_TEXT, nullable=False, server_default=""),
    sqlite_autoincrement=True,
)

ends = Table(
    "ends",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    *_key_columns(),
    Column("branch", BYTE_ORDERED_TEXT, nullable=False, server_default=""),
    Column("utc", BYTE_ORDERED_TEXT, nullable=False),
    UniqueConstraint(*IDENTITY[:-1], "branch", name="one_end_per_key_and_branch"),
    sqlite_autoincrement=True,
)
"""When the last run over a key ended: in each branch, and outside of branches ("")."""

snapshots = Table(
    "snapshots",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    Column("name", BYTE_ORDERED_TEXT, nullable=False),
    Column("last_record", BigInteger, nullable=False),
    Column("utc", BYTE_ORDERED_TEXT, nullable=False),
    UniqueConstraint("name", name="one_snapshot_per_name"),
    sqlite_autoincrement=True,
)

images = Table(
    "record_images",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    Column("record_id", BigInteger, nullable=False),
    Column("branch", BYTE_ORDERED_TEXT, nullable=False),
    Column("snapshot_id", BigInteger, nullable=False),
    *_key_columns(),
    *_measured_columns(),
    UniqueConstraint("record_id", "branch", "snapshot_id", name="one_image_per_record_and_branch"),
    Index("record_images_by_workload", "workload", "branch", "snapshot_id"),
    sqlite_autoincrement=True,
)
"""Records as a snapshot saw them, where they changed since (branch ""), and as a branch of it has them."""


def revision_of(version: int) -> str:
    """The revision that made a schema of this version."""
    return f"{version:03}"


def check_version(location: DatabaseLocation, version: int, *, older: bool) -> None:
    """Raise DatabaseError for a schema of another version than the present one; `older` allows those of before."""
    if version == SCHEMA_VERSION or (older and 1 <= version < SCHEMA_VERSION):
        return
    what = f"{location} has schema version {version} and this edgetune "
    if 1 <= version < SCHEMA_VERSION:
        raise DatabaseError(
            f"{what}needs version {SCHEMA_VERSION}: end what uses the database, then run "
            f"`edgetune records upgrade --db {location}`"
        )
    raise DatabaseError(
        f"{what}is older, it reads version {SCHEMA_VERSION}: install a newer one, or import the lines that "
        "`edgetune records export` of the edgetune that wrote it makes into a new --db"
    )


MEASURED = tuple(column.name for column in records.c if column.name != "id")
"""Names of the columns of a record, its id excluded."""
