"""Wakeup descriptor (self-pipe): readable from `ring` until `hush`."""

from __future__ import annotations

import os


class WakeupDescriptor:
    """Not readable at first. It serves a caller that must return a descriptor while it has no other one."""

    def __init__(self) -> None:
        self._in, self._out = os.pipe()
        self._ringing = False

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._in

    def ring(self) -> None:
        """Make the descriptor readable."""
        if not self._ringing:
            os.write(self._out, b"\0")
            self._ringing = True

    def hush(self) -> None:
        """Make the descriptor not readable."""
        if self._ringing:
            os.read(self._in, 1)
            self._ringing = False

    def close(self) -> None:
        """Close both ends of the pipe."""
        os.close(self._in)
        os.close(self._out)
