"""Safe closing of a board from one thread while another thread puts something on it: removes that again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from edgetune.errors import BoardLost


class Closing:
    """Notes whether the board called `name` was closed; `leave` removes what was put there, and may be called twice."""

    def __init__(self, name: str, leave: Callable[[], None]) -> None:
        self._name, self._leave = name, leave
        self.begun = threading.Event()

    def check(self) -> None:
        """Raise BoardLost if the board was closed."""
        if self.begun.is_set():
            raise BoardLost(f"board '{self._name}' was closed")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Run a block that puts something on the board; if it is closed meanwhile, remove that and raise BoardLost."""
        self.check()
        try:
            yield
            self.check()
        finally:
            if self.begun.is_set():
                self._leave()
