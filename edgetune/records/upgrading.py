"""Upgrading: brings the tables of a records database to the present schema, by Alembic, in one transaction.

A process that is killed leaves the database as it was. Of two at once, one waits and finds nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from edgetune.config.database_location import DatabaseLocation
from edgetune.records.database import open_database
from edgetune.records.tables import SCHEMA_VERSION, revision_of, revisions

MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True)
class Upgraded:
    """The schema of a database before and after; they are equal where there was nothing to do."""

    before: int
    after: int


def upgrade(location: DatabaseLocation) -> Upgraded:
    """Bring a database to the present schema.

    Raises DatabaseError for one that is missing, damaged, newer, or of another program, and DiskFull.
    """
    database = open_database(location, create=False, older=True)
    try:
        with database.writing() as connection:
            database.hold_schema(connection)
            before = database.schema_version(connection)
            if before < SCHEMA_VERSION:
                _migrate(connection, before)
                database.note_schema(connection)
    finally:
        database.close()
    return Upgraded(before, SCHEMA_VERSION)


def _migrate(connection: Connection, before: int) -> None:
    from alembic import command  # 0.3 s that no other verb needs
    from alembic.config import Config

    revisions.create(connection, checkfirst=True)
    if connection.execute(revisions.select()).first() is None:
        connection.execute(revisions.insert().values(version_num=revision_of(before)))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision_of(SCHEMA_VERSION))
