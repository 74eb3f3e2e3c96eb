"""Databases with the tables of an older edgetune: what is said when they are opened, and their upgrade."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select

import edgetune
from edgetune.cli.main import run
from edgetune.config.database_location import Branch, DatabaseLocation, DatabaseUrl
from edgetune.errors import DatabaseError
from edgetune.farm.night_store import NightStore
from edgetune.records import SCHEMA_VERSION, RecordStore, upgrading
from edgetune.records.exchange import copy
from edgetune.records.tables import metadata, revision_of
from edgetune.records.upgrading import Upgraded, revisions, upgrade
from tests.postgresql_server import Place, PostgresqlServer
from tests.records.test_records import ANY_BOARD, KEY, candidate, record

FIRST = Path(__file__).parent / "schema_1"
WHOLE = Upgraded(1, SCHEMA_VERSION)


@pytest.fixture
def old(place: Place, postgresql: PostgresqlServer) -> DatabaseLocation:
    """A database as the first version wrote it: four records, their starts and ends, and a night."""
    location = place("records.db")
    if isinstance(location, DatabaseUrl):
        postgresql.execute((FIRST / "postgresql.sql").read_text(), name_of(location))
    else:
        with closing(sqlite3.connect(location)) as connection:
            connection.execute("PRAGMA auto_vacuum=FULL")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript((FIRST / "sqlite.sql").read_text())
    return location


def name_of(url: DatabaseUrl) -> str:
    return url.text.rpartition("/")[0].rpartition("@/")[2].partition("?")[0]


def test_opening_an_older_schema_says_what_to_do(old: DatabaseLocation, capsys: pytest.CaptureFixture[str]) -> None:
    for create in (False, True):
        with pytest.raises(DatabaseError, match=r"has schema version 1 .*needs version 2.*records upgrade --db") as one:
            RecordStore.open(old, create=create)
        assert "\n" not in one.value.message
    assert run(["records", "list", "--db", str(old)]) == DatabaseError.exit_code
    assert "`edgetune records upgrade --db" in capsys.readouterr().err


def test_an_upgrade_keeps_everything_and_gives_the_tables_of_a_new_database(
    old: DatabaseLocation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["records", "upgrade", "--db", str(old), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"db": str(old), "before": 1, "after": SCHEMA_VERSION}
    with RecordStore.open(old, create=False) as store:
        assert [one.candidate for one in store.all(KEY)] == [candidate(number) for number in range(4)]
        (start,) = store.origins(record(0))
        assert (start["host"], start["run"]) == ("shelf-1", "2026-01-01 m@b")
        assert [store.last_end(key) is None for key in (KEY, ANY_BOARD)] == [False, False]
        with store.database.reading() as connection:
            assert connection.scalar(select(revisions.c.version_num)) == revision_of(SCHEMA_VERSION)
            known = {table.name for table in metadata.sorted_tables}
            context = MigrationContext.configure(
                connection, opts={"include_name": lambda name, kind, _: kind != "table" or name in known}
            )
            assert compare_metadata(context, metadata) == []
        store.log_start(KEY, candidate(0))
        store.log_ends([KEY])
        with RecordStore.open(tmp_path / "copy.db") as other:
            assert copy(store.database, other.database).imported == 4
    with NightStore.open(old, create=True) as nights:
        assert [night.night for night in nights.nights("f")] == ["2026-01-01"]


def test_an_upgrade_that_is_done_says_so(old: DatabaseLocation, capsys: pytest.CaptureFixture[str]) -> None:
    assert upgrade(old) == WHOLE
    assert upgrade(old) == Upgraded(SCHEMA_VERSION, SCHEMA_VERSION)
    assert run(["records", "upgrade", "--db", str(old)]) == 0
    assert f"has schema version {SCHEMA_VERSION} already" in capsys.readouterr().out


def test_of_two_upgrades_at_once_one_has_nothing_to_do(old: DatabaseLocation) -> None:
    found: list[Upgraded] = []
    threads = [threading.Thread(target=lambda: found.append(upgrade(old))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.before for one in found) == [1, SCHEMA_VERSION]
    RecordStore.open(old, create=False).close()


@pytest.mark.long
def test_a_killed_upgrade_leaves_the_old_database(old: DatabaseLocation) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from edgetune.config.database_location import DatabaseUrl
from edgetune.records.postgresql_database import PostgresqlDatabase
from edgetune.records.sqlite_database import SqliteDatabase
from edgetune.records.upgrading import upgrade
for one in (SqliteDatabase, PostgresqlDatabase):
    one.note_schema = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
upgrade(DatabaseUrl(sys.argv[1]) if "://" in sys.argv[1] else Path(sys.argv[1]))
"""
    path = {"PYTHONPATH": str(Path(edgetune.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code, str(old)], env=os.environ | path, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(DatabaseError, match="has schema version 1"):
        RecordStore.open(old)
    assert upgrade(old) == WHOLE
    with RecordStore.open(old, create=False) as store:
        assert store.count([KEY]) == 4


def test_a_database_without_the_tables_that_came_on_demand_is_upgraded(
    old: DatabaseLocation, postgresql: PostgresqlServer
) -> None:
    for table in ("ends", "start_origins"):
        if isinstance(old, DatabaseUrl):
            postgresql.execute(f"DROP TABLE {table}", name_of(old))
        else:
            with closing(sqlite3.connect(old)) as connection:
                connection.execute(f"DROP TABLE {table}")
    assert upgrade(old) == WHOLE
    with RecordStore.open(old, create=False) as store:
        assert store.last_end(KEY) is None
        assert store.origins(record(0))[0]["host"] == ""


def test_a_new_database_needs_no_upgrade_and_a_newer_one_says_that_edgetune_is_older(
    place: Place, postgresql: PostgresqlServer
) -> None:
    location = place("new.db")
    RecordStore.open(location).close()
    assert upgrade(location).before == SCHEMA_VERSION
    newer = SCHEMA_VERSION + 1
    if isinstance(location, DatabaseUrl):
        statement = f"UPDATE edgetune SET schema_version = {newer}"  # noqa: S608  a constant
        postgresql.execute(statement, name_of(location))
    else:
        with closing(sqlite3.connect(location)) as connection:
            connection.execute(f"PRAGMA user_version={newer}")
    for opening in (lambda: RecordStore.open(location), lambda: upgrade(location)):
        with pytest.raises(DatabaseError, match=f"has schema version {newer} and this edgetune is older"):
            opening()


def test_what_is_no_database_is_not_upgraded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["records", "upgrade", "--db", str(tmp_path / "none.db")]) == DatabaseError.exit_code
    assert "there is no records database" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_full_record_is_the_same_after_an_upgrade(old: DatabaseLocation) -> None:
    upgrade(old)
    with RecordStore.open(old, create=False) as store:
        expected = record(1, 101.0, created_utc="2026-01-01T00:00:00Z")
        assert replace(store.get(2), id=0) == expected


def run_in(location: DatabaseLocation, postgresql: PostgresqlServer, *statements: str) -> None:
    for statement in statements:
        if isinstance(location, DatabaseUrl):
            postgresql.execute(statement, name_of(location))
        else:
            with closing(sqlite3.connect(location)) as connection, connection:
                connection.execute(statement)


FOREIGN = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)",
    "INSERT INTO alembic_version VALUES ('1975ea83b712')",
)


