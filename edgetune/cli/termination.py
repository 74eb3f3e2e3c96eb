"""SIGTERM ends a command as Ctrl-C does: cleanly, with what there is so far, but with an exit code of its own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from edgetune.errors import Interrupted, Terminated


class Termination:
    """Whether SIGTERM came."""

    def __init__(self) -> None:
        self.came = False

    def take(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        del number, frame
        self.came = True
        raise KeyboardInterrupt

    def name(self, error: BaseException) -> BaseException:
        """Return the error to report in the place of `error`."""
        if self.came and isinstance(error, Interrupted):
            return Terminated(error.message.replace("interrupted", "terminated", 1))
        return error


@contextmanager
def termination() -> Iterator[Termination]:
    """Turn SIGTERM into a KeyboardInterrupt, unless the process ignores or handles it already."""
    told = Termination()
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, told.take)
    try:
        yield told
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
