"""Ports of loopback that are still free when a server comes back to them: the system gives them to nobody by itself."""

from __future__ import annotations

import random
import socket

_OWN = range(12_000, 30_000)  # below the ports that the system gives to clients, and to servers that name none
_TRIES = 100
_draw = random.SystemRandom()


def listening(port: int = 0) -> socket.socket:
    """Return a socket that listens at `port` of loopback, by default at one that nobody has."""
    for _ in range(_TRIES):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port or _draw.choice(_OWN)))
            listener.listen(32)
        except OSError:
            listener.close()
            if port:
                raise
        else:
            return listener
    raise AssertionError("no port of loopback is free")


def free_port() -> int:
    """Return a port of loopback that nobody has now."""
    with listening() as listener:
        port: int = listener.getsockname()[1]
        return port
