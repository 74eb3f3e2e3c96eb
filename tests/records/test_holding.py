"""Several hosts change records at once on PostgreSQL: nobody waits in a circle, and nothing stored is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event

from edgetune.config.database_location import Branch, DatabaseUrl
from edgetune.records import RecordKey, RecordStore, run_log
from edgetune.records import store as store_module
from edgetune.records.branches import take_snapshot
from edgetune.records.exchange import copy
from tests.postgresql_server import PostgresqlServer
from tests.records.test_records import ANY_BOARD, KEY, candidate, record

WAITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.fixture
def url(postgresql: PostgresqlServer) -> DatabaseUrl:
    """A database with records 0 and 1 and a snapshot of them."""
    location = postgresql.new_database()
    with RecordStore.open(location) as store:
        store.add(record(0, 500.0))
        store.add(record(1, 600.0))
        snapshot(store, "night 1")
    return location


def snapshot(store: RecordStore, name: str) -> None:
    with store.database.writing() as connection:
        take_snapshot(store.database, connection, name)


def somebody_waits(store: RecordStore, seconds: float = 1.0) -> bool:
    """Whether a connection to the server waits for a lock, now or soon."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with store.database.reading() as connection:
            if connection.exec_driver_sql(WAITS).scalar_one():
                return True
        time.sleep(0.02)
    return False


@pytest.fixture
def paused(url: DatabaseUrl) -> Iterator[tuple[RecordStore, threading.Event]]:
    """A store whose first change of a row sets the event, and goes on once another host waits for it."""
    changed = threading.Event()
    with RecordStore.open(url, branch=Branch("night 1", "m1", ("bench-1",))) as store, RecordStore.open(url) as looks:

        def after(_: Connection, __: Any, statement: str, *___: Any) -> None:
            if statement.startswith(("INSERT", "UPDATE", "DELETE")) and not changed.is_set():
                changed.set()
                somebody_waits(looks)

        event.listen(store.database._engine, "after_cursor_execute", after)  # type: ignore[attr-defined]
        yield store, changed


def imported(store: RecordStore, folder: Path) -> None:
    """Import a new record and a better one of a known candidate."""
    with RecordStore.open(folder / "other.db") as other:
        other.add(record(7))
        other.add_again(record(0, 500.0))
        other.add_again(record(0, 490.0))
        copy(other.database, store.database)


CHANGES: dict[str, Callable[[RecordStore, Path], object]] = {
    "a new record of a branch": lambda store, _: store.add(record(2)),
    "another measurement": lambda store, _: store.add_again(record(0, 50.0)),
    "a first measurement again": lambda store, _: store.add_again(record(3, 50.0)),
    "a change of all": lambda store, _: store.refine_all(ANY_BOARD, lambda one: one),
    "records carried over": lambda store, _: store.add_all([record(4), record(5)]),
    "an import": imported,
    "a prune": lambda store, _: store.prune(keep_best=1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_night_that_begins_and_a_host_that_changes_records_do_not_wait_for_each_other(
    url: DatabaseUrl,
    paused: tuple[RecordStore, threading.Event],
    tmp_path: Path,
    change: Callable[[RecordStore, Path], object],
) -> None:
    writer, changed = paused
    faults: list[Exception] = []

    def write() -> None:
        try:
            change(writer, tmp_path)
        except Exception as error:  # noqa: BLE001  told below
            faults.append(error)
        finally:
            changed.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert changed.wait(20)
    with RecordStore.open(url) as store:
        snapshot(store, "night 2")
    thread.join(20)
    assert not faults


def test_two_imports_in_another_order_do_not_wait_for_each_other(
    url: DatabaseUrl, paused: tuple[RecordStore, threading.Event], tmp_path: Path
) -> None:
    """Each has stored the first record of the other's second."""
    writer, changed = paused
    files = [tmp_path / "up", tmp_path / "down"]
    with RecordStore.open(tmp_path / "other.db") as other:
        other.add_all(record(number) for number in (7, 8))
        other.export_jsonl(files[0])
    files[1].write_text("".join(reversed(files[0].read_text().splitlines(keepends=True))))
    thread = threading.Thread(target=lambda: writer.import_jsonl(files[0]))
    thread.start()
    assert changed.wait(20)
    with RecordStore.open(url) as store:
        assert store.import_jsonl(files[1]).duplicates == 2
    thread.join(20)


def test_what_another_host_stores_during_a_prune_stays(url: DatabaseUrl, monkeypatch: pytest.MonkeyPatch) -> None:
    with RecordStore.open(url) as store, RecordStore.open(url) as other:
        writer = threading.Thread(target=lambda: other.add(record(2, 900.0)))
        forget = run_log.forget_starts

        def slowly(*words: Any) -> None:
            forget(*words)
            writer.start()
            writer.join(1.0)

        monkeypatch.setattr(store_module, "forget_starts", slowly)
        assert store.prune(keep_best=1) == 1
        writer.join(20)
        assert store.seen(KEY) == {candidate(0), candidate(2)}


def test_ends_of_runs_are_logged_in_one_order(url: DatabaseUrl, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [record(number, workload=f"{number:064x}").key for number in range(12)]
    logged: list[str] = []

    def log_end(connection: Connection, key: RecordKey, branch: str) -> None:
        logged.append(key.workload)
        run_log.log_end(connection, key, branch)

    monkeypatch.setattr(store_module, "log_end", log_end)
    with RecordStore.open(url) as store:
        store.log_ends(reversed(keys))
    assert logged == [key.workload for key in keys]
