"""Starts know host and run, ends know their branch; snapshots, and images of records."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "002"
down_revision = "001"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TEXTS = ("created_utc", "tool_version", "workload_name", "target", "reason", "environment", "samples_ns", "trace")
_KEY = ("workload", "target_fingerprint", "toolchain", "codegen_version", "board")


def upgrade() -> None:
    """Make revision 2 of 1."""
    _starts()
    _ends()
    op.create_table(
        "snapshots",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("last_record", sa.BigInteger, nullable=False),
        sa.Column("utc", _TEXT, nullable=False),
        sa.UniqueConstraint("name", name="one_snapshot_per_name"),
        sqlite_autoincrement=True,
    )
    _images()


def _starts() -> None:
    for name in ("host", "run"):
        op.add_column("starts", sa.Column(name, _TEXT, nullable=False, server_default=""))
    if _has("start_origins"):
        found = "(SELECT {0} FROM start_origins WHERE start_origins.start_id = starts.id)"
        known = "EXISTS (SELECT 1 FROM start_origins WHERE start_origins.start_id = starts.id)"
        op.execute(f"UPDATE starts SET host = {found.format('host')}, run = {found.format('run')} WHERE {known}")  # noqa: S608
        op.drop_table("start_origins")


def _ends() -> None:
    """Neither engine changes a unique constraint alike, and the table is small: it is written anew."""
    rows: list[dict[str, Any]] = []
    if _has("ends"):
        old = sa.table("ends", *(sa.column(name) for name in (*_KEY, "utc")))
        rows = [dict(row) for row in op.get_bind().execute(sa.select(old)).mappings()]
        op.drop_table("ends")
    made = op.create_table(
        "ends",
        sa.Column("id", _ID, primary_key=True),
        *_key_columns(),
        sa.Column("branch", _TEXT, nullable=False, server_default=""),
        sa.Column("utc", _TEXT, nullable=False),
        sa.UniqueConstraint(*_KEY, "branch", name="one_end_per_key_and_branch"),
        sqlite_autoincrement=True,
    )
    op.bulk_insert(made, rows)


def _images() -> None:
    op.create_table(
        "record_images",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("record_id", sa.BigInteger, nullable=False),
        sa.Column("branch", _TEXT, nullable=False),
        sa.Column("snapshot_id", sa.BigInteger, nullable=False),
        *_key_columns(),
        sa.Column("candidate", _TEXT, nullable=False),
        sa.Column("status", _TEXT, nullable=False),
        *(sa.Column(name, sa.Float) for name in ("median_ns", "ci_low_ns", "ci_high_ns", "max_error")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("scratch_bytes", "code_bytes", "seed", "round")),
        *(sa.Column(name, sa.Float, nullable=False) for name in ("build_seconds", "measure_seconds")),
        *(
            sa.Column(name, _TEXT, nullable=False)
            for name in ("created_utc", "tool_version", "workload_name", "target")
        ),
        *(sa.Column(name, _TEXT, nullable=False) for name in ("reason", "environment", "samples_ns", "trace")),
        sa.UniqueConstraint("record_id", "branch", "snapshot_id", name="one_image_per_record_and_branch"),
        sqlite_autoincrement=True,
    )
    op.create_index("record_images_by_workload", "record_images", ["workload", "branch", "snapshot_id"])


def _key_columns() -> tuple[sa.Column[Any], ...]:
    number = sa.BigInteger()
    return tuple(sa.Column(name, number if name == "codegen_version" else _TEXT, nullable=False) for name in _KEY)


def _has(table: str) -> bool:
    return sa.inspect(op.get_bind()).has_table(table)
