"""A word now and then to a program on a board, which ends by itself when it hears none for long."""

from __future__ import annotations

import threading
from typing import Protocol

from edgetune.errors import BoardLost

_WORD = b"\n"
_SEND_S = 5.0
_JOIN_S = 10.0


class Sender(Protocol):
    """The half of a transport that a lifeline uses."""

    def send(self, data: bytes, timeout_s: float) -> None:
        """Write all of `data`; raises BoardLost when the link is down, or it is not taken within `timeout_s`."""


class Lifeline:
    """Sends a byte to `transport` every `every_s` seconds, from a thread of its own, until it is closed.

    A transport that is gone ends it: whoever uses that finds out.
    """

    def __init__(self, transport: Sender, every_s: float) -> None:
        self._transport = transport
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._hold, args=(every_s,), name="edgetune-lifeline", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Say no more. May be called twice."""
        self._closed.set()
        self._thread.join(_JOIN_S)

    def _hold(self, every_s: float) -> None:
        while not self._closed.wait(every_s):
            try:
                self._transport.send(_WORD, _SEND_S)
            except BoardLost:
                return
