from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import sys
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from edgetune.boards.lock import TimingLock, lock_path
from edgetune.config.host import RUN, RUN_ENDS
from edgetune.errors import BoardBusy, BoardUnavailable
from edgetune.events import Event

HOLD = """
import sys
from pathlib import Path
from edgetune.boards.lock import TimingLock
lock = TimingLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
sys.stdin.read()
lock.release()
"""


def hold(path: Path) -> subprocess.Popen[str]:
    """Have another process hold the lock until its input ends, which the end of a `with` brings about."""
    command = [sys.executable, "-c", HOLD, str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_run_waits_and_is_told_for_whom(tmp_path: Path) -> None:
    events: list[Event] = []
    with hold(tmp_path / "lock") as other:

        def tell(event: Event) -> None:
            events.append(event)
            assert other.stdin is not None
            other.stdin.close()  # it lets go once a message says who waits for it

        lock = TimingLock(tmp_path / "lock", on_event=tell)
        assert lock.holder().who.endswith(f" process {other.pid}")
        started = time.monotonic()
        lock.acquire()
        assert time.monotonic() - started > 2.0
    (told,) = [str(event.data["message"]) for event in events]
    assert re.fullmatch(rf"waiting for \S+@\S+ process {other.pid} since (\S+ )?\d\d:\d\d, which is timing", told)
    assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()
    lock.close()
    assert (tmp_path / "lock").read_text() == ""


def test_waiting_has_an_end(tmp_path: Path) -> None:
    with hold(tmp_path / "lock") as other:
        lock = TimingLock(tmp_path / "lock", timeout_s=0.2)
        with pytest.raises(BoardBusy, match=str(other.pid)):
            lock.acquire()
        lock.close()


def test_who_waits_for_a_night_reads_its_cell_its_end_and_how_to_drain_the_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RUN, "2026-11-24 m@host")
    monkeypatch.setenv(RUN_ENDS, "2026-11-24T23:40Z")
    with hold(tmp_path / "lock") as other:
        lock = TimingLock(tmp_path / "lock", timeout_s=0.2)
        with pytest.raises(BoardBusy) as busy:
            lock.acquire()
        lock.close()
    said = busy.value.message
    assert re.search(rf"process {other.pid} since (\S+ )?\d\d:\d\d, for cell m@host of night 2026-11-24, which", said)
    assert "probably ends at 2026-11-2" in said
    assert said.endswith("or end it; `edgetune nightly drain host` takes the board out of the night")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"pid": 7, "since": 946684800.0}', "process 7 since "),
        ('{"pid": 7, "since": "now"}', "process 7"),
        ('{"pid": 7, "since": 1e999, "holder": 7}', "process 7"),
        ('{"pid": "x"}', "an unknown process"),
        ("[" * 3000, "an unknown process"),
        ("\0\xff", "an unknown process"),
        ("", "an unknown process"),
    ],
)
def test_the_file_of_an_older_version_is_read_and_a_strangers_breaks_nothing(
    tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "lock").write_text(text)
    lock = TimingLock(tmp_path / "lock")
    said = lock.holder().words
    assert said.startswith(words) if words.endswith(" ") else said == words
    lock.acquire()
    lock.close()


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    with hold(tmp_path / "lock") as other:
        other.kill()
        other.wait()
        lock = TimingLock(tmp_path / "lock", timeout_s=60.0)
        lock.acquire()
        lock.close()


TURNS = 15


def _take_turns(path: Path, name: str, log: Path, ready: Barrier) -> None:
    lock = TimingLock(path)
    ready.wait()
    for _ in range(TURNS):
        lock.acquire()
        with log.open("a") as file:
            file.write(name)
        time.sleep(0.04)
        lock.release()


def test_two_runs_take_turns(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    log, ready = tmp_path / "log", context.Barrier(2)
    runs = [context.Process(target=_take_turns, args=(tmp_path / "lock", name, log, ready)) for name in "ab"]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    order = log.read_text()
    assert sorted(order) == ["a"] * TURNS + ["b"] * TURNS
    # Without turns the first would have all of its own first: the other looks for the lock now and then only.
    assert set(order[:TURNS]) == {"a", "b"}


def test_a_link_in_place_of_the_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BoardUnavailable, match="remove it"):
        TimingLock(tmp_path / "lock")


def test_the_lock_is_one_per_user_whatever_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = lock_path()
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    assert lock_path() == before
    assert str(os.getuid()) in before.name
