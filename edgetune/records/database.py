"""The engines of the records database: SQLite for one host, PostgreSQL for several."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Connection

from edgetune.config.database_location import DatabaseLocation, DatabaseUrl
from edgetune.records.sqlite_database import SqliteDatabase


class Database(Protocol):
    """Connections to one records database. Each process opens its own; threads may share it.

    Its methods raise DatabaseError or DiskFull.
    """

    @property
    def location(self) -> DatabaseLocation:
        """The file, symbolic links resolved, or the URL."""
        ...

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection that reads one consistent snapshot of the database."""
        ...

    def writing(self) -> AbstractContextManager[Connection]:
        """A connection that may write; commits durably at the end of the block.

        Other hosts may write at the same time: what is read in order to be changed is read `FOR UPDATE`.
        """
        ...

    def changing_records(self) -> AbstractContextManager[Connection]:
        """A connection as that of `writing`, for a transaction that changes records or their images.

        It waits at its begin, and only there, for a host that holds the records.
        """
        ...

    def hold_schema(self, connection: Connection) -> None:
        """Until the end of the transaction, let no other host make tables."""
        ...

    def hold_records(self, connection: Connection) -> None:
        """Until the end of the transaction, let no other host change records; wait for those that do.

        It comes before the first change of a record in its transaction.
        """
        ...

    def schema_version(self, connection: Connection) -> int:
        """Version of the tables."""
        ...

    def note_schema(self, connection: Connection) -> None:
        """Note that the tables have the present version."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


def open_database(location: DatabaseLocation, *, create: bool, older: bool = False) -> Database:
    """Open and check a database; create it when it is missing and `create` is true.

    With `older`, its tables may have an older version, for the upgrade. Raises DatabaseError, DiskFull.
    """
    if isinstance(location, DatabaseUrl):
        from edgetune.records.postgresql_database import PostgresqlDatabase

        return PostgresqlDatabase.open(location, create=create, older=older)
    return SqliteDatabase.open(location, create=create, older=older)


def database_exists(location: DatabaseLocation) -> bool:
    """Whether the file exists, or the server's database has the tables. Raises DatabaseError."""
    if isinstance(location, DatabaseUrl):
        from edgetune.records.postgresql_database import has_tables

        return has_tables(location)
    return location.exists()