def foreign_revision(location: DatabaseLocation) -> object:
    with RecordStore.open(location, create=False) as store, store.database.reading() as connection:
        return connection.exec_driver_sql("SELECT version_num FROM alembic_version").all()


def test_another_program_s_table_of_alembic_is_left_alone(old: DatabaseLocation, postgresql: PostgresqlServer) -> None:
    run_in(old, postgresql, *FOREIGN)
    assert upgrade(old) == WHOLE
    assert foreign_revision(old) == [("1975ea83b712",)]


def test_a_new_database_stands_beside_another_program_s_table_of_alembic(postgresql: PostgresqlServer) -> None:
    location = postgresql.new_database()
    run_in(location, postgresql, *FOREIGN)
    with RecordStore.open(location) as store:
        store.add(record(0))
    assert upgrade(location).before == SCHEMA_VERSION
    assert foreign_revision(location) == [("1975ea83b712",)]


def test_a_database_that_was_upgraded_with_the_former_table_is_opened(
    old: DatabaseLocation, postgresql: PostgresqlServer
) -> None:
    """The former one was Alembic's usual name; of a present schema, only what the next upgrade needs is missing."""
    run_in(old, postgresql, FOREIGN[0], "INSERT INTO alembic_version VALUES ('001')")
    assert upgrade(old) == WHOLE
    run_in(old, postgresql, "UPDATE alembic_version SET version_num = '002'", f"DROP TABLE {revisions.name}")
    with RecordStore.open(old) as store:
        assert store.count([KEY]) == 4
    assert upgrade(old).before == SCHEMA_VERSION


def test_an_upgrade_whose_revisions_are_missing_says_so(
    old: DatabaseLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "migrations" / "versions").mkdir(parents=True)
    (tmp_path / "migrations" / "env.py").write_text((upgrading.MIGRATIONS / "env.py").read_text())
    monkeypatch.setattr(upgrading, "MIGRATIONS", tmp_path / "migrations")
    assert run(["records", "upgrade", "--db", str(old)]) == DatabaseError.exit_code
    said = capsys.readouterr().err.strip()
    assert "is not upgraded from schema version 1 (Can't locate revision" in said
    assert said.endswith("install edgetune again, then run the same command")
    monkeypatch.undo()
    assert upgrade(old) == WHOLE


def test_a_night_that_began_before_the_upgrade_goes_on_with_what_is_there(old: DatabaseLocation) -> None:
    upgrade(old)
    with NightStore.open(old, create=True) as nights:
        (night,) = nights.nights("f")
        nights.need_snapshot(night)
        nights.need_snapshot(night)
        branch = Branch(night.snapshot, "m k", ("bench-1",))
        with RecordStore.open(old, create=False) as store:
            store.add(record(5))
            assert RecordStore(store.database, branch).count([KEY]) == 4
