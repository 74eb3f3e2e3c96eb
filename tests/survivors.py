"""Processes that should have ended, found in /proc by a word of their command lines."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

SECONDS = 10.0


@contextlib.contextmanager
def marked(folder: Path, first: int) -> Iterator[str]:
    """Seconds of sleep, from `first` on, that no other process has: survivors are found by them, and ended."""
    number = f"{first + os.getpid()}.{abs(hash(folder)) % 10**6}"
    try:
        yield number
    finally:
        for one in living(number):
            os.kill(one, signal.SIGKILL)


def living(word: str) -> list[int]:
    """Processes with `word` in their command lines, those that started them included where they have it as well."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in line.read_bytes():
                found.append(int(line.parent.name))
    return found


def wait_until_none_lives(word: str, *, after: int = 0) -> None:
    """Wait until no process has the word; `after` so many were seen at once."""
    deadline, most = time.monotonic() + SECONDS, 0
    while (found := living(word)) or most < after:
        most = max(most, len(found))
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
