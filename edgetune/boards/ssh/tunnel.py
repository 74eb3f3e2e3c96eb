"""Port forwarding: a port of this machine's loopback that leads to a port of the board's loopback."""

from __future__ import annotations

import functools
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import paramiko

from edgetune.boards.ssh.connection import Connection
from edgetune.boards.ssh.deadline import Deadline
from edgetune.errors import BoardUnavailable

_CHUNK = 1 << 16
_OPEN_S = 10.0


class _Stream(Protocol):
    def recv(self, nbytes: int, /) -> bytes: ...
    def sendall(self, data: bytes, /) -> None: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


class Tunnel:
    """Listens on 127.0.0.1:`port`; forwards each connection over the board's link to port `there` of its loopback."""

    def __init__(self, connection: Connection, there: int) -> None:
        self._connection = connection
        self._there = there
        self._streams: list[_Stream] = []
        self._lock = threading.Lock()
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(16)
        self.port: int = self._listener.getsockname()[1]
        self._thread = _start(self._accept)

    @property
    def closed(self) -> bool:
        """Whether it has stopped listening."""
        return self._listener.fileno() < 0

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                deadline = Deadline(self._connection.allowed(_OPEN_S))
                channel = self._connection.channel(deadline, ("127.0.0.1", self._there))
            except BoardUnavailable:
                client.close()  # the client sees a connection that closes at once
                continue
            channel.settimeout(None)
            with self._lock:
                self._streams += [client, channel]
            _start(functools.partial(self._carry, client, channel))

    def _carry(self, client: socket.socket, channel: paramiko.Channel) -> None:
        back = _start(lambda: _copy(channel, client))
        _copy(client, channel)
        back.join()
        for stream in (client, channel):
            with suppress(OSError, EOFError, paramiko.SSHException):
                stream.close()
        with self._lock:
            self._streams = [stream for stream in self._streams if stream is not client and stream is not channel]

    def close(self) -> None:
        """Stop listening, close all connections. May be called twice."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(_OPEN_S + 1.0)
        with self._lock:
            streams, self._streams = self._streams, []
        for stream in streams:
            with suppress(OSError, EOFError, paramiko.SSHException):
                stream.shutdown(socket.SHUT_RDWR)
            with suppress(OSError, EOFError, paramiko.SSHException):
                stream.close()


def _start(target: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=target, name="tunnel", daemon=True)
    thread.start()
    return thread


def _copy(source: _Stream, sink: _Stream) -> None:
    with suppress(OSError, EOFError, paramiko.SSHException):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    with suppress(OSError, EOFError, paramiko.SSHException):
        sink.shutdown(socket.SHUT_WR)
