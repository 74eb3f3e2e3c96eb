"""PostgreSQL database: the records of several hosts, checked when opened, with one clear message per failure.

A transaction is durable when its block ends (``synchronous_commit``, on by default). Writers of several hosts exclude
each other by row: what is read in order to be changed is read `FOR UPDATE`, and what is new is unique. Passwords come
from libpq's own files and variables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    Engine,
    MetaData,
    Table,
    create_engine,
    exc,
    func,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.engine import make_url

from edgetune.config.database_location import DatabaseUrl
from edgetune.errors import DatabaseError, DiskFull
from edgetune.records.tables import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    check_version,
    images,
    metadata,
    records,
)

CONNECT_SECONDS = 10
"""How long a server may take to answer."""

MOST_CONNECTIONS = 15
"""Connections of one process at a time."""

CONNECTION_WAIT_SECONDS = 30
"""How long a thread waits for one of the connections of its process."""

CONNECTION_OPTIONS: Mapping[str, int] = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Options of libpq with which a network that is cut is noticed within about ten seconds."""

LEAST_VERSION = 13

_HELD = f"{records.name}, {images.name}"
"""The tables of records in the one order in which all transactions lock them."""

_marks = Table(
    "edgetune",
    MetaData(),
    Column("application_id", BigInteger, primary_key=True),
    Column("schema_version", BigInteger, nullable=False),
)
"""One row, which says whose database this is."""


class PostgresqlDatabase:
    """Connections to one database of a server; see `edgetune.records.database.Database`."""

    def __init__(self, location: DatabaseUrl, engine: Engine) -> None:
        self.location = location
        self._engine = engine
        self._pid = os.getpid()

    @classmethod
    def open(cls, location: DatabaseUrl, *, create: bool, older: bool = False) -> PostgresqlDatabase:
        """Connect and check the tables; make them in an empty database when `create` is true.

        With `older`, tables of an older version are taken as they are. Raises DatabaseError or DiskFull.
        """
        database = cls(location, _engine(location))
        try:
            if create:
                with database.writing() as connection:
                    _check_release(connection, location)
                    database.hold_schema(connection)
                    _create(connection, location)
            with database.reading() as connection:
                _check(connection, location, older=older)
        except BaseException:
            database.close()
            raise
        return database

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose(close=self._pid == os.getpid())

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that reads one consistent snapshot of the database."""
        with self._transaction(isolation_level="REPEATABLE READ", postgresql_readonly=True) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection that may write; commits durably at the end of the block."""
        with self._transaction(isolation_level="READ COMMITTED") as connection:
            yield connection

    @contextmanager
    def changing_records(self) -> Iterator[Connection]:
        """As `writing`; it has the locks of both tables from its begin on, so that it never waits with one of them."""
        with self.writing() as connection:
            connection.exec_driver_sql(f"LOCK TABLE {_HELD} IN ROW EXCLUSIVE MODE")
            yield connection

    def hold_schema(self, connection: Connection) -> None:
        """Until the end of the transaction, let no other host make tables."""
        connection.execute(select(func.pg_advisory_xact_lock(APPLICATION_ID)))

    def hold_records(self, connection: Connection) -> None:
        """Until the end of the transaction, let no other host change records; wait for those that do."""
        # SHARE would let two hosts hold them, which then wait for each other to write.
        connection.exec_driver_sql(f"LOCK TABLE {_HELD} IN SHARE ROW EXCLUSIVE MODE")

    def schema_version(self, connection: Connection) -> int:
        """Version of the tables."""
        return _version(connection) or 0

    def note_schema(self, connection: Connection) -> None:
        """Note that the tables have the present version."""
        own = _marks.c.application_id == APPLICATION_ID
        connection.execute(update(_marks).where(own).values(schema_version=SCHEMA_VERSION))

    @contextmanager
    def _transaction(self, **options: object) -> Iterator[Connection]:
        if self._pid != os.getpid():
            raise DatabaseError(f"{self.location} was opened before a fork: open it again in the new process")
        with _explained(self.location), self._engine.execution_options(**options).begin() as connection:
            yield connection


