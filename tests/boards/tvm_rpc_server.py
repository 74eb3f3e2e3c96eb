"""A server of TVM's RPC for tests: one of this machine at a known place, and the way to it."""

from __future__ import annotations

from pathlib import Path

from edgetune.boards.tvm_rpc.launched import LOOPBACK, Launched
from edgetune.boards.tvm_rpc.lease import Route, straight
from edgetune.boards.tvm_rpc.tracker_client import Lease


def start_server(folder: Path, key: str, tracker: tuple[str, int] | None = None, name: str = LOOPBACK) -> Launched:
    """Start a server on a free port of the loopback, registered with `tracker` under `key` and the address `name`."""
    registration = [f"{tracker[0]}:{tracker[1]}", name] if tracker is not None else []
    return Launched("TVM's RPC server", ["server", LOOPBACK, "0", key, *registration], folder / "tvm-server.log")


class DirectDoor:
    """A server at a known place; it serves one session at a time, and lets others wait."""

    round_trip_s = 0.0

    def __init__(self, host: str, port: int, key: str = "", route: Route = straight) -> None:
        self._lease = Lease(host, port, key)
        self._route = route

    def lease(self, timeout_s: float) -> Lease:
        """Return its place; the wait is in connecting."""
        del timeout_s
        return Lease(*self._route(self._lease.host, self._lease.port), self._lease.key)

    def wanted(self) -> bool:
        """Reports nothing."""
        return False

    def give_back(self) -> None:
        """Nothing is held."""

    def repair(self, timeout_s: float) -> str:
        """Nothing can be done from here."""
        del timeout_s
        return ""

    def close(self) -> None:
        """Nothing was started."""
