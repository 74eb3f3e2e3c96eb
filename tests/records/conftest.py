"""Places for databases of both engines: the tests of the store run on each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from edgetune.config.database_location import DatabaseLocation
from tests.postgresql_server import PostgresqlServer

Place: TypeAlias = Callable[[str], DatabaseLocation]
"""The location of a test's database by name; the same name gives the same location."""


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A server for all tests of this process."""
    server = PostgresqlServer()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Names of databases become locations, of each engine in turn."""
    if request.param == "sqlite":
        return lambda name: tmp_path / name
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    made: dict[str, DatabaseLocation] = {}
    return lambda name: made.get(name) or made.setdefault(name, server.new_database())
