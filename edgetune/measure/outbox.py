"""Bytes on their way into a pipe whose reader may be busy: whoever sends never waits for it."""

from __future__ import annotations

import os
import select
import threading
from collections import deque


class Outbox:
    """Writes to one pipe, in order; what the pipe does not take at once is written by a thread of its own.

    The descriptor becomes non-blocking and stays its owner's, who closes it after `close`.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting: deque[memoryview] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._stop, self._stopper = os.pipe()
        os.set_blocking(descriptor, False)

    def send(self, data: bytes) -> None:
        """Write `data`, now or when the reader takes it. Raises BrokenPipeError when nobody reads."""
        with self._changed:
            if self._closed:
                raise BrokenPipeError("the pipe is closed")
            rest = memoryview(data)
            if not self._waiting:
                rest = self._write(rest)
            if not rest:
                return
            self._waiting.append(rest)
            if self._thread is None:
                self._thread = threading.Thread(target=self._carry, name="edgetune-outbox", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Drop what was not taken; the descriptor is not used any more. May be called twice."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify()
        os.close(self._stopper)
        if self._thread is not None:
            self._thread.join()
        os.close(self._stop)

    def _write(self, data: memoryview) -> memoryview:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                break
        return data

    def _carry(self) -> None:
        """Write what waits whenever the pipe takes some, until closed or nobody reads."""
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
            select.select([self._stop], [self._descriptor], [])
            with self._changed:
                if self._closed:
                    return
                try:
                    self._waiting[0] = self._write(self._waiting[0])
                except BrokenPipeError:
                    self._waiting.clear()  # whoever reads from the child sees its end
                    continue
                if not self._waiting[0]:
                    self._waiting.popleft()
