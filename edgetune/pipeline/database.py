"""What ``edgetune doctor`` reports of a records database on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from edgetune.config.database_location import DatabaseLocation, DatabaseUrl
from edgetune.config.settings import resolve_db
from edgetune.errors import ConfigError, DatabaseError, DiskFull
from edgetune.findings import Finding


def database_findings(environment: Mapping[str, str], folder: Path) -> Iterator[Finding]:
    """Yield nothing for a file; for a server, whether it answers, and whether its connection is safe."""
    try:
        location = resolve_db(None, environment, folder)
    except ConfigError:
        return  # another finding says so
    yield from server_findings(location)


def server_findings(location: DatabaseLocation) -> Iterator[Finding]:
    """Yield nothing for a file; for a server, whether it answers, and whether its connection is safe."""
    if not isinstance(location, DatabaseUrl):
        return
    from edgetune.records.postgresql_database import connection_facts

    try:
        facts = connection_facts(location)
    except (DatabaseError, DiskFull) as error:
        yield Finding("records server", False, error.message, "", True, error.exit_code)
        return
    yield Finding("records server", True, f"{location}, PostgreSQL {facts.release}")
    if not facts.remote:
        return
    yield Finding(
        "records TLS",
        facts.encrypted,
        "the connection is encrypted" if facts.encrypted else "the connection is not encrypted: others can read it",
        "" if facts.encrypted else "set ssl = on in postgresql.conf and sslmode=verify-full in the URL",
    )
    scram = facts.stored_as == "scram-sha-256"
    yield Finding(
        "records password",
        scram,
        f"the server stores new passwords as {facts.stored_as}",
        "" if scram else "set password_encryption = 'scram-sha-256' and set the passwords again",
    )
