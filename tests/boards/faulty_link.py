"""A TCP link on loopback that drops, freezes or slows down on command, in front of any server."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

from tests.boards.ports import listening

_CHUNK = 1 << 14


class FaultyLink:
    """Forwards 127.0.0.1:`port` to 127.0.0.1:`target`.

    `drop_after` cuts a connection once so many bytes went to the client; `bytes_per_s` and `delay_s` slow it down.
    """

    def __init__(self, target: int, port: int = 0) -> None:
        self.target = target
        self.drop_after: int | None = None
        self.bytes_per_s: float | None = None
        self.delay_s = 0.0
        self.to_client = 0
        self._flowing = threading.Event()
        self._flowing.set()
        self._closed = False
        self._lock = threading.Lock()
        self._streams: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = self._listen(port)
        self.port: int = self._listener.getsockname()[1]

    def _listen(self, port: int) -> socket.socket:
        listener = listening(port)
        self._run(self._accept, listener)
        return listener

    def _run(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.socket()
            try:
                server.connect(("127.0.0.1", self.target))
            except OSError:
                server.close()
                client.close()
                continue
            for stream in (client, server):
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._streams += [client, server]
            ends = threading.Semaphore(0)
            self._run(self._pump, client, server, ends, False)
            self._run(self._pump, server, client, ends, True)

    def _pump(self, source: socket.socket, sink: socket.socket, ends: threading.Semaphore, to_client: bool) -> None:
        sent = 0
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                if self.delay_s:
                    time.sleep(self.delay_s)
                if self.bytes_per_s:
                    time.sleep(len(data) / self.bytes_per_s)
                while not self._flowing.wait(0.1) and not self._closed:
                    pass
                if to_client and self.drop_after is not None and sent + len(data) >= self.drop_after:
                    sink.sendall(data[: self.drop_after - sent])
                    break
                sink.sendall(data)
                sent += len(data)
                if to_client:
                    self.to_client += len(data)
        for stream in (source, sink):
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
        ends.release()
        if to_client and ends.acquire(timeout=10.0) and ends.acquire(timeout=10.0):
            source.close()
            sink.close()

    def freeze(self) -> None:
        """Let nothing through any more, without a word."""
        self._flowing.clear()

    def thaw(self) -> None:
        """Let everything through again."""
        self._flowing.set()

    def drop(self) -> None:
        """Cut all connections."""
        with self._lock:
            streams, self._streams = self._streams, []
        for stream in streams:
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
            stream.close()

    def refuse(self) -> None:
        """Cut all connections and take no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()

    def accept_again(self) -> None:
        """Take connections again, on the same port."""
        self._listener = self._listen(self.port)

    def close(self) -> None:
        """End all threads, close all sockets."""
        self._closed = True
        self._flowing.set()
        self.refuse()
        for thread in self._threads:
            thread.join(5.0)
        self.drop()