def has_tables(location: DatabaseUrl) -> bool:
    """Whether the database has edgetune's tables. Raises DatabaseError where it cannot be reached."""
    engine = _engine(location)
    try:
        with _explained(location), engine.connect() as connection:
            return inspect(connection).has_table(_marks.name)
    finally:
        engine.dispose()


@dataclass(frozen=True)
class ConnectionFacts:
    """How a server is reached and protects itself, and how large the database is.

    `tcp` is false for a Unix socket, `remote` true where the server is on another host. `asked` says whether the server
    asked this connection for a password or a certificate; `stored_as` is how it stores new passwords.
    """

    release: int
    tcp: bool
    remote: bool
    encrypted: bool
    asked: bool
    stored_as: str
    bytes: int


def connection_facts(location: DatabaseUrl) -> ConnectionFacts:
    """Facts about a connection to the server. Raises DatabaseError where it cannot be reached."""
    engine = _engine(location)
    query = """
        SELECT current_setting('server_version_num')::int / 10000, current_setting('password_encryption'),
               inet_server_addr() IS NOT NULL,
               COALESCE(NOT inet_server_addr() <<= ANY (ARRAY['127.0.0.0/8', '::1/128']::inet[]), FALSE),
               COALESCE((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), FALSE),
               (SELECT client_dn IS NOT NULL FROM pg_stat_ssl WHERE pid = pg_backend_pid()),
               pg_database_size(current_database())
    """
    try:
        with _explained(location), engine.connect() as connection:
            release, stored_as, tcp, remote, encrypted, certified, size = connection.exec_driver_sql(query).one()
            asked = bool(certified) or connection.connection.driver_connection.pgconn.used_password  # type: ignore[union-attr]  # psycopg's
    finally:
        engine.dispose()
    return ConnectionFacts(int(release), bool(tcp), bool(remote), bool(encrypted), asked, str(stored_as), int(size))


def _engine(location: DatabaseUrl) -> Engine:
    try:
        import psycopg  # noqa: F401  SQLAlchemy's own message does not say which extra has it
    except ImportError as error:
        raise DatabaseError(f"{location} needs psycopg: pip install 'edgetune[nightly]'") from error
    try:
        url = make_url(location.text).set(drivername="postgresql+psycopg")
        _check_options(location, url)
        # A connection that a restart of the server has ended is replaced before it is used.
        return create_engine(
            url,
            pool_pre_ping=True,
            pool_size=MOST_CONNECTIONS,
            max_overflow=0,
            pool_timeout=CONNECTION_WAIT_SECONDS,
            connect_args={name: value for name, value in CONNECTION_OPTIONS.items() if name not in url.query},
        )
    except (exc.ArgumentError, ValueError) as error:
        raise DatabaseError(f"{location} is no URL of a database: write postgresql://USER@HOST:PORT/NAME") from error


