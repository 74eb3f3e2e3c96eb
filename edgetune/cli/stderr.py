"""Output on stderr: writes whole lines of edgetune itself to the descriptor that the command was started with.

While `edgetune.cli.stderr_reader` reads descriptor 2, only libraries write to `sys.stderr`. Without a reader
(as in tests that call `run`), both are the same stream.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal, TextIO

Mode = Literal["silent", "lines", "json", "forward"]
"""What the reader does with a line: only remember it, write it for people or programs, or forward it to the command."""

_WAITS_S = 5.0
_READ = 1 << 16


@dataclass(frozen=True)
class Link:
    """The connection to the reader: the real stderr, its lock, and pipes for commands, answers and forwarded lines."""

    stream: TextIO
    lock: int
    orders: int
    answers: int
    forwarded: int

    def order(self, word: str) -> None:
        """Send the reader a command; nothing happens when the reader has ended."""
        try:
            os.write(self.orders, f"{word}\n".encode())
        except OSError:
            return


class _State:
    """The link, while there is a reader; a lock serialises the threads of this process."""

    link: Link | None = None
    mode: Mode = "silent"
    turn = threading.RLock()


def connect(link: Link | None) -> None:
    """Write through `link` from now on; None: there is no reader any more."""
    _State.link = link


def stream() -> TextIO:
    """Return the stderr that this command was started with."""
    if _State.link is not None:
        return _State.link.stream
    return sys.stderr


def say(text: str) -> None:
    """Write `text` as lines without interleaving by other writers; when stderr is closed, nothing is written."""
    link = _State.link
    if link is None:
        with suppress(OSError):
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
        return
    with _State.turn, locked(link.lock), suppress(OSError):
        link.stream.write(text + "\n")
        link.stream.flush()


def hold_open() -> None:
    """Open descriptors 0 to 2 as the null device if they are closed; otherwise the next opened file would get them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
    sys.stdout = sys.stdout or _text(1)
    sys.stderr = sys.stderr or _text(2)


def _text(descriptor: int) -> TextIO:
    return open(descriptor, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def say_json(value: Mapping[str, object]) -> None:
    """Write `value` as one line."""
    say(json.dumps(value, allow_nan=False))


@contextmanager
def locked(lock: int) -> Iterator[None]:
    """Keep other processes from writing; the lock of a process that dies is released."""
    fcntl.lockf(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.lockf(lock, fcntl.LOCK_UN)


def show_foreign(mode: Mode) -> Mode:
    """Set the mode for lines of libraries and child processes; return the previous mode."""
    before, _State.mode = _State.mode, mode
    settle()
    if _State.link is not None:
        _State.link.order(mode)
    return before


def settle() -> None:
    """Wait until the reader has shown all text written to descriptor 2 so far, so that our next line follows it."""
    link = _State.link
    if link is None:
        return
    if sys.stderr is not None:
        sys.stderr.flush()
    from select import select

    link.order("settle")
    if select([link.answers], [], [], _WAITS_S)[0]:
        os.read(link.answers, _READ)


def forwarded() -> list[str]:
    """Return the lines that the reader forwarded since the last call, in mode "forward"."""
    link = _State.link
    if link is None:
        return []
    try:
        data = os.read(link.forwarded, _READ)
    except BlockingIOError:
        return []
    return data.decode(errors="replace").splitlines()


def give_back() -> None:
    """Restore the original descriptor 2 for good: another program is about to take the place of this process.

    It has the same number, so its end would be taken for a death of this one: the reader ends now.
    """
    if _State.link is not None:
        os.dup2(_State.link.stream.fileno(), 2)
        _State.link.order("replaced")


@contextmanager
def given_back() -> Iterator[None]:
    """Restore the original descriptor 2 inside this block, for interactive programs."""
    link = _State.link
    if link is None:
        yield
        return
    read = os.dup(2)
    os.dup2(link.stream.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(read, 2)
        os.close(read)
