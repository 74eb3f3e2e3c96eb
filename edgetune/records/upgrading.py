"""Upgrading: brings the tables of a records database to the present schema, by Alembic, in one transaction.

The version that the database itself notes is the truth. Alembic is told it in a table of edgetune's own, which only an
upgrade makes: `alembic_version` may be that of another program in the same database.

A process that is killed leaves the database as it was. Of two at once, one waits and finds nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, String, Table

from edgetune.config.database_location import DatabaseLocation
from edgetune.errors import DatabaseError
from edgetune.records.database import open_database
from edgetune.records.tables import SCHEMA_VERSION, revision_of

MIGRATIONS = Path(__file__).parent / "migrations"

revisions = Table("edgetune_alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""One row, which names the revision of `migrations/` that the tables have; Alembic reads and writes it."""


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
                _migrate(connection, location, before)
                database.note_schema(connection)
    finally:
        database.close()
    return Upgraded(before, SCHEMA_VERSION)


def _migrate(connection: Connection, location: DatabaseLocation, before: int) -> None:
    from alembic import command  # 0.3 s that no other verb needs
    from alembic.config import Config
    from alembic.util import CommandError

    revisions.create(connection, checkfirst=True)
    connection.execute(revisions.delete())
    connection.execute(revisions.insert().values(version_num=revision_of(before)))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes.update(connection=connection, version_table=revisions.name)
    try:
        command.upgrade(config, revision_of(SCHEMA_VERSION))
    except CommandError as error:
        raise DatabaseError(
            f"{location} is not upgraded from schema version {before} ({error}): install edgetune again, then run the "
            "same command"
        ) from error