def _check_options(location: DatabaseUrl, url: URL) -> None:
    """Raise DatabaseError for an option after the `?` that libpq does not know."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import make_conninfo

    for name in url.query:
        try:
            make_conninfo(**{name: ""})
        except ProgrammingError as error:
            raise DatabaseError(
                f"{location} has an option '{name}' that PostgreSQL does not know: remove it, or correct its name "
                "(such as host, sslmode, connect_timeout)"
            ) from error


def _create(connection: Connection, location: DatabaseUrl) -> None:
    """Make the tables in one transaction, unless they are there."""
    tables = inspect(connection).get_table_names()
    if _marks.name in tables:
        return
    if {table.name for table in metadata.sorted_tables} & set(tables):
        raise DatabaseError(f"{location} is a database of another program: give one of its own with --db")
    _marks.create(connection)
    metadata.create_all(connection)
    connection.execute(insert(_marks).values(application_id=APPLICATION_ID, schema_version=SCHEMA_VERSION))


def _check_release(connection: Connection, location: DatabaseUrl) -> None:
    """Raise DatabaseError where the server is too old, before anything is written there."""
    release = int(connection.exec_driver_sql("SHOW server_version_num").scalar_one()) // 10000
    if release < LEAST_VERSION:
        raise DatabaseError(f"{location} runs PostgreSQL {release}: edgetune needs {LEAST_VERSION} or later")


def _check(connection: Connection, location: DatabaseUrl, *, older: bool) -> None:
    _check_release(connection, location)
    found = inspect(connection)
    if not found.has_table(_marks.name):
        raise DatabaseError(f"{location} has no records yet: run `edgetune tune` to make them, or give another --db")
    ours = {column["name"] for column in found.get_columns(_marks.name)} == set(_marks.c.keys())
    version = _version(connection) if ours else None
    if version is None:
        raise DatabaseError(f"{location} is a database of another program: give another one with --db")
    check_version(location, version, older=older)
    if version != SCHEMA_VERSION:
        return
    for table in metadata.sorted_tables:
        if not found.has_table(table.name):
            raise DatabaseError(f"{location} lacks the table {table.name}: restore a copy of the database")


def _version(connection: Connection) -> int | None:
    version: int | None = connection.scalar(
        select(_marks.c.schema_version).where(_marks.c.application_id == APPLICATION_ID)
    )
    return version


@contextmanager
def _explained(location: DatabaseUrl) -> Iterator[None]:
    """Turn the driver's errors into edgetune's."""
    try:
        yield
    except exc.DBAPIError as error:
        _refuse(location, error)
    except exc.TimeoutError as error:
        raise DatabaseError(
            f"the records database {location} answers too slowly: no connection of this process was free for "
            f"{CONNECTION_WAIT_SECONDS} s; look at the load of its server, then run the same command again"
        ) from error


_NOT_AUTHENTICATED = "refused the password: write it to ~/.pgpass, or set PGPASSWORD"
_NO_DATABASE = "does not exist on this server: create it with `createdb`"
_NO_USER = "refused the user ({words}): name another one in the URL, or allow it in pg_hba.conf"
_ADVICE = {
    "28P01": _NOT_AUTHENTICATED,
    "28000": _NO_USER,
    "3D000": _NO_DATABASE,
    "42501": "refused a statement ({words}): grant the user the rights to create and change tables",
    "25006": "is read-only: give the URL of the primary server",
    "53300": "has too many connections: end other programs, or raise max_connections",
    "40P01": "found a deadlock ({words}): run the same command again",
}
"""What to do, by SQLSTATE (PostgreSQL manual, appendix A)."""

_REFUSALS = {
    "password authentication failed": _NOT_AUTHENTICATED,
    "(fe_sendauth: )?no password supplied": _NOT_AUTHENTICATED,
    "no pg_hba.conf entry": _NO_USER,
    'role "[^"]*" does not exist': _NO_USER,
    'database "[^"]*" does not exist': _NO_DATABASE,
}
"""What to do, by the first words of a refused connection, which has no SQLSTATE (regular expressions)."""


def _refuse(location: DatabaseUrl, error: exc.DBAPIError) -> NoReturn:
    state = str(getattr(error.orig, "sqlstate", None) or "")
    if state == "53100":
        raise DiskFull(f"no space left on the server of {location}: free some, then run it again") from error
    lines = [line.strip() for line in str(error.orig).splitlines() if line.strip()]
    primary = getattr(getattr(error.orig, "diag", None), "message_primary", None)
    words = str(primary or (lines[-1] if lines else type(error.orig).__name__))
    advice = _ADVICE.get(state)
    if advice is None and (not state or state.startswith(("08", "57"))):
        told = re.split("FATAL:|failed:", words)[-1].strip() if re.search("FATAL:|failed:", words) else ""
        reached = "cannot be reached ({words}): start the server, check host and port, then run the same command again"
        advice = next((text for start, text in _REFUSALS.items() if re.match(start, told)), reached)
        words = told or words
    text = (advice or "refused a statement ({words}): check its version and its log").format(words=words)
    raise DatabaseError(f"the records database {location} {text}") from error
