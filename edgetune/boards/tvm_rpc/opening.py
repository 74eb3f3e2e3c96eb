"""Factory of boards with `rpc: tvm`: chooses the lender by the tracker in the board's address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edgetune.boards.lock import LOCK_TIMEOUT_S
from edgetune.boards.reach import Reach
from edgetune.boards.tvm_rpc.board import TvmRpcBoard
from edgetune.boards.tvm_rpc.deploy import DeployedServer, ForwardedPort, Forwarding
from edgetune.boards.tvm_rpc.deployed_lease import DeployedLender
from edgetune.boards.tvm_rpc.lease import Route, ServerLender, TrackerLender
from edgetune.boards.tvm_rpc.tracker import LocalTracker
from edgetune.config.boards_file import LOCAL_TRACKER, BoardAddress
from edgetune.events import Event
from edgetune.target.target import Target

_LOOPBACKS = ("localhost", "127.", "::1")


def open_tvm_board(
    address: BoardAddress | None,
    target: Target,
    folder: Path,
    reach: Reach,
    on_event: Callable[[Event], None] = lambda _: None,
    *,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> TvmRpcBoard:
    """Return the board, not yet connected; it owns `reach` from now on. `lock_timeout_s` limits waits for other users.

    `tracker: host:port` leases a server of a farm, as the ssh host sees it: loopback addresses through its tunnel,
    others directly. Without a tracker, a server is brought to the board, and no other user can lease it. `tracker:
    local` also joins that server to a tracker of this machine, under the board's name: then every user who can reach
    the tracker may lease the board, and run any program there. An emulated machine, which has no address and no data to
    protect, always joins a local tracker.
    """
    tracker, key = (address.tracker, address.key) if address is not None else (LOCAL_TRACKER, None)
    priority = address.priority if address is not None else 1
    door: ServerLender
    if tracker is None or tracker == LOCAL_TRACKER:
        server = DeployedServer(reach, target, folder, on_event)
        local = LocalTracker(folder, on_event=on_event) if tracker == LOCAL_TRACKER else None
        door = DeployedLender(reach, server, tracker=local, priority=priority, on_event=on_event)
    else:
        host, _, port = tracker.rpartition(":")
        door = FarmLender(host, int(port), key or target.name, reach, priority=priority)
    cores = address.cores if address is not None else ()
    return TvmRpcBoard(reach.name, target, door, folder, cores=cores, lock_timeout_s=lock_timeout_s, on_event=on_event)


class FarmLender(TrackerLender):
    """Servers of a farm, whose loopback addresses are reached through the ssh host; owns `reach`."""

    def __init__(self, host: str, port: int, key: str, reach: Reach, *, priority: int = 1) -> None:
        self._reach = reach
        self._tunnels: dict[int, ForwardedPort] = {}
        super().__init__(host, port, key, priority=priority, route=through(reach, self._tunnels))

    @property
    def round_trip_s(self) -> float:
        """Round-trip time of the link to the ssh host, or of the tracker's greeting if that is longer."""
        return max(self._reach.round_trip_s, super().round_trip_s)

    def repair(self, timeout_s: float) -> str:
        """Reconnect; the next lease may be another server of the key."""
        self._drop_tunnels()
        self._reach.connect(min(timeout_s, 30.0))
        return super().repair(timeout_s)

    def close(self) -> None:
        """End the lease, disconnect."""
        super().close()
        self._drop_tunnels()
        self._reach.close()

    def _drop_tunnels(self) -> None:
        for tunnel in self._tunnels.values():
            tunnel.close()
        self._tunnels.clear()


def through(reach: Reach, tunnels: dict[int, ForwardedPort]) -> Route:
    """Return the route through tunnels to the ssh host's loopback; the tunnels are kept in `tunnels`."""

    def route(host: str, port: int) -> tuple[str, int]:
        if not host.startswith(_LOOPBACKS) or not isinstance(reach, Forwarding):
            return host, port
        if port not in tunnels:
            reach.connect()
            tunnels[port] = reach.forward(port)
        return "127.0.0.1", tunnels[port].port

    return route
