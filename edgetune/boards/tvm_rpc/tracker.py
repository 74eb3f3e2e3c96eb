"""Local TVM tracker on this machine's loopback, for `tracker: local`: the first run starts it, all runs share it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from edgetune.boards.tvm_rpc.launched import LOOPBACK, Launched
from edgetune.boards.tvm_rpc.tracker_client import TrackerClient
from edgetune.errors import BoardLost, BoardUnavailable, HostUnknown, ProtocolViolation
from edgetune.events import Event

PORT = 9190  # the default port of TVM's own tools
_PROBE_S = 2.0


class LocalTracker:
    """The tracker at `port` of the loopback (0: our own on a free port). Call `ensure` before each use."""

    def __init__(self, folder: Path, port: int = PORT, on_event: Callable[[Event], None] = lambda _: None) -> None:
        self._folder, self._port, self._on_event = folder, port, on_event
        self._own: Launched | None = None
        self._starts = 0

    @property
    def pid(self) -> int | None:
        """Process id of the tracker if we started it, else None."""
        return self._own.pid if self._own is not None else None

    @property
    def address(self) -> tuple[str, int]:
        """Its address; after `ensure`."""
        return LOOPBACK, self._port

    def ensure(self) -> tuple[str, int]:
        """Start the tracker unless one answers; return its address. Raises BoardUnavailable if it does not start.

        A restarted tracker gets its previous port, where servers and clients look for it. If another program has that
        port from the beginning, ours takes a free one.
        """
        if self._port and self._answers():
            return self.address
        if self._port and self._starts == 0 and self._taken():
            detail = (
                f"port {self._port} is used by another program than TVM's tracker: edgetune's tracker takes a free port"
            )
            self._on_event(Event("board", {"board": "tracker", "what": "fallback", "detail": detail}))
            self._port = 0
        if self._own is not None:
            self._own.close()
            self._own = None
        again = self._starts > 0
        self._starts += 1
        log = self._folder / f"tvm-tracker-{self._starts}.log"
        try:
            self._own = Launched("TVM's tracker", ["tracker", LOOPBACK, str(self._port)], log)
        except BoardUnavailable:
            if not (self._port and self._answers()):  # another run was faster
                raise
            return self.address
        self._port = self._own.port
        if again:
            detail = f"TVM's tracker at {LOOPBACK}:{self._port} had ended and is started again"
            self._on_event(Event("board", {"board": "tracker", "what": "recovered", "detail": detail}))
        return self.address

    def close(self) -> None:
        """End the tracker if it is ours. May be called twice."""
        if self._own is not None:
            self._own.close()
            self._own = None

    def _answers(self) -> bool:
        try:
            TrackerClient(*self.address, timeout_s=_PROBE_S).close()
        except (HostUnknown, BoardLost, ProtocolViolation):
            return False
        return True

    def _taken(self) -> bool:
        """Whether something listens at the port."""
        try:
            socket.create_connection(self.address, timeout=_PROBE_S).close()
        except OSError:
            return False
        return True
