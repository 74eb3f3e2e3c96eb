"""What ``edgetune doctor`` reports of a records database: its size, whether it is whole, how its server is reached."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from edgetune.config.database_location import DatabaseLocation, DatabaseUrl
from edgetune.config.settings import resolve_db
from edgetune.errors import ConfigError, DatabaseError, DiskFull
from edgetune.findings import Finding

LARGE_BYTES = 4 << 30
"""A database of this size has some 800,000 records; most of them are of no use to a package any more."""

LEAST_FREE_BYTES = 1 << 30

_MIB = 1 << 20
_PRUNE = "edgetune records prune --keep-best 100"


def database_findings(environment: Mapping[str, str], folder: Path) -> Iterator[Finding]:
    """Yield what is known of the database of a folder, nothing where there is no file yet."""
    try:
        location = resolve_db(None, environment, folder)
    except ConfigError:
        return  # another finding says so
    yield from findings_of(location)


def findings_of(location: DatabaseLocation, *, written: bool = False) -> Iterator[Finding]:
    """Yield for a file its size and whether it is whole; for a server, whether it answers, its size and its safety.

    Where it is to be `written`, it is a fault that it cannot be.
    """
    found = list(_of_server(location) if isinstance(location, DatabaseUrl) else _of_file(location))
    yield from found
    if written and not any(finding.required and not finding.ok for finding in found):
        yield from _unwritten(location)


def _unwritten(location: DatabaseLocation) -> Iterator[Finding]:
    """Say that a database cannot be written, by a statement that changes no row."""
    from sqlalchemy import false, update

    from edgetune.records.database import database_exists, open_database
    from edgetune.records.tables import records

    try:
        if not database_exists(location):
            return
        database = open_database(location, create=False)
        try:
            with database.writing() as connection:
                connection.execute(update(records).where(false()).values(reason=""))
        finally:
            database.close()
    except (DatabaseError, DiskFull) as error:
        yield Finding("records database", False, error.message, "", True, error.exit_code)


def _of_file(path: Path) -> Iterator[Finding]:
    from edgetune.records.sqlite_database import is_whole

    if not path.is_file():
        return
    try:
        whole = is_whole(path)
    except (DatabaseError, DiskFull) as error:
        yield Finding("records database", False, error.message, "", True, error.exit_code)
        return
    if not whole:
        fix = "restore a copy, or `edgetune records import` an export into a new --db"
        yield Finding("records database", False, f"{path} is damaged", fix, True, DatabaseError.exit_code)
        return
    yield _size(str(path), path.stat().st_size)
    free = shutil.disk_usage(path.parent).free
    if free < LEAST_FREE_BYTES:
        words = f"{free / _MIB:.0f} MiB are free for {path}: a full disk ends a search"
        yield Finding("records disk", False, words, "free some, or move the database")


def _of_server(location: DatabaseUrl) -> Iterator[Finding]:
    from edgetune.records.postgresql_database import connection_facts

    try:
        facts = connection_facts(location)
    except (DatabaseError, DiskFull) as error:
        yield Finding("records server", False, error.message, "", True, error.exit_code)
        return
    yield Finding("records server", True, f"{location}, PostgreSQL {facts.release}")
    yield _size(str(location), facts.bytes)
    if facts.remote:
        yield Finding(
            "records TLS",
            facts.encrypted,
            "the connection is encrypted" if facts.encrypted else "the connection is not encrypted: others can read it",
            "" if facts.encrypted else "set ssl = on in postgresql.conf and sslmode=verify-full in the URL",
        )
    if not facts.tcp:
        return
    if not facts.asked:
        words = "the server lets this user in over TCP without a password or a certificate"
        yield Finding("records password", False, words, "write scram-sha-256 instead of trust in pg_hba.conf")
        return
    scram = facts.stored_as == "scram-sha-256"
    yield Finding(
        "records password",
        scram,
        f"the server stores new passwords as {facts.stored_as}",
        "" if scram else "set password_encryption = 'scram-sha-256' and set the passwords again",
    )


def _size(name: str, size: int) -> Finding:
    small = size < LARGE_BYTES
    words = f"{name}: {size / _MIB:.1f} MiB" + ("" if small else ", which makes searches and copies slow")
    return Finding("records size", small, words, "" if small else _PRUNE)
