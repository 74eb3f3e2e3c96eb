"""The process of a host that shares a night with others: its pulse, systemd's watchdog, signals that end it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

before_restart: list[Callable[[], None]] = []
"""Called before a process starts anew: what its descriptors were given to in the meantime."""


class Pulse:
    """Notices that this process did not run for `limit_s` seconds: others may have taken over its work by then.

    Each thread has its own, and calls `beat` every second or so, before it writes anything. `end` kills the children:
    those of the thread that starts the process anew would outlive it, because that thread goes on.
    """

    def __init__(self, limit_s: float, say: Callable[[str], None], end: Callable[[], None]) -> None:
        self._limit = limit_s
        self._say = say
        self._end = end
        self._last = _clock()

    def beat(self) -> None:
        """Tell systemd that this process is alive; start it anew where it was frozen."""
        gap, self._last = _clock() - self._last, _clock()
        alive()
        if gap > self._limit:
            self._say(f"this process was frozen for {gap:.0f} s, so that others may have its cells: it starts anew")
            self._end()
            for give_back in before_restart:
                give_back()
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  no shell reads these words


class Freezes:
    """Notices the longest time in which this process did not run, because its host was frozen or suspended.

    What failed then may have failed only because its time was over when the process went on.
    """

    def __init__(self) -> None:
        self._last, self._longest = _clock(), 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def longest(self) -> float:
        """Seconds of the longest freeze; those up to a second are none."""
        self._longest = max(self._longest, _clock() - self._last)
        return self._longest

    def _watch(self) -> None:
        while True:
            time.sleep(1.0)
            self.longest()
            self._last = _clock()


def alive() -> None:
    """Tell systemd's watchdog that this process is alive (sd_notify(3)); does nothing without one."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.sendto(b"READY=1\nWATCHDOG=1", "\0" + place[1:] if place.startswith("@") else place)


@contextmanager
def signals_noted() -> Iterator[list[int]]:
    """Inside an event loop of the main thread, note SIGINT and SIGTERM; they take effect after the block."""
    loop = asyncio.get_running_loop()
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        loop.add_signal_handler(number, came.append, number)
    try:
        yield came
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _clock() -> float:
    """Seconds, those in which the machine was suspended included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
