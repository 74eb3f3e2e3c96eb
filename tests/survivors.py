"""Processes that should have ended, found in /proc by a word of their command lines."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

SECONDS = 10.0


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
