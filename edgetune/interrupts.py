"""Deferred signals: SIGINT and SIGTERM take effect only after the work that must not be interrupted is complete."""

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
    """Nesting depth of held work in the main thread, and the deferred signals. Only the main thread runs handlers."""

    def __init__(self) -> None:
        self.depth = 0
        self.came: deque[Callable[[], object]] = deque()

    def let_go(self) -> None:
        """Run the handlers of all deferred signals in their order; when one raises, the rest stay deferred."""
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
    """Enable `held`: inside this block, SIGINT and SIGTERM handlers wait until held work is done. Main thread only.

    In other threads, and for a signal without a Python handler, nothing changes.
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
    """Defer SIGINT and SIGTERM in the main thread; the handlers run at the end of the outermost block.

    When the block raises, its error comes first: the handlers then run at the end of the next held block.
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
