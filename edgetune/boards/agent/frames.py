"""Framing protocol between host and agent: 16 bytes of header, then the payload; little-endian, CRC-32 over both.

Header: magic "ETAG", version (2 bytes), type (2), length of the payload (4), checksum (4) of the bytes before it and of
the payload. `templates/agent/frame.c` is the other end.
"""

from __future__ import annotations

import enum
import struct
import zlib
from dataclasses import dataclass

from edgetune.errors import ProtocolViolation

MAGIC = b"ETAG"
VERSION = 2
MOST_SENT = 1 << 20  # bytes of payload that an agent accepts
MOST_TAKEN = 1 << 17  # bytes accepted from an agent; a result with all its samples takes half of them
_HEADER = struct.Struct("<4sHHII")
_COVERED = _HEADER.size - 4
_EXCERPT = 40


class FrameType(enum.IntEnum):
    """Types of frames; those from 64 on come from the agent."""

    PING = 1
    PUT = 2
    FORGET = 3
    RUN = 4
    CANCEL = 5
    ASK_HEALTH = 6
    BYE = 7
    HELLO = 64
    PONG = 65
    STORED = 66
    RESULT = 67
    HEALTH = 68
    REFUSED = 69
    BUSY = 70


@dataclass(frozen=True)
class Frame:
    """One frame as received."""

    type: FrameType
    payload: bytes


def encode(kind: FrameType, payload: bytes = b"") -> bytes:
    """Return one frame; raises ValueError when the payload is longer than an agent accepts."""
    if len(payload) > MOST_SENT:
        raise ValueError(f"a frame of {len(payload)} bytes is longer than an agent accepts")
    start = _HEADER.pack(MAGIC, VERSION, kind, len(payload), 0)[:_COVERED]
    return start + struct.pack("<I", zlib.crc32(payload, zlib.crc32(start))) + payload


class FrameParser:
    """Collects bytes from a board and returns whole frames; raises ProtocolViolation for bytes that are no frame.

    Holds at most one frame in addition to the bytes just fed: a length that is too large is refused before its payload
    arrives.
    """

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Add bytes; return the frames that they complete, oldest first."""
        self._bytes += data
        frames: list[Frame] = []
        while True:
            self._check_start()
            if len(self._bytes) < _HEADER.size:
                return frames
            _, version, kind, length, checksum = _HEADER.unpack_from(self._bytes)
            if version != VERSION:
                raise ProtocolViolation(
                    f"the agent speaks version {version} of the protocol, and edgetune speaks {VERSION}"
                )
            if length > MOST_TAKEN:
                raise ProtocolViolation(f"the agent sent a frame of {length} bytes: at most {MOST_TAKEN} are allowed")
            if kind not in _FROM_AGENT:
                raise ProtocolViolation(f"the agent sent a frame of type {kind}, which it may not send")
            end = _HEADER.size + length
            if len(self._bytes) < end:
                return frames
            payload = bytes(self._bytes[_HEADER.size : end])
            if zlib.crc32(payload, zlib.crc32(self._bytes[:_COVERED])) != checksum:
                raise ProtocolViolation(f"the checksum of a frame of type {kind} from the agent is wrong")
            frames.append(Frame(FrameType(kind), payload))
            del self._bytes[:end]

    def _check_start(self) -> None:
        """Refuse wrong bytes from the first one on; otherwise, the output of a login file would block the parser."""
        start = bytes(self._bytes[: len(MAGIC)])
        if not MAGIC.startswith(start):
            raise ProtocolViolation(
                f"the board sent {printable(bytes(self._bytes[:_EXCERPT]))!r} where a frame should begin: "
                "look for something that prints in its login files"
            )


_FROM_AGENT = frozenset(int(kind) for kind in FrameType if kind >= FrameType.HELLO)


def printable(data: bytes) -> str:
    """Return a board's text with all terminal control characters replaced."""
    return "".join(char if char.isprintable() else "?" for char in data.decode("utf-8", errors="replace"))
