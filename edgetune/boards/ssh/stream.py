"""Byte stream of a remote program: an SSH exec channel as `edgetune.boards.reach.ByteStream`."""

from __future__ import annotations

from contextlib import suppress

from edgetune.boards.ssh.deadline import Deadline
from edgetune.boards.ssh.remote_process import RemoteProcess, printable
from edgetune.errors import BoardLost

_CHUNK = 1 << 16
_MOST_AT_ONCE = 1 << 20  # bytes that one receive() returns at most
_LAST_WORDS = 1000  # characters
_PATIENCE_S = 1.0  # for a program to end by itself after its input has ended


class SshStream:
    """A program that runs on the board. Its standard error is kept for `diagnostics`."""

    def __init__(self, process: RemoteProcess) -> None:
        self._process = process
        self._errors = b""
        self._closed = False
        self._descriptor = process.channel.fileno()
        process.channel.settimeout(0.0)

    def fileno(self) -> int:
        """Descriptor that is readable when `receive` has bytes, or at the end of the stream."""
        return self._descriptor

    def send(self, data: bytes, timeout_s: float) -> None:
        """Write all of `data`; raises BoardLost when the link is down, or at the deadline (see `round_trip`)."""
        if self._closed:
            raise self._ended()
        self._process.write(data, Deadline(self._process.allowed(timeout_s)))

    def receive(self) -> bytes:
        """Return the bytes that have arrived, b"" without any; raises BoardLost at the end of the stream."""
        if self._closed:
            raise self._ended()
        channel = self._process.channel
        over = channel.eof_received or channel.closed  # checked before reading, so that earlier bytes are read first
        self._take_errors()
        taken = bytearray()
        while channel.recv_ready() and len(taken) < _MOST_AT_ONCE:
            taken += channel.recv(_CHUNK)
        if not taken and over:
            raise self._ended()
        return bytes(taken)

    def _take_errors(self) -> None:
        channel = self._process.channel
        for _ in range(_MOST_AT_ONCE // _CHUNK):  # bounded, because a board may write faster than we read
            if not channel.recv_stderr_ready():
                break
            self._errors = (self._errors + channel.recv_stderr(_CHUNK))[-4 * _LAST_WORDS :]

    def _ended(self) -> BoardLost:
        process = self._process
        if self._closed:
            return BoardLost(f"board '{process.board}': the program there was closed")
        process.channel.status_event.wait(0.5)  # the exit status arrives after the end of the output
        self._take_errors()
        status = process.channel.exit_status
        words = self.diagnostics()
        said = f": {words}" if words else ""
        if status >= 0:
            return BoardLost(f"board '{process.board}': the program there ended with status {status}{said}")
        if not process.linked:
            return BoardLost(f"board '{process.board}': the link went down{said}")
        return BoardLost(f"board '{process.board}': the program there closed its output or was killed{said}")

    def diagnostics(self) -> str:
        """Last output of the program on stderr, printable, at most 1000 characters."""
        if not self._closed:
            with suppress(TimeoutError):
                self._take_errors()
        return printable(self._errors)[-_LAST_WORDS:]

    def close(self) -> None:
        """End the program: first close its input, then kill it. May be called twice."""
        if not self._closed:
            with suppress(TimeoutError):
                self._take_errors()
            self._closed = True
            self._process.end(_PATIENCE_S)
