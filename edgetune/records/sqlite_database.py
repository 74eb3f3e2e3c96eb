"""SQLite database file: created completely or not at all, checked when opened, with one clear message per failure.

WAL mode, ``synchronous=FULL``. A committed row is in the WAL file before `commit` returns, in the kernel's
page cache, which outlives a killed process: for ``kill -9`` alone ``NORMAL`` would suffice. ``FULL`` also syncs
the WAL at each commit, so a power cut loses nothing either. It costs milliseconds; a measurement takes seconds.

A file that may not be written, such as one on a read-only mount, is read without the files beside it that SQLite would
make (https://sqlite.org/wal.html#read_only_databases).
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc

from edgetune.errors import DatabaseError, DiskFull
from edgetune.records.tables import APPLICATION_ID, SCHEMA_VERSION, check_version, metadata

BUSY_SECONDS = 60.0
"""How long a writer waits for another process's transaction; a transaction takes milliseconds."""

CACHE_KIB = 32 << 10
"""Most memory of a connection for pages of the file: a ranking reads one page of each record of a kernel."""

READ_WHOLE_BYTES = 64 << 20
"""Larger files are not read whole when they are opened."""

_MAGIC = b"SQLite format 3\x00"
_FULL_BELOW_BYTES = 1 << 20


class SqliteDatabase:
    """Connections to one records file; see `edgetune.records.database.Database`."""

    def __init__(self, path: Path, engine: Engine) -> None:
        self.location = path
        self._engine = engine
        self._pid = os.getpid()

    @classmethod
    def open(cls, path: Path, *, create: bool, older: bool = False) -> SqliteDatabase:
        """Opens and checks the file; creates it when it is missing and `create` is true.

        Reads a file of up to `READ_WHOLE_BYTES` once to find damage (about 0.2 s per 100 MB); that of a larger one is
        found where it is read. With `older`, tables of an older version are taken as they are. Raises DatabaseError or
        DiskFull.
        """
        path = Path(os.path.realpath(path))
        if create:
            _create(path)
        _check_file(path)
        database = cls(path, _engine(_url(path, reading=not create)))
        try:
            with database.reading() as connection:
                _check_content(connection, path, older=older)
        except BaseException:
            database.close()
            raise
        return database

    def close(self) -> None:
        """Closes all connections; the last close among all processes merges the WAL into the file."""
        self._engine.dispose(close=self._pid == os.getpid())

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that reads one consistent snapshot of the database."""
        with self._transaction(self._engine) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """The only connection that may write; commits durably at the end of the block."""
        with self._transaction(self._engine.execution_options(edgetune_writes=True)) as connection:
            yield connection

    def changing_records(self) -> AbstractContextManager[Connection]:
        """As `writing`, which excludes all other writers already."""
        return self.writing()

    def hold_schema(self, connection: Connection) -> None:
        """A transaction that writes excludes all others already."""

    def hold_records(self, connection: Connection) -> None:
        """A transaction that writes excludes all others already."""

    def schema_version(self, connection: Connection) -> int:
        """Version of the tables."""
        return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())

    def note_schema(self, connection: Connection) -> None:
        """Note that the tables have the present version."""
        connection.exec_driver_sql(f"PRAGMA user_version={SCHEMA_VERSION}")

    @contextmanager
    def _transaction(self, engine: Engine) -> Iterator[Connection]:
        if self._pid != os.getpid():
            raise DatabaseError(f"{self.location} was opened before a fork: open it again in the new process")
        with _explained(self.location), engine.begin() as connection:
            yield connection


def is_whole(path: Path) -> bool:
    """Whether a records file has no damage; reads all of it. Raises DatabaseError where it cannot be opened."""
    database = SqliteDatabase.open(path, create=False)
    try:
        with database.reading() as connection:
            return bool(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one() == "ok")
    finally:
        database.close()


def _url(path: Path, *, reading: bool) -> URL:
    """The URL of a file; where it may not be written and is for `reading` alone, SQLite makes no file beside it."""
    if not reading or all(os.access(file, os.W_OK, effective_ids=True) for file in (path.parent, path)):
        return URL.create("sqlite", database=str(path))
    # A process that writes has a log, which is read as well. Without one the file counts as unchanged; if its owner
    # begins to write just then, SQLite may find it damaged (`_damaged` says so).
    logged = any(path.with_name(path.name + end).exists() for end in ("-wal", "-shm"))
    words = {"uri": "true", "mode": "ro"} | ({} if logged else {"immutable": "1"})
    return URL.create("sqlite", database=f"file:{quote(os.fsencode(path))}", query=words)


def _engine(url: URL) -> Engine:
    # isolation_level None: the driver starts no transaction by itself, `begin` below does.
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS, "isolation_level": None})

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: object) -> None:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        connection.execute("PRAGMA trusted_schema=OFF")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        # A writer takes the lock at once: a reader that becomes a writer later may be refused.
        writes = connection.get_execution_options().get("edgetune_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _create(path: Path) -> None:
    """Creates an empty database beside `path` and renames it there, unless it exists or another process is faster."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with _explained(path):
            _fill(temporary)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            if not path.exists():
                temporary.rename(path)
                os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        _refuse_os(path, error, "be created")
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):  # it does not exist, or the error being raised explains it
                temporary.with_name(temporary.name + end).unlink()


