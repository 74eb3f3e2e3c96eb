"""The server's process on a board: it ends without its host, and shares the board's lock politely."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from edgetune.boards.tvm_rpc import launch
from edgetune.boards.tvm_rpc.deploy import Lifeline
from edgetune.boards.tvm_rpc.launched import LAUNCH, LOOPBACK
from edgetune.errors import BoardLost


def name() -> str:
    return f"edgetune-test-{secrets.token_hex(8)}"


def visit(lock: str) -> list[str]:
    with socket.socket(socket.AF_UNIX) as visitor:
        visitor.settimeout(30.0)
        visitor.connect(f"\0{lock}")
        return visitor.recv(256).decode().splitlines()


@pytest.mark.parametrize("said", [b"", b"secret\n"])
def test_it_ends_when_its_host_is_silent_though_stdin_stays_open(said: bytes) -> None:
    environment = {**os.environ, "EDGETUNE_IDLE": "0.5", "EDGETUNE_OWNER": "me", "EDGETUNE_LOCK": name()}
    command = [sys.executable, str(LAUNCH), "server", LOOPBACK, "0", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment, start_new_session=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write(said)
        process.stdin.flush()
        assert process.wait(60.0) == -signal.SIGKILL


def test_it_ends_with_the_stream_of_its_host() -> None:
    environment = {**os.environ, "EDGETUNE_IDLE": "1000"}
    command = [sys.executable, str(LAUNCH), "server", LOOPBACK, "0", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60.0) == -signal.SIGKILL


def test_visitors_of_the_lock_are_told_who_has_it_and_for_how_long() -> None:
    lock = name()
    assert launch._take_lock(lock, "me@here-1", launch.Host(100.0)) == ""
    owner, seconds = visit(lock)
    assert (owner, 90 < int(seconds) <= 100) == ("me@here-1", True)
    busy, left, who = str(launch._take_lock(lock, "you", launch.Host(5.0))).split()
    assert (busy, 90 < int(left) <= 100, who) == ("busy", True, "me@here-1")


def test_visitors_that_do_not_wait_do_not_silence_the_lock() -> None:
    lock, left = name(), threading.Event()

    class Owner(str):
        """Gets its answer only when the first visitor has left."""

        __slots__ = ()

        def __getitem__(self, part: object) -> str:
            assert left.wait(30.0)
            return "me"

    assert launch._take_lock(lock, Owner("me"), launch.Host(0.0)) == ""
    with socket.socket(socket.AF_UNIX) as hasty:
        hasty.connect(f"\0{lock}")
    left.set()
    assert visit(lock) == ["me", "0"], "a host that never ends by silence names no time"


@pytest.mark.parametrize(
    ("number", "answer"), [(errno.EACCES, None), (errno.EPERM, None), (errno.EADDRINUSE, "busy 0 another user")]
)
def test_a_system_that_forbids_such_locks_is_not_a_board_that_is_taken(
    monkeypatch: pytest.MonkeyPatch, number: int, answer: str | None
) -> None:
    def bind(_: socket.socket, __: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket.socket, "bind", bind)
    assert launch._take_lock(name(), "me", launch.Host(1.0)) == answer


class Wire:
    """The sending half of a transport, that breaks after `most` words."""

    def __init__(self, most: int, done: Callable[[], None]) -> None:
        self.words, self._most, self._done = 0, most, done

    def send(self, data: bytes, timeout_s: float) -> None:
        assert (data, timeout_s > 0) == (b"\n", True)
        if self.words == self._most:
            self._done()
            raise BoardLost("the link went down")
        self.words += 1


def test_a_lifeline_speaks_until_its_link_is_gone() -> None:
    broken = threading.Event()
    wire = Wire(5, broken.set)
    line = Lifeline(wire, 0.001)
    assert broken.wait(30.0)
    line.close()
    line.close()
    assert wire.words == 5
