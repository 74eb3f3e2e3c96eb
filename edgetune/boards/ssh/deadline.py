"""Deadlines: one time limit for a call of several steps, enforced also for library calls without a timeout."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Deadline:
    """A moment `seconds` from now, by the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until it, at least 0."""
        return max(0.0, self._end - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether it has passed."""
        return self.left == 0.0

    def allow(self, more_s: float) -> None:
        """Extend it by `more_s` seconds."""
        self.seconds += more_s
        self._end += more_s

    def part(self, most_s: float) -> Deadline:
        """Return a deadline at most `most_s` away and not later than this one."""
        return Deadline(min(most_s, self.left))


class Alarm:
    """Notes whether the time of a guarded block ran out."""

    def __init__(self) -> None:
        self.rang = False


@contextmanager
def guarded(seconds: float, abort: Callable[[], None]) -> Iterator[Alarm]:
    """Call `abort` from another thread when the block exceeds `seconds`; `abort` must end the blocking call."""
    alarm = Alarm()

    def ring() -> None:
        alarm.rang = True
        abort()

    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    try:
        yield alarm
    finally:
        timer.cancel()
