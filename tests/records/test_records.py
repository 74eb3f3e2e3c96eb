"""The records database: what it answers, and which files it refuses."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgetune.errors import DatabaseError, DiskFull
from edgetune.records import SCHEMA_VERSION, STATUSES, Record, RecordFilter, RecordKey, RecordStore
from edgetune.records.history import earlier_of
from edgetune.schedule.algorithms.schedule_text import schedule_text
from tests.postgresql_server import Place
from tests.record_starts import in_flight, starts

WORKLOAD = hashlib.sha256(b"conv2d").hexdigest()


def candidate(number: int) -> str:
    return hashlib.sha256(f"candidate {number}".encode()).hexdigest()


def record(number: int = 0, median: float = 1000.0, **changes: Any) -> Record:
    values: dict[str, Any] = {
        "workload": WORKLOAD,
        "workload_name": "conv2d_add_relu",
        "target": "host",
        "target_fingerprint": "x86_64-avx512",
        "toolchain": "gcc-12.2.0-ab12",
        "codegen_version": 3,
        "board": "bench-1",
        "candidate": candidate(number),
        "status": "ok",
        "tool_version": "0.1.0",
        "trace": '[[["GetSBlock",[],["conv2d"],["b0"]]],[]]',
        "samples_ns": (median - 1.5, median, median + 2.25),
        "median_ns": median,
        "ci_low_ns": median - 1.5,
        "ci_high_ns": median + 2.25,
        "environment": {"governor": "performance", "mhz": 2400.5, "temperature": None},
    }
    return Record(**(values | changes))


def failure(number: int, status: str = "crashed", **changes: Any) -> Record:
    none = {"samples_ns": (), "median_ns": None, "ci_low_ns": None, "ci_high_ns": None}
    return record(number, status=status, **(none | {"reason": "signal 11"} | changes))


KEY = record().key
ANY_BOARD = RecordKey(KEY.workload, KEY.target_fingerprint, KEY.toolchain, KEY.codegen_version)


def small_database(path: Path, rows: int = 20) -> Path:
    with RecordStore.open(path) as store:
        for number in range(rows):
            store.add(record(number, trace=json.dumps(["x" * 3000])))
    return path


def test_a_record_comes_back_as_it_was_added(tmp_path: Path) -> None:
    given = record(1, max_error=3.5e-6, scratch_bytes=4096, code_bytes=812, seed=7, round=2, build_seconds=0.31)
    with RecordStore.open(tmp_path / "new folder" / "kws records.db") as store:
        number = store.add(given)
        found = store.get(number)
    assert found.id == number > 0
    assert found.to_dict() == given.to_dict() | {"id": number}
    assert found.key == given.key


def test_the_longest_names_fit_and_longer_ones_are_refused(place: Place) -> None:
    def text(characters: int) -> str:  # that PostgreSQL cannot compress
        return "".join(chr(0x10000 + 37 * n * n % 0xFFFF0) for n in range(characters))

    with RecordStore.open(place("db")) as store:
        store.add(record(0, board=text(200), toolchain=text(200)[::-1], target_fingerprint=text(201)[1:]))
        for field in ("board", "toolchain", "target_fingerprint"):
            changed: dict[str, Any] = {field: text(500)}
            with pytest.raises(DatabaseError, match="has more than 800 bytes in UTF-8"):
                store.add(record(1, **changed))


def test_a_start_knows_its_host_and_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with RecordStore.open(place("db")) as store:
        for host, run in (("shelf-1", "2026-01-01 m@b"), ("shelf-2", "")):
            monkeypatch.setenv("EDGETUNE_HOST", host)
            monkeypatch.setenv("EDGETUNE_RUN", run)
            store.log_start(KEY, candidate(0))
        store.log_start(KEY, candidate(1))
        first, second = store.origins(record(0))
        assert (first["host"], first["run"]) == ("shelf-1", "2026-01-01 m@b")
        assert second["host"] == "shelf-2"
        assert second["run"].endswith(f" {os.getpid()}"), "a run without a name is called by its beginning and process"
        assert second["run"] == store.origins(record(1))[0]["run"]
        store.add(record(0))
        store.prune(keep_best=0)
        assert store.origins(record(0)) == []
        assert len(store.origins(record(1))) == 1


def test_every_answer_survives_closing_and_opening(place: Place, tmp_path: Path) -> None:
    with RecordStore.open(place("db")) as store:
        for number, median in enumerate([30.0, 10.0, 20.0]):
            store.add(record(number, median))
        store.add(failure(3))
    with RecordStore.open(place("db"), create=False) as store:
        assert [item.median_ns for item in store.best(KEY, 2)] == [10.0, 20.0]
        assert [item.candidate for item in store.all(KEY)] == [candidate(number) for number in range(4)]
        assert store.seen(KEY) == {candidate(number) for number in range(4)}
        assert store.count([KEY, KEY]) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == (["db"] if isinstance(place("db"), Path) else [])


@pytest.mark.parametrize("status", STATUSES)
def test_only_correct_records_win_and_all_count(place: Place, status: str) -> None:
    with RecordStore.open(place("db")) as store:
        store.add(record(0, 500.0))
        store.add(record(1, 5.0, status=status))
        assert store.count([KEY]) == 2
        assert store.best(KEY)[0].median_ns == (5.0 if status == "ok" else 500.0)


def test_the_best_of_some_forms_and_old_records_are_of_the_direct_one(place: Place) -> None:
    with RecordStore.open(place("r.db")) as store:
        store.add(record(1, 30.0, trace="[[],[]]"))
        store.add(record(2, 20.0, trace='{"form":"winograd_f2","trace":[[],[]]}'))
        store.add(record(3, 10.0, trace='{"form":"of another day","trace":[[],[]]}'))
        forms = [item.form for item in store.best(KEY, 9)]
        assert forms == ["of another day", "winograd_f2", "direct"]
        assert [item.form for item in store.best(KEY, 9, forms=("direct", "winograd_f2"))] == forms[1:]
        assert [item.form for item in store.best(KEY, 9, forms=("direct",))] == forms[2:]
        assert store.best(KEY, 9, forms=()) == []


def test_equal_medians_are_ordered_by_candidate(place: Place) -> None:
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        with RecordStore.open(place(f"db{order[0]}")) as store:
            for number in order:
                store.add(record(number, 77.0))
            assert [item.candidate for item in store.best(KEY, 9)] == sorted(map(candidate, order))


@pytest.mark.parametrize("field", ["workload", "target_fingerprint", "toolchain", "codegen_version", "board"])
def test_every_part_of_the_key_separates(place: Place, field: str) -> None:
    other: Any = {"workload": "0" * 64, "codegen_version": 4}.get(field, "other")
    with RecordStore.open(place("db")) as store:
        first, second = store.add(record()), store.add(record(0, 1000.0, **{field: other}))
        assert first != second
        assert store.count([KEY]) == 1
        assert [item.id for item in store.all(KEY)] == [first]
        assert store.count([ANY_BOARD]) == (2 if field == "board" else 1)


def test_adding_a_known_candidate_keeps_the_first(place: Place) -> None:
    with RecordStore.open(place("db")) as store:
        first = store.add(record(0, 10.0))
        assert store.add(record(0, 5.0)) == first
        assert store.get(first).median_ns == 10.0


def test_rows_for_the_command_line_are_plain_json(place: Place) -> None:
    with RecordStore.open(place("db")) as store:
        for number in range(3):
            store.add(record(number))
        store.add(failure(3, workload="0" * 64, workload_name="dense", target="rpi4"))
        rows = store.list()
        assert json.loads(json.dumps(rows)) == rows
        assert [row["id"] for row in rows] == [1, 2, 3, 4]
        assert rows[0]["samples_ns"] == [998.5, 1000.0, 1002.25]
        assert rows[0]["environment"]["governor"] == "performance"
        assert [row["id"] for row in store.list(limit=2)] == [3, 4]
        assert [row["id"] for row in store.list(RecordFilter(status="crashed"))] == [4]
        assert [row["id"] for row in store.list(RecordFilter(target="host"), limit=1)] == [3]
        for name in ("conv2d_add_relu", WORKLOAD, WORKLOAD[:8]):
            assert len(store.list(RecordFilter(workload=name))) == 3
        for name in (WORKLOAD[:7], "%", "_" * 64, "conv2d"):
            assert store.list(RecordFilter(workload=name)) == []


def test_starts_without_a_record_were_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with RecordStore.open(path) as store:
        for number in range(3):
            store.log_start(KEY, candidate(number))
        store.log_start(ANY_BOARD, candidate(3))
        store.add(record(0))
        store.add(failure(2))
        assert [(start.candidate, start.key) for start in in_flight(path)] == [
            (candidate(1), KEY),
            (candidate(3), ANY_BOARD),
        ]
        store.add(record(3))
        assert [start.candidate for start in in_flight(path)] == [candidate(1)]
        assert [start.candidate for start in starts(path)] == [candidate(number) for number in (0, 1, 2, 3)]
        assert all(start.pid == os.getpid() and start.utc.endswith("Z") for start in starts(path))


def test_prune_keeps_the_best_of_what_settings_leave(place: Place) -> None:
    """Winograd may be off, or its tiles small; a flash limit may leave the direct algorithm alone."""
    with RecordStore.open(place("db")) as store:
        texts = {name: schedule_text(name, "[]") for name in ("direct", "vectors_256", "winograd_f2", "winograd_f4")}
        numbers = iter(range(10))
        ids = {
            (name, median): store.add(record(next(numbers), median, trace=text))
            for (name, text), times in zip(
                texts.items(), [(90.0, 91.0), (70.0, 71.0), (80.0, 81.0), (10.0, 11.0)], strict=True
            )
            for median in times
        }
        wanted = {ids["direct", 90.0], ids["vectors_256", 70.0], ids["winograd_f4", 10.0]}
        kept = store.kept(1)
        assert kept.kernels == 1
        assert list(kept.fastest) == [ids["winograd_f4", 10.0]]
        assert kept.fastest | kept.spare == wanted
        assert store.prune(keep_best=1) == len(ids) - len(wanted)
        assert {row["id"] for row in store.list()} == wanted


def test_prune_keeps_one_record_of_a_kernel_whose_fastest_is_direct(place: Place) -> None:
    """Whatever settings forbid, they leave that one."""
    with RecordStore.open(place("db")) as store:
        fastest = store.add(record(0, 10.0))
        store.add(record(1, 20.0, trace=schedule_text("winograd_f2", "[]")))
        store.add(record(2, 30.0, trace=schedule_text("vectors_128", "[]")))
        assert store.prune(keep_best=1) == 2
        assert [row["id"] for row in store.list()] == [fastest]


def test_prune_keeps_the_best_of_each_key(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "db") as store:
        for number in range(20):
            store.add(record(number, 100.0 + number, trace=json.dumps(["x" * 9000])))
            store.log_start(KEY, candidate(number))
        store.add(failure(20))
        kept = store.add(record(21, 900.0, board="bench-2"))
        old = store.add(record(22, 10.0, codegen_version=2))
        size = (tmp_path / "db").stat().st_size
        assert store.prune(dry_run=True) == 1
        assert store.prune(keep_best=2, dry_run=True) == 18 + 1 + 1
        assert store.count([KEY]) == 21
        assert store.prune(keep_best=2, older_codegen=False) == 18 + 1
        assert [row["id"] for row in store.list()] == [1, 2, kept, old]
        assert [start.candidate for start in starts(tmp_path / "db")] == [candidate(0), candidate(1)]
        assert store.prune() == 1
        assert [row["id"] for row in store.list()] == [1, 2, kept]
        assert store.add(record(23)) > old
        with pytest.raises(DatabaseError, match="cannot keep -1"):
            store.prune(keep_best=-1)
    assert (tmp_path / "db").stat().st_size < max(size, 100_000)


@pytest.mark.parametrize("number", [0, -1, 99, 2**70])
def test_an_unknown_id_names_the_way_to_find_one(place: Place, number: int) -> None:
    with RecordStore.open(place("db")) as store, pytest.raises(DatabaseError, match="records list"):
        store.get(number)


@pytest.mark.parametrize(
    "changes",
    [
        {"samples_ns": ()},
        {"median_ns": None},
        {"median_ns": 1.0},
        {"ci_low_ns": 9e9},
        {"trace": "[[1,2"},
        {"created_utc": "2026-01-01T00:00:00"},
        {"created_utc": "yesterday"},
        {"created_utc": "0001-01-01T00:00:00+05:00"},
    ],
)
def test_a_record_that_contradicts_itself_cannot_be_made(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        record(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"candidate": "short"},
        {"workload": WORKLOAD.upper()},
        {"workload_name": "a\x1b[31m"},
        {"status": "fine"},
        {"scratch_bytes": -1},
        {"seed": 2**63},
        {"ci_high_ns": math.inf},
        {"environment": {"load": [1, 2]}},
        {"target": "\ud800"},
        {"round": True},
        {"code_bytes": 1.5},
        {"build_seconds": object()},
    ],
)
def test_a_field_that_breaks_the_rules_is_not_stored(place: Place, changes: dict[str, Any]) -> None:
    with RecordStore.open(place("db")) as store:
        with pytest.raises(DatabaseError, match="cannot be stored"):
            store.add(record(**changes))
        assert store.list() == []


def test_free_text_and_errors_are_brought_to_one_form(place: Place) -> None:
    odd = failure(
        0, reason="\x1b[31mkernel.c:3: error\n\ttab" + "x" * 9999, max_error=math.nan,
        created_utc="2026-01-01T03:00:00+02:00",
    )  # fmt: skip
    with RecordStore.open(place("db")) as store:
        found = store.get(store.add(odd))
    assert found.reason.startswith("?[31mkernel.c:3: error\n\ttabxxx")
    assert len(found.reason) == 4000
    assert found.max_error is None
    assert found.created_utc == "2026-01-01T01:00:00.000000Z"


def test_a_missing_database_is_made_only_when_asked(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="there is no records database"):
        RecordStore.open(tmp_path / "db", create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\n", b"model: kws.onnx\n" * 99, os.urandom(8192), b"SQLite format 3\x00"])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "db"
    path.write_bytes(content)
    with pytest.raises(DatabaseError, match=r"is (empty and )?no|is not a|is damaged") as caught:
        RecordStore.open(path)
    assert "\n" not in caught.value.message
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("place", [".", "file/db", "x" * 300])
def test_a_place_that_holds_no_file_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatabaseError):
        RecordStore.open(tmp_path / place)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_database_is_refused(tmp_path: Path, part: float) -> None:
    path = small_database(tmp_path / "db")
    os.truncate(path, int(path.stat().st_size * part))
    with pytest.raises(DatabaseError, match="damaged or cut off"):
        RecordStore.open(path)


def test_overwritten_pages_are_refused(tmp_path: Path) -> None:
    path = small_database(tmp_path / "db")
    with path.open("r+b") as file:
        file.seek(4096 * 2)
        file.write(b"\xa5" * 4096 * 3)
    with pytest.raises(DatabaseError, match="damaged or cut off"):
        RecordStore.open(path)


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1, 999])
def test_another_schema_version_is_refused_with_the_way_out(tmp_path: Path, version: int) -> None:
    path = small_database(tmp_path / "db", rows=1)
    change(path, f"PRAGMA user_version={version}")
    with pytest.raises(DatabaseError, match=f"schema version {version} .*records export"):
        RecordStore.open(path)


def test_databases_of_other_programs_are_refused(tmp_path: Path) -> None:
    change(tmp_path / "other", "CREATE TABLE records (id)")
    with pytest.raises(DatabaseError, match="another program"):
        RecordStore.open(tmp_path / "other")
    path = small_database(tmp_path / "db", rows=1)
    change(path, "ALTER TABLE records DROP COLUMN trace")
    with pytest.raises(DatabaseError, match="damaged"):
        RecordStore.open(path)


def test_a_row_that_another_program_changed_is_named(tmp_path: Path) -> None:
    path = small_database(tmp_path / "db", rows=2)
    change(path, "UPDATE records SET samples_ns = '[]' WHERE id = 2")
    with RecordStore.open(path) as store:
        assert store.get(1).id == 1
        with pytest.raises(DatabaseError, match="record 2 was changed"):
            store.all(KEY)


def test_a_full_database_is_told_as_a_full_disk(tmp_path: Path) -> None:
    with RecordStore.open(small_database(tmp_path / "db")) as store:
        with store._database.reading() as connection:  # the pool hands the same connection out again
            connection.exec_driver_sql("PRAGMA max_page_count=1")
        with pytest.raises(DiskFull, match="free some"):
            store.add(record(99, trace=json.dumps(["x" * 90_000])))
    with RecordStore.open(tmp_path / "db") as store:
        assert store.count([KEY]) == 20


def test_a_time_that_another_process_stores_during_a_refinement_is_not_lost(place: Place) -> None:
    with RecordStore.open(place("r.db")) as store, RecordStore.open(place("r.db")) as other:
        store.add(record(0))
        changing, waited = threading.Event(), threading.Event()

        def measure_again() -> None:
            changing.wait()
            other.add_again(record(0, median=500.0))
            waited.set()

        def noted(stored: Record) -> Record:
            changing.set()
            assert not waited.wait(0.3), "the other process must wait"
            return replace(stored, environment={**stored.environment, "noted": 1})

        thread = threading.Thread(target=measure_again)
        thread.start()
        store.refine_all(ANY_BOARD, noted)
        thread.join()
        (found,) = store.all(ANY_BOARD)
    (earlier,) = earlier_of(found)
    assert found.median_ns == 500.0
    assert earlier["environment"]["noted"] == 1
