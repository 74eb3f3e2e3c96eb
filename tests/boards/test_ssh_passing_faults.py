"""Faults of a board that pass: a disk that was full, a clock that jumped, a program that ended by itself."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from edgetune.boards.ssh.sessions import PREFIX
from edgetune.boards.ssh.stream import SshStream
from edgetune.errors import BoardFull, BoardLost
from tests.boards.clock_shift import Clock
from tests.boards.ssh_bench import Bench


def test_a_disk_that_was_full_is_tried_again(bench: Bench) -> None:
    """It was remembered as full for as long as the session lasted, and the board was given up."""
    board = bench.board()
    board.faults.disk_bytes = 0
    reach = bench.reach(board)
    reach.connect()
    for _ in range(2):
        with pytest.raises(BoardFull, match="has only 0 KiB free"):
            reach.facts()
    board.faults.disk_bytes = None
    assert reach.facts().folder.startswith(board.folders[0])


@pytest.mark.parametrize("hours", [3, -3])
def test_a_clock_that_jumps_ends_no_session_of_another_machine(bench: Bench, tmp_path: Path, hours: int) -> None:
    """By the clock its folder is hours old, but its process lives; the folder of a dead one ages with the clock."""
    board = bench.board()
    board.clock = Clock(tmp_path / "clock")
    alive, dead = (Path(board.folders[0]) / f"{PREFIX}{letter * 16}" for letter in "ab")
    with subprocess.Popen(["sleep", "60"]) as process:
        for folder, pid in ((alive, process.pid), (dead, 0)):
            folder.mkdir()
            (folder / "owner").write_text("elsewhere-1 1 1\n")
            (folder / "pids").write_text(f"{pid}\n" if pid else "")
        board.clock.jump(hours * 3600)
        reach = bench.reach(board)
        reach.connect()
        reach.facts()
        assert alive.is_dir()
        assert dead.is_dir() is (hours < 0)
        asked = time.time()
        told = int(reach.run("date +%s", 10.0).stdout)
        assert abs(told - asked - hours * 3600) < 60, "the clock of this test does not jump"
        process.kill()


def test_a_program_that_ended_is_not_told_as_a_slow_one(bench: Bench) -> None:
    board = bench.board()
    reach = bench.reach(board)
    reach.connect()
    reach.facts()
    program = bench.home / "quick"
    program.write_text("#!/bin/sh\nexit 0\n")
    transport = reach.start(program, [])
    with pytest.raises(BoardLost, match=r"the program there has ended, it took 0 of 1 bytes$"):
        _send_until_refused(transport)


def _send_until_refused(transport: SshStream) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        transport.send(b"?", 10.0)
        time.sleep(0.01)
