"""Tables of nights in the records database. They are created on the first write, so that older versions read the file.

A verdict is one row per night and cell. Whoever writes one names the attempt that found it, and only the present
attempt of a cell may: a process that was taken for dead and comes back changes nothing.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Integer, MetaData, Table, Text, UniqueConstraint

from edgetune.records.tables import ROW_ID

night_metadata = MetaData()

farms = Table(
    "farms",
    night_metadata,
    Column("id", ROW_ID, primary_key=True),
    Column("name", Text, nullable=False),
    Column("identity", Text, nullable=False),
    UniqueConstraint("name", name="one_farm_per_name"),
    sqlite_autoincrement=True,
)

nights = Table(
    "nights",
    night_metadata,
    Column("id", ROW_ID, primary_key=True),
    Column("farm", Text, nullable=False),
    Column("night", Text, nullable=False),
    Column("begun_utc", Text, nullable=False),
    Column("ends_utc", Text),
    Column("finished_utc", Text),
    Column("host", Text, nullable=False),
    Column("tool_version", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("limit", Float, nullable=False),
    UniqueConstraint("farm", "night", name="one_night_per_date"),
    sqlite_autoincrement=True,
)

night_cells = Table(
    "night_cells",
    night_metadata,
    Column("id", ROW_ID, primary_key=True),
    Column("night_id", BigInteger, nullable=False, index=True),
    Column("position", Integer, nullable=False),
    Column("cell", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("board", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("searches", Integer, nullable=False),
    Column("settings", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    UniqueConstraint("night_id", "cell", name="one_cell_per_night"),
    sqlite_autoincrement=True,
)

cell_settings = Table(
    "night_cell_settings",
    night_metadata,
    Column("id", ROW_ID, primary_key=True),
    Column("night_cell_id", BigInteger, nullable=False),
    Column("settings", Text, nullable=False),
    UniqueConstraint("night_cell_id", name="one_row_of_settings_per_cell"),
    sqlite_autoincrement=True,
)

attempts = Table(
    "night_attempts",
    night_metadata,
    Column("id", ROW_ID, primary_key=True),
    Column("night_cell_id", BigInteger, nullable=False, index=True),
    Column("number", Integer, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("begun_utc", Text, nullable=False),
    Column("ended_utc", Text),
    Column("outcome", Text, nullable=False),
    UniqueConstraint("night_cell_id", "number", name="one_row_per_attempt"),
    sqlite_autoincrement=True,
)

verdicts = Table(
    "verdicts",
    night_metadata,
    Column("id", ROW_ID, primary_key=True),
    Column("night_cell_id", BigInteger, nullable=False, unique=True),
    Column("attempt", Integer, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("package", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Column("utc", Text, nullable=False),
    sqlite_autoincrement=True,
)

accepted = Table(
    "accepted_packages",
    night_metadata,
    Column("id", ROW_ID, primary_key=True),
    Column("farm", Text, nullable=False),
    Column("cell", Text, nullable=False, index=True),
    Column("settings", Text, nullable=False),
    Column("night", Text, nullable=False),
    Column("package", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Column("utc", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("because", Text, nullable=False),
    sqlite_autoincrement=True,
)

drained = Table(
    "drained",
    night_metadata,
    Column("id", ROW_ID, primary_key=True),
    Column("name", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("utc", Text, nullable=False),
    UniqueConstraint("name", name="one_drain_per_name"),
    sqlite_autoincrement=True,
)

notifications = Table(
    "night_notifications",
    night_metadata,
    Column("id", ROW_ID, primary_key=True),
    Column("night_id", BigInteger, nullable=False),
    Column("told", Text, nullable=False),
    Column("fault", Text, nullable=False),
    Column("utc", Text, nullable=False),
    UniqueConstraint("night_id", name="one_notification_per_night"),
    sqlite_autoincrement=True,
)
