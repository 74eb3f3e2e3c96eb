"""A descriptor that is readable while it rings."""

from __future__ import annotations

import os


class Bell:
    """Silent at first. For those who wait for a descriptor where there is none of another's to wait for."""

    def __init__(self) -> None:
        self._in, self._out = os.pipe()
        self._ringing = False

    def fileno(self) -> int:
        """Descriptor to wait for."""
        return self._in

    def ring(self) -> None:
        """Be readable from now on."""
        if not self._ringing:
            os.write(self._out, b"\0")
            self._ringing = True

    def hush(self) -> None:
        """Be readable no more."""
        if self._ringing:
            os.read(self._in, 1)
            self._ringing = False

    def close(self) -> None:
        """Free its descriptors."""
        os.close(self._in)
        os.close(self._out)
