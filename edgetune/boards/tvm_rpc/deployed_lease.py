"""Lender of a server that edgetune itself deploys: directly, or through a tracker on this machine."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from edgetune.boards.closing import Closing
from edgetune.boards.reach import Reach
from edgetune.boards.tvm_rpc.deploy import DeployedServer
from edgetune.boards.tvm_rpc.join import Joiner
from edgetune.boards.tvm_rpc.lease import TrackerLender
from edgetune.boards.tvm_rpc.tracker import LocalTracker
from edgetune.boards.tvm_rpc.tracker_client import Lease
from edgetune.errors import BoardBusy, BoardLost, BoardUnavailable
from edgetune.events import Event

_REGISTERED_S = 10.0
_CONNECT_S = 30.0
_RETRY_S = 2.0  # while another user has the board
_CALM_S = 300.0  # after this time without a loss, the next repair begins with the first recovery level again


class DeployedLender:
    """Starts the server when it is first needed; owns `reach`, `server` and, if there is one, `tracker`.

    The name of the reach is the board's key at the tracker; other users of this machine may lease the board under it
    while we have no lease.
    """

    def __init__(
        self,
        reach: Reach,
        server: DeployedServer,
        *,
        tracker: LocalTracker | None = None,
        priority: int = 1,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._reach, self._server, self._tracker, self._on_event = reach, server, tracker, on_event
        self._key, self._priority = reach.name, priority
        self._secret = secrets.token_hex(8)  # the server accepts only clients that know it
        self._joiner: Joiner | None = None
        self._door: TrackerLender | None = None
        self._rungs = 0
        self._repaired = 0.0
        self._taken = False  # by another user, at the last check
        self._closing = Closing(reach.name, self._leave)
        self._leaving = threading.Lock()

    @property
    def round_trip_s(self) -> float:
        """Round-trip time of the link to the board in seconds."""
        return self._reach.round_trip_s

    def lease(self, timeout_s: float) -> Lease:
        """Start the server and tracker if necessary, and lease the server, through the tracker if there is one.

        Raises BoardBusy when another user keeps the board for `timeout_s`, and BoardLost when another thread closes it.
        """
        with self._closing.watched():
            self._start(time.monotonic() + timeout_s)
            return self._join(timeout_s)

    def _start(self, until: float) -> None:
        told = False
        while not self._server.running:
            try:
                self._server.start(self._secret)
            except BoardBusy as error:
                self._taken = True
                if time.monotonic() >= until:
                    raise
                if not told:
                    told = True
                    board = self._reach.name
                    self._on_event(Event("board", {"board": board, "what": "locked", "detail": error.message}))
                self._closing.begun.wait(_RETRY_S)
            else:
                self._taken = False

    def _join(self, timeout_s: float) -> Lease:
        tracker = self._tracker
        if tracker is None:
            return Lease(*self._server.address, self._secret)
        place = tracker.ensure()
        if self._joiner is None:
            self._joiner = Joiner(self._reach.name, self._key, lambda: tracker.address, self._place, self._on_event)
        if not self._joiner.registered.wait(_REGISTERED_S):
            raise BoardLost(
                f"board '{self._reach.name}' cannot be registered with TVM's tracker at {place[0]}:{place[1]}"
            )
        self._door = self._door or TrackerLender(*place, self._key, priority=self._priority)
        return self._door.lease(timeout_s)

    def wanted(self) -> bool:
        """Whether other clients wait for it at the tracker."""
        return self._door is not None and self._door.wanted()

    def give_back(self) -> None:
        """End the lease and the session that is forwarded under it."""
        if self._door is not None:
            self._door.give_back()
        if self._joiner is not None:
            self._joiner.cut()

    def repair(self, timeout_s: float) -> str:
        """Try the next recovery level: a new server, a new connection, a reboot, the power; "" when none is left."""
        with self._closing.watched():
            self.give_back()
            now = time.monotonic()
            if now - self._repaired > _CALM_S:
                self._rungs = 0
            self._repaired = now
            self._rungs += 1
            return self._climb(timeout_s)

    def _climb(self, timeout_s: float) -> str:
        self._server.stop()
        if self._rungs == 1:
            return "a new server"
        if self._rungs == 2:  # noqa: PLR2004
            self._reach.close()  # also ends a server that was unreachable after its link broke
            self._closing.check()
            self._reach.connect(_CONNECT_S)
            return "a new connection"
        if self._taken:
            return ""  # do not restart a board on which another user measures
        if self._rungs == 3 and self._reach.reboot(timeout_s):  # noqa: PLR2004
            return "a reboot"
        if self._rungs <= 4 and self._reach.power_cycle(timeout_s):  # noqa: PLR2004
            self._rungs = 4
            return "power off and on"
        return ""

    def close(self) -> None:
        """End server and tracker, remove the deployed files, disconnect.

        Another thread that deploys the server or repairs the board gets BoardLost, and leaves nothing there either.
        """
        self._closing.begun.set()
        self._server.end()
        self._leave()

    def _leave(self) -> None:
        with self._leaving:
            self.give_back()
            if self._joiner is not None:
                self._joiner.close()
                self._joiner = None
            if self._tracker is not None:
                self._tracker.close()
            self._server.stop()
            with suppress(BoardUnavailable):
                self._reach.clean()  # also the server's files; first, because it ends the waits of other threads
            self._reach.close()

    def _place(self) -> tuple[str, int, str]:
        return *self._server.address, self._secret
