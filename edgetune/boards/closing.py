"""A board that is closed in one thread while another still puts things on it: those go again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from edgetune.errors import BoardLost


class Closing:
    """Whether the board called `name` was closed; `leave` removes what was put there, and may be called twice."""

    def __init__(self, name: str, leave: Callable[[], None]) -> None:
        self._name, self._leave = name, leave
        self.begun = threading.Event()

    def check(self) -> None:
        """Raise BoardLost when it was closed."""
        if self.begun.is_set():
            raise BoardLost(f"board '{self._name}' was closed")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Do what puts something on the board; if it was closed meanwhile, that goes again. Raises BoardLost then."""
        self.check()
        try:
            yield
            self.check()
        finally:
            if self.begun.is_set():
                self._leave()
