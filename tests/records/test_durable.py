"""Nothing recorded is lost: killed writers, several writers, full disks. The children run this very file."""

from __future__ import annotations

import collections
import hashlib
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import IO

import pytest

import edgetune
from edgetune.errors import DatabaseError, DiskFull, EdgetuneError
from edgetune.records import Record, RecordStore
from tests.record_starts import in_flight, starts

ROUNDS = 8
FILE_LIMIT = 400_000


def record(number: int) -> Record:
    return Record(
        workload="0" * 64,
        workload_name="conv2d",
        target="host",
        target_fingerprint="f",
        toolchain="gcc",
        codegen_version=1,
        board="b",
        candidate=hashlib.sha256(b"%d" % number).hexdigest(),
        status="crashed",
        tool_version="1",
        trace='"' + "x" * 5000 + '"',
        round=number,
    )


KEY = record(0).key


def tell(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201 - how the children speak


def measure_for_ever(path: str) -> None:
    """The tuning loop: what is recorded is not measured again."""
    with RecordStore.open(path) as store:
        done = store.seen(KEY)
        for number in range(1_000_000):
            candidate = record(number).candidate
            if candidate in done:
                continue
            store.log_start(KEY, candidate)
            tell("start", number)
            store.add(record(number))
            tell("done", number)


def create_for_ever(path: str) -> None:
    for number in range(1_000_000):
        tell("begin", number)
        RecordStore.open(f"{path}{number}").close()
        tell("made", number)


def write_all(path: str, first: int, total: int) -> None:
    """Writes all numbers, beginning at another one than the other children."""
    tell("ready")
    sys.stdin.readline()
    with RecordStore.open(path) as store:
        for step in range(total):
            number = (first + step) % total
            tell(number, store.add(record(number)))


def fill_up(path: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
    with RecordStore.open(path) as store:
        try:
            for number in range(1_000_000):
                store.add(record(number))
                tell("done", number)
        except EdgetuneError as error:
            tell("error", type(error).__name__, error.message)


def export_too_much(path: str) -> None:
    with RecordStore.open(path) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
        try:
            store.export_jsonl(path + ".jsonl")
        except DiskFull as error:
            tell("error", error.message)


def create_nowhere(path: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    try:
        RecordStore.open(path)
    except EdgetuneError as error:
        os.write(1, f"error {type(error).__name__} {error.message}".encode())


def child(*words: object) -> subprocess.Popen[str]:
    root = str(Path(edgetune.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, __file__, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": root},
    )


def output_of(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def kill_after(process: subprocess.Popen[str], lines: int) -> list[list[str]]:
    """Kills the child after so many lines of its output; all lines that it wrote until it died."""
    with process:
        told = [output_of(process).readline().split() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        told += [line.split() for line in output_of(process).read().splitlines()]
    assert process.returncode == -signal.SIGKILL
    return told


def finish(process: subprocess.Popen[str], given: str | None = None) -> str:
    told, _ = process.communicate(given, timeout=300)
    assert process.returncode == 0
    return told


@pytest.mark.long
def test_killed_writers_lose_nothing_and_repeat_only_what_was_in_flight(tmp_path: Path) -> None:
    dice = random.Random(20)  # noqa: S311 - no secret
    path = tmp_path / "db"
    done: set[str] = set()
    interrupted: collections.Counter[str] = collections.Counter()
    for _ in range(ROUNDS):
        told = kill_after(child("measure_for_ever", path), dice.randrange(1, 60))
        done |= {record(int(number)).candidate for word, number in told if word == "done"}
        assert [word for word, _ in told[:2]] == ["start", "done"][: len(told)]
        with RecordStore.open(path, create=False) as store:
            seen = store.seen(KEY)
            flying = {start.candidate for start in in_flight(path)}
        assert done <= seen
        assert len(seen - done) <= 1  # committed, and killed before the child could say so
        assert len(flying) <= 1
        done = seen
        interrupted.update(flying)
    with RecordStore.open(path, create=False) as store:
        assert store.count([KEY]) == len(done)
        begun = collections.Counter(start.candidate for start in starts(path))
        assert set(begun) == done | {start.candidate for start in in_flight(path)}
        for candidate, times in begun.items():
            assert times == interrupted[candidate] + (candidate in done)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.long
def test_a_killed_creator_leaves_whole_databases_or_none(tmp_path: Path) -> None:
    dice = random.Random(4)  # noqa: S311 - no secret
    for turn in range(4):
        told = kill_after(child("create_for_ever", tmp_path / f"db{turn}-"), dice.randrange(1, 16))
        for _, number in told:
            RecordStore.open(tmp_path / f"db{turn}-{number}", create=["begin", number] == told[-1]).close()
        last = tmp_path / f"db{turn}-{told[-1][1]}"
        with RecordStore.open(last) as store:
            assert store.add(record(0)) == 1


@pytest.mark.long
def test_processes_that_create_and_write_one_database_at_once_agree(tmp_path: Path) -> None:
    total = 60
    children = [child("write_all", tmp_path / "db", first, total) for first in (0, 20, 40)]
    assert [output_of(process).readline() for process in children] == ["ready\n"] * 3
    for process in children:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [sorted(finish(process).splitlines()) for process in children]
    assert told[0] == told[1] == told[2]
    with RecordStore.open(tmp_path / "db", create=False) as store:
        assert sorted(f"{row['round']} {row['id']}" for row in store.list()) == told[0]
        assert len(told[0]) == total


def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path) -> None:
    *done, error = finish(child("fill_up", tmp_path / "db")).splitlines()
    assert len(done) > 10
    assert error.startswith(("error DiskFull", "error DatabaseError"))
    assert "disk" in error or "space" in error
    with RecordStore.open(tmp_path / "db", create=False) as store:
        assert store.count([KEY]) == len(done)
        assert store.add(record(len(done))) > 0
        assert store.count([KEY]) == len(done) + 1


@pytest.mark.long
def test_an_export_that_does_not_fit_leaves_the_old_one(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "db") as store:
        for number in range(100):
            store.add(record(number))
    (tmp_path / "db.jsonl").write_text("the old one")
    assert "no space left" in finish(child("export_too_much", tmp_path / "db"))
    assert (tmp_path / "db.jsonl").read_text() == "the old one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["db", "db.jsonl"]


@pytest.mark.long
def test_a_database_that_cannot_be_created_leaves_nothing(tmp_path: Path) -> None:
    assert finish(child("create_nowhere", tmp_path / "db")).startswith("error D")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_rows_in_the_log_of_a_killed_process_are_not_taken_for_a_cut_off_file(tmp_path: Path) -> None:
    told = kill_after(child("measure_for_ever", tmp_path / "db"), 20)
    assert (tmp_path / "db-wal").stat().st_size > 0
    with RecordStore.open(tmp_path / "db", create=False) as first, RecordStore.open(tmp_path / "db") as second:
        assert first.count([KEY]) == second.count([KEY]) >= sum(word == "done" for word, _ in told)


def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "db") as store, store._database.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one() >= 10_000


def test_a_store_does_not_cross_a_fork(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "db") as store:
        store.add(record(0))
        process = os.fork()
        if process == 0:
            try:
                store.count([KEY])
            except DatabaseError as error:
                os._exit(7 if "fork" in error.message else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7
        assert store.count([KEY]) == 1


def test_a_locked_database_is_told_as_one(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "db") as store:
        with store._database.reading() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout=1")
        with closing(sqlite3.connect(tmp_path / "db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(DatabaseError, match="locked by another process"):
                store.add(record(0))
        assert store.add(record(0)) == 1


if __name__ == "__main__":
    verb, where, *numbers = sys.argv[1:]
    verbs: dict[str, Callable[..., None]] = {
        "measure_for_ever": measure_for_ever,
        "create_for_ever": create_for_ever,
        "write_all": write_all,
        "fill_up": fill_up,
        "export_too_much": export_too_much,
        "create_nowhere": create_nowhere,
    }
    verbs[verb](where, *map(int, numbers))
