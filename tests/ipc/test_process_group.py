"""Process groups of programs: each ends as a whole, on an exception and with the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetune.ipc.process_group import end_family, program
from tests.survivors import living, wait_until_none_lives

CHILDREN = "sleep {0} & (sleep {0} &) ; setsid sleep {0} & sleep {0}"
PARENT = """
import subprocess, sys
from edgetune.ipc.process_group import program

with program(["true"]):
    pass
with program(["sh", "-c", sys.argv[1]]):
    print("started", flush=True)
    input()
"""


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    """Seconds of sleep that no other process has, so that survivors are found by their words."""
    number = f"{100000 + os.getpid()}.{abs(hash(tmp_path)) % 10**6}"
    yield number
    for one in living(number):
        os.kill(one, signal.SIGKILL)


def test_an_exception_ends_all_that_a_program_has_started(mark: str) -> None:
    def leave() -> None:
        with program(["sh", "-c", CHILDREN.format(mark)]) as process:
            while len(living(mark)) < 5:  # the shell itself, and four of its children
                assert process.poll() is None
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave()
    assert living(mark) == []


def test_nothing_of_a_group_outlives_the_block(mark: str) -> None:
    with program(["sh", "-c", f"sleep {mark} & exit 3"]) as process:
        assert process.wait() == 3
    wait_until_none_lives(mark)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_the_death_of_the_process_that_started_them_ends_groups(mark: str, number: int) -> None:
    words = [sys.executable, "-c", PARENT, CHILDREN.format(mark).replace("setsid ", "")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"started\n"
        while len(living(mark)) < 5:
            assert parent.poll() is None
        os.kill(parent.pid, number)
    wait_until_none_lives(mark)


def test_another_program_in_the_place_of_the_process_ends_groups(mark: str) -> None:
    text = PARENT.replace("    input()", "    import os; os.execvp('sleep', ['sleep', '60'])")
    words = [sys.executable, "-c", text, f"sleep {mark}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        wait_until_none_lives(mark, after=1)
        assert parent.poll() is None
        parent.kill()


def test_a_family_that_is_gone_is_no_error() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    end_family(process.pid)
