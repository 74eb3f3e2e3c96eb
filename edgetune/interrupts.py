"""Ctrl-C comes at safe points only: what was begun while signals are held is done whole before KeyboardInterrupt."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_Handler = Callable[[int, FrameType | None], object]
_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class _Held:
    """How deep the main thread is in held work, and what came meanwhile. Handlers run in the main thread alone."""

    def __init__(self) -> None:
        self.depth = 0
        self.came: deque[Callable[[], object]] = deque()

    def let_go(self) -> None:
        """Have all that came its way, in its order; the rest stays when one of it raises."""
        while self.came:
            self.came.popleft()()


_state = _Held()


def _holding(handler: _Handler) -> _Handler:
    def take(number: int, frame: FrameType | None) -> None:
        if _state.depth:
            _state.came.append(lambda: handler(number, None))
        else:
            handler(number, frame)

    return take


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Within it, `held` works: the handlers of SIGINT and SIGTERM wait until held work is done. Main thread only.

    Elsewhere, and for a signal that has no handler in Python, nothing changes.
    """
    before: dict[signal.Signals, _Handler] = {}
    if threading.current_thread() is threading.main_thread():
        for number in _NUMBERS:
            handler = signal.getsignal(number)
            if callable(handler):
                before[number] = handler
                signal.signal(number, _holding(handler))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if before:
            _state.came.clear()


@contextmanager
def held() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back in the main thread; at the end of the outermost, what came has its way.

    An error goes first: what came then waits for the end of the next held work.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1
    if not _state.depth:
        _state.let_go()
