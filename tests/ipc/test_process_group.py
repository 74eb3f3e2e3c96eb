"""Process groups of programs: each ends as a whole, on an exception and with the process that started it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetune.errors import ToolHung
from edgetune.ipc import process_group
from edgetune.ipc.process_group import end_family, program
from tests.survivors import living, marked, wait_until_none_lives

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

KILLED_LEASH = """
import os, signal, sys
from pathlib import Path
from edgetune.ipc.process_group import _Leash, program

def leashes():
    inode = os.fstat(_Leash.end).st_ino
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"edgetune-leash" in line.read_bytes() and (line.parent / "fd/0").stat().st_ino == inode:
                yield int(line.parent.name)
        except OSError:
            pass

with program(["sleep", sys.argv[1]]):
    while not (found := list(leashes())):
        pass
    os.kill(found[0], signal.SIGKILL)
    while list(leashes()):
        pass
    with program(["true"]):
        pass
    print("started", flush=True)
    input()
"""
CHILDREN_OF_ITS_PARENT = """
import os
from pathlib import Path
from edgetune.ipc.process_group import program

with program(["true"]):
    pass
os.execvp("sh", ["sh", "-c", "cat /proc/$$/task/$$/children"])
"""


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    with marked(tmp_path, 100000) as number:
        yield number


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


def test_what_a_program_leaves_lives_on_where_it_may(mark: str) -> None:
    with program(["sh", "-c", f"sleep {mark} & exit 3"], leave=True) as process:
        assert process.wait() == 3
    assert len(living(mark)) == 1


def test_a_program_that_may_leave_others_is_ended_with_them_by_the_end_of_the_block(mark: str) -> None:
    with program(["sh", "-c", f"sleep {mark} & echo; sleep {mark}"], leave=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
    wait_until_none_lives(mark)


def test_a_program_that_cannot_be_killed_is_not_waited_for_for_ever(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int, __: int) -> None:
        raise PermissionError(errno.EPERM, "not permitted")

    def leave() -> None:
        with program(["sleep", mark]) as process:
            started.append(process)

    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(process_group, "_END_S", 0.1)
    with monkeypatch.context() as root:
        root.setattr(os, "killpg", refuse)
        root.setattr(os, "kill", refuse)
        with pytest.raises(ToolHung, match=r"^sleep could not be ended: process \d+ still runs 0\.1 s after"):
            leave()
    started[0].kill()
    started[0].wait()


def test_a_leash_that_cannot_be_started_is_the_error_and_leaves_nothing(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> int:
        raise OSError(errno.EMFILE, f"number {next(numbers)}")

    numbers = iter(range(10))
    monkeypatch.setattr(process_group, "_start_leash", fail)
    monkeypatch.setattr(process_group._Leash, "end", None)
    before = set(Path("/proc/self/fd").iterdir())
    with pytest.raises(OSError, match="number 0"), program(["sleep", mark], stdout=subprocess.PIPE):
        pass
    assert set(Path("/proc/self/fd").iterdir()) == before
    assert living(mark) == []


def test_a_leash_that_was_killed_loses_no_group(mark: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_LEASH, mark], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"started\n"
        parent.kill()
    wait_until_none_lives(mark)


def test_a_leash_is_no_child_of_the_process_and_of_what_takes_its_place() -> None:
    done = subprocess.run([sys.executable, "-c", CHILDREN_OF_ITS_PARENT], capture_output=True, text=True, check=True)
    assert len(done.stdout.split()) == 1, "cat alone"


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
