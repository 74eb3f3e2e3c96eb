"""Selectable queue: a queue between threads with a descriptor that `select` can wait for."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")
_DRAIN = 4096


class SelectableQueue(Generic[Item]):
    """Any thread puts items, one thread takes them. Items put after `close` are dropped: no thread reads them."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._lock = threading.Lock()
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._closed = False

    def put(self, item: Item) -> None:
        """Add an item and wake the waiting thread."""
        with self._lock:
            if self._closed:
                return
            self._items.append(item)
            with contextlib.suppress(BlockingIOError):  # the pipe is full, so it is readable already
                os.write(self._writing, b"!")

    def fileno(self) -> int:
        """Descriptor that is readable while there may be items."""
        return self._reading

    def take(self) -> list[Item]:
        """Return the items in the queue, oldest first, without waiting."""
        with self._lock:
            if not self._closed:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._reading, _DRAIN)
            items = list(self._items)
            self._items.clear()
        return items

    def wait(self) -> list[Item]:
        """Wait for the first item; return the items in the queue."""
        while not (items := self.take()):
            select.select([self._reading], [], [])
        return items

    def close(self) -> None:
        """Close the pipe; may be called twice."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._reading)
                os.close(self._writing)
