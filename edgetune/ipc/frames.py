"""Length-prefixed framing of pickled messages, for pipes between edgetune's own processes of one version."""

from __future__ import annotations

import os
import pickle
import struct

_HEADER = struct.Struct(">Q")
_CHUNK = 1 << 20


def encode(message: object) -> bytes:
    """Return `message` as one frame: 8 bytes of length, then the pickle."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _HEADER.pack(len(body)) + body


def send(descriptor: int, message: object) -> None:
    """Write one frame to a pipe; blocks while the pipe is full; raises BrokenPipeError when the pipe has no reader."""
    view = memoryview(encode(message))
    while view:
        view = view[os.write(descriptor, view) :]


def receive(descriptor: int) -> object:
    """Wait for one frame from a pipe and return its message; raises EOFError when the other end is closed."""
    (length,) = _HEADER.unpack(_read_exactly(descriptor, _HEADER.size))
    return pickle.loads(_read_exactly(descriptor, length))  # noqa: S301  the other end is our own process


class FrameBuffer:
    """Collects bytes as they arrive and returns complete messages, for a reader that must not wait."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[object]:
        """Add bytes; return the messages that they complete, oldest first."""
        self._bytes += data
        messages: list[object] = []
        while len(self._bytes) >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._bytes)
            end = _HEADER.size + length
            if len(self._bytes) < end:
                break
            messages.append(pickle.loads(bytes(self._bytes[_HEADER.size : end])))  # noqa: S301  as above
            del self._bytes[:end]
        return messages


def _read_exactly(descriptor: int, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        data = os.read(descriptor, min(_CHUNK, count - len(parts)))
        if not data:
            raise EOFError("the other end of the pipe is closed")
        parts += data
    return bytes(parts)
