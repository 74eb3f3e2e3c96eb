"""Farms that tests of nights start hosts for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.farm.hosts import ENDLESS, MODELS, TestFarm
from tests.postgresql_server import PostgresqlServer


@pytest.fixture
def make(
    postgresql: PostgresqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., TestFarm]]:
    """Makes a farm of two counting boards; SQLite for the local engine, PostgreSQL for the other one."""
    made: list[TestFarm] = []

    def farm(engine: str, models: int = MODELS, trials: int = ENDLESS) -> TestFarm:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        db = tmp_path / "records.db" if engine == "local" else postgresql.new_database()
        made.append(TestFarm.make(tmp_path, engine, db, models=models, trials=trials))
        return made[-1]

    yield farm
    for one in made:
        one.stop()