def _fill(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in (
            "auto_vacuum=FULL",  # a prune returns its pages to the file system
            "journal_mode=WAL",
            f"application_id={APPLICATION_ID}",
            f"user_version={SCHEMA_VERSION}",
        ):
            connection.execute(f"PRAGMA {pragma}")
    engine = _engine(_url(path, reading=False))
    try:
        with engine.begin() as connection:
            metadata.create_all(connection)
    finally:
        engine.dispose()


def _first_bytes(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise DatabaseError(f"{path} is a folder or a device, not a records database: give a file with --db")
    with path.open("rb") as file:
        return file.read(len(_MAGIC))


def _check_file(path: Path) -> None:
    try:
        start = _first_bytes(path)
    except FileNotFoundError as error:
        raise DatabaseError(
            f"there is no records database {path}: run `edgetune tune` to make one, or give another --db"
        ) from error
    except OSError as error:
        _refuse_os(path, error, "be read")
    if not start:
        raise DatabaseError(f"{path} is empty and not a records database: delete it, or give another --db")
    if start != _MAGIC:
        raise DatabaseError(f"{path} is not a records database: give another file with --db")


def _check_content(connection: Connection, path: Path, *, older: bool) -> None:
    def pragma(name: str) -> Any:
        return connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()

    if pragma("application_id") != APPLICATION_ID:
        raise DatabaseError(f"{path} is a database of another program: give another file with --db")
    version = pragma("user_version")
    check_version(path, version, older=older)
    small = path.stat().st_size <= READ_WHOLE_BYTES
    if (small and pragma("quick_check(1)") != "ok") or _is_short(pragma, path):
        raise _damaged(path)
    for table in metadata.sorted_tables if version == SCHEMA_VERSION else ():
        found = {row[1] for row in connection.exec_driver_sql(f"PRAGMA table_info({table.name})")}
        if found != set(table.c.keys()):
            raise _damaged(path)


def _is_short(pragma: Any, path: Path) -> bool:
    """Whether pages are missing at the end; pages still in the WAL are not missing."""
    wal = path.with_name(path.name + "-wal")
    if wal.exists() and wal.stat().st_size:
        return False
    return bool(path.stat().st_size < pragma("page_count") * pragma("page_size"))


def _damaged(path: Path) -> DatabaseError:
    if not os.access(path, os.W_OK, effective_ids=True):
        return DatabaseError(
            f"{path} is damaged or cut off, or its owner writes to it now: run this again, and if that does not help "
            "restore a copy, or `edgetune records import` an export into a new --db"
        )
    return DatabaseError(
        f"{path} is damaged or cut off: restore a copy or `edgetune records import` an export into a new --db"
    )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into edgetune's."""
    try:
        yield
    except sqlite3.Error as error:
        _refuse_sqlite(path, error)
    except exc.DBAPIError as error:
        if not isinstance(error.orig, sqlite3.Error):
            raise
        _refuse_sqlite(path, error.orig)


def _refuse_sqlite(path: Path, error: sqlite3.Error) -> NoReturn:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _disk_is_full(path)):
        raise DiskFull(
            f"no space left for the records database {path}: free some and run the same command again"
        ) from error
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        raise _damaged(path) from error
    advice = {
        sqlite3.SQLITE_BUSY: f"was locked by another process for {BUSY_SECONDS:.0f} s: end that process first",
        sqlite3.SQLITE_READONLY: "cannot be written: make the file and its folder writable, or copy it",
        sqlite3.SQLITE_CANTOPEN: "cannot be opened: make the file and its folder writable, or copy it",
        sqlite3.SQLITE_IOERR: f"had a {error}: check the disk, its quota and `ulimit -f`",
    }.get(code, f"refused a statement ({error}): check that no other program changed it")
    raise DatabaseError(f"the records database {path} {advice}") from error


def _refuse_os(path: Path, error: OSError, what: str) -> NoReturn:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise DiskFull(f"no space left for the records database {path}: free some and run again") from error
    raise DatabaseError(f"the records database {path} cannot {what} ({error.strerror}): give another --db") from error


def _disk_is_full(path: Path) -> bool:
    free = os.statvfs(path.parent)
    return free.f_bavail * free.f_frsize < _FULL_BELOW_BYTES
