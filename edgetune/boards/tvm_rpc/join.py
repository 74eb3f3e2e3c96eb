"""Tracker proxy for a server that cannot reach the tracker: registers the server and forwards one session at a time.

A board's server listens on the board's loopback and cannot reach a tracker of ours. So a thread here registers it,
listens on this machine's loopback for the client that got the lease, and offers the server again after that session.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Callable

from edgetune.boards.tvm_rpc.launched import LOOPBACK
from edgetune.events import Event

_MAGIC, _TRACKER_MAGIC, _MISMATCH = 0xFF271, 0x2F271, 0xFF273
_PUT, _UPDATE_INFO, _PENDING = 3, 5, 7
_STEP_S = 5.0
_PING_S = 1.0
_UNUSED_S = 6.0  # a lease that is unused for this time is offered again
_RETRY_S = 0.5
_MOST_KEY = 1024
_MOST_ANSWER = 1 << 20


class Joiner:
    """Offers the server at `server()` (host and port from here, and the key it expects) to `tracker()` under `key`.

    `board` is its name at the tracker. If the tracker restarts, the server is registered again.
    """

    def __init__(
        self,
        board: str,
        key: str,
        tracker: Callable[[], tuple[str, int]],
        server: Callable[[], tuple[str, int, str]],
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._board, self._key, self._tracker, self._server, self._on_event = board, key, tracker, server, on_event
        self._listener = socket.create_server((LOOPBACK, 0), backlog=4)
        self.port: int = self._listener.getsockname()[1]
        self._stop = threading.Event()
        self._streams: list[socket.socket] = []
        self.registered = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"join-{board}", daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """End the forwarded session."""
        for stream in list(self._streams):
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Withdraw the server from the tracker, end its session. May be called twice."""
        self._stop.set()
        self.cut()
        self._thread.join(2 * _STEP_S)
        self._listener.close()

    def _run(self) -> None:
        lost = False
        while not self._stop.is_set():
            try:
                with socket.create_connection(self._tracker(), timeout=_STEP_S) as tracker:
                    self._register(tracker)
                    if lost:
                        detail = "registered again with TVM's tracker"
                        self._on_event(Event("board", {"board": self._board, "what": "rung", "detail": detail}))
                    while not self._stop.is_set():
                        self._offer(tracker)
            except (OSError, ValueError):
                lost = lost or self.registered.is_set()
                self.registered.clear()
                self._stop.wait(_RETRY_S)

    def _register(self, tracker: socket.socket) -> None:
        tracker.sendall(struct.pack("<i", _TRACKER_MAGIC))
        if _exactly(tracker, 4) != struct.pack("<i", _TRACKER_MAGIC):
            raise ValueError("not a tracker")
        _ask(tracker, [_UPDATE_INFO, {"key": f"server:{self._key}", "addr": [self._board, self.port]}])

    def _offer(self, tracker: socket.socket) -> None:
        """Put the server into the tracker's queue, wait for the client that leases it, forward the client's session."""
        match_key = f"{self._key}:{secrets.token_hex(8)}"
        _ask(tracker, [_PUT, self._key, [self.port, match_key], LOOPBACK])
        self.registered.set()
        unused_since: float | None = None
        while not self._stop.is_set():
            if select.select([self._listener], [], [], _PING_S)[0]:
                client, _ = self._listener.accept()
                with client:
                    if self._admit(client, match_key):
                        return
                continue
            pending = _ask(tracker, [_PENDING])
            if isinstance(pending, list) and match_key in pending:
                unused_since = None
                continue
            unused_since = unused_since or time.monotonic()
            if time.monotonic() - unused_since > _UNUSED_S:
                return

    def _admit(self, client: socket.socket, match_key: str) -> bool:
        """Forward a session if its key is the leased one; return True after that session."""
        try:
            client.settimeout(_STEP_S)
            magic, length = struct.unpack("<ii", _exactly(client, 8))
            if magic != _MAGIC or not 0 < length <= _MOST_KEY:
                return False
            words = _exactly(client, length).decode(errors="replace").split()
            if words[:1] != [f"client:{match_key}"]:
                client.sendall(struct.pack("<i", _MISMATCH))
                return False
        except OSError:
            return False
        host, port, key = self._server()
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=_STEP_S) as server:
            greeting = " ".join([f"client:{key}", *words[1:]]).encode()
            server.sendall(struct.pack("<ii", _MAGIC, len(greeting)) + greeting)
            self._streams = [client, server]
            try:
                _pass_on(client, server, self._stop)
            finally:
                self._streams = []
        return True


def _pass_on(one: socket.socket, other: socket.socket, stop: threading.Event) -> None:
    """Copy bytes both ways until either side ends."""
    for stream in (one, other):
        stream.settimeout(None)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while not stop.is_set():
        for ready in select.select([one, other], [], [], 1.0)[0]:
            data = ready.recv(1 << 16)
            if not data:
                return
            (other if ready is one else one).sendall(data)


def _ask(tracker: socket.socket, message: list[object]) -> object:
    data = json.dumps(message).encode()
    tracker.sendall(struct.pack("<i", len(data)) + data)
    (size,) = struct.unpack("<i", _exactly(tracker, 4))
    if not 0 < size <= _MOST_ANSWER:
        raise ValueError("not a tracker's answer")
    return json.loads(_exactly(tracker, size))


def _exactly(source: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        some = source.recv(count - len(found))
        if not some:
            raise ConnectionResetError("closed")
        found += some
    return found
