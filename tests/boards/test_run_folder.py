"""Folders of running machines: each keeps its own, those of killed makers go."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edgetune.boards.machine.machine import RunFolder

MAKE_AND_WAIT = """
import sys
from pathlib import Path
from edgetune.boards.machine.machine import RunFolder
made = RunFolder(Path(sys.argv[1]))
print(made.path, flush=True)
sys.stdin.read()
"""


def test_a_folder_whose_maker_was_killed_goes_with_the_next_one(tmp_path: Path) -> None:
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKE_AND_WAIT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with maker:
        assert maker.stdout is not None
        left = Path(maker.stdout.readline().strip())
        second = RunFolder(tmp_path)
        assert left.is_dir()
        os.kill(maker.pid, signal.SIGKILL)
    third = RunFolder(tmp_path)
    assert not left.exists()
    assert second.path.is_dir()
    for folder in (second, third):
        folder.remove()
        folder.remove()
    assert list(tmp_path.glob("run-*")) == []


def test_one_whose_maker_was_killed_before_it_had_a_lock_goes_as_well(tmp_path: Path) -> None:
    (tmp_path / "run-early").mkdir()
    RunFolder(tmp_path).remove()
    assert list(tmp_path.glob("run-*")) == []


def test_nobody_takes_a_folder_that_is_being_made_for_a_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[RunFolder] = []
    other = threading.Thread(target=lambda: made.append(RunFolder(tmp_path)))
    flock = fcntl.flock

    def lock_late(stream: object, how: int) -> None:
        if threading.current_thread() is not other and list(tmp_path.glob("run-*/alive")):
            other.start()
            other.join(0.5)  # it has had its chance
        flock(stream, how)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", lock_late)
    first = RunFolder(tmp_path)
    other.join(60.0)
    assert first.path.is_dir()
    assert made[0].path.is_dir()
    for folder in (first, *made):
        folder.remove()
