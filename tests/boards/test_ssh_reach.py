"""A board over SSH: facts, files, programs, commands; and that nothing stays behind."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from edgetune.errors import BoardLost, BoardUnfit
from tests.boards.ssh_bench import Bench, ended, received


def test_facts(bench: Bench) -> None:
    board = bench.board()
    facts = bench.reach(board).facts()
    assert (facts.machine, facts.bits, facts.libc, facts.cores) == ("aarch64", 64, "glibc 2.31", 4)
    assert facts.memory_bytes > 1 << 20
    assert facts.free_bytes > 1 << 20
    assert facts.folder.startswith(board.folders[0])
    assert facts.identity["hostname"]


def test_a_program_of_the_boards_architecture_runs_and_nothing_stays(bench: Bench, echo: Path) -> None:
    board = bench.board()
    reach = bench.reach(board)
    program = reach.start(echo, ["a word's worth"])
    data = bytes(range(256)) * 4096
    program.send(data, 30.0)
    assert received(program, len(data)) == data
    assert program.receive() == b""
    assert program.diagnostics() == "words: a word's worth"
    assert board.processes()
    assert len(board.files()) == 4  # the folder, owner, pids and the program
    reach.close()
    assert board.left() == []
    assert board.files() == []


def test_the_end_of_a_program_is_told_with_status_and_last_words(bench: Bench, echo: Path) -> None:
    reach = bench.reach(bench.board())
    program = reach.start(echo, ["last words", "fail"])
    program.send(b"x", 5.0)
    assert received(program, 1) == b"x"
    program._process.channel.shutdown_write()
    assert "ended with status 7: words: last words" in ended(program).message
    program.close()
    program.close()


def test_commands(bench: Bench) -> None:
    reach = bench.reach(bench.board())
    done = reach.run("cat; echo problem >&2; exit 3", 20.0, stdin=b"hello")
    assert (done.status, done.stdout, done.stderr) == (3, "hello", "problem\n")
    assert reach.run("kill -9 $$", 20.0).status == 137
    assert reach.run("sh -c 'kill -15 $$'", 20.0).status == 143
    assert reach.run("head -c 3000000 /dev/zero", 30.0).stdout == "\0" * 3_000_000


def test_a_command_that_does_not_end_is_killed_at_its_deadline(bench: Bench) -> None:
    board = bench.board()
    reach = bench.reach(board)
    reach.connect()
    began = time.monotonic()
    with pytest.raises(BoardLost, match=r"did not end within \d+ s"):
        reach.run("sleep 1000 & sleep 1000", 1.0)
    assert time.monotonic() - began < 30.0
    assert board.left() == []
    assert reach.run("echo on", 10.0).stdout == "on\n"


def test_facts_that_make_no_sense(bench: Bench) -> None:
    many = "9" * 5000
    answers = {"getconf PAGESIZE": many, "getconf LONG_BIT": many, "nproc": many, "uname -m": "k" * 100_000}
    reach = bench.reach(bench.board({**answers, "getconf GNU_LIBC_VERSION": f"glibc 2.{many}"}))
    facts = reach.describe()
    assert facts.cores < 10**15
    assert facts.machine == "k" * 1000
    with pytest.raises(BoardUnfit):
        reach.facts()
