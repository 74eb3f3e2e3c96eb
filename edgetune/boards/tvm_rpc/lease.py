"""Lender of a server of TVM's RPC: the interface, and the lender that leases servers from a tracker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from edgetune.boards.round_trip import ANSWER, allowed_s
from edgetune.boards.tvm_rpc.tracker_client import STEP_S, Lease, TrackerClient
from edgetune.errors import BoardUnavailable

Route = Callable[[str, int], tuple[str, int]]
"""Maps the host and port that a tracker reports to those that are reachable from here, for example by a tunnel."""


def straight(host: str, port: int) -> tuple[str, int]:
    """Return the reported host and port unchanged."""
    return host, port


class ServerLender(Protocol):
    """Lends a server. Every call ends by its deadline; failures are classes of `edgetune.errors`."""

    @property
    def round_trip_s(self) -> float:
        """Latest round-trip time to the server in seconds."""

    def lease(self, timeout_s: float) -> Lease:
        """Wait for a lease of a server; return where it is, as seen from here."""

    def wanted(self) -> bool:
        """Whether other clients wait for it."""

    def give_back(self) -> None:
        """End the lease, after the session with the server ended or its client was killed. May be called twice."""

    def repair(self, timeout_s: float) -> str:
        """Repair a server that does not answer, if possible; return what was done ("": nothing can be done)."""

    def close(self) -> None:
        """End the lease and everything that was started for it. May be called twice."""


class TrackerLender:
    """Servers of one key, lent by a tracker in order of priority (the highest first)."""

    def __init__(self, host: str, port: int, key: str, *, priority: int = 1, route: Route = straight) -> None:
        self._place, self._key, self._priority, self._route = (host, port), key, priority, route
        self._client: TrackerClient | None = None
        self._greeting_s = 0.0

    @property
    def round_trip_s(self) -> float:
        """Seconds that the tracker's last greeting took; its servers are assumed to be as far away."""
        return self._greeting_s

    def lease(self, timeout_s: float) -> Lease:
        """Wait for a server of the key; raises BoardBusy, which names the current user."""
        self.give_back()
        where, began = self._route(*self._place), time.monotonic()
        limit_s = allowed_s(STEP_S, self.round_trip_s, ANSWER)
        client = TrackerClient(*where, where=f"{self._place[0]}:{self._place[1]}", timeout_s=limit_s)
        self._client, self._greeting_s = client, time.monotonic() - began
        try:
            found = client.lease(self._key, self._priority, timeout_s)
            client.announce(self._key, found)
            host, port = self._route(found.host, found.port)
        except BaseException:
            client.close()
            raise
        return Lease(host, port, found.key, found.origin)

    def wanted(self) -> bool:
        """Whether other clients wait for a server of this key; False if the tracker does not answer."""
        if self._client is None:
            return False
        try:
            return self._client.waiting(self._key) > 0
        except BoardUnavailable:
            self._client.close()
            self._client = None
            return False

    def give_back(self) -> None:
        """Report the end of the lease to the tracker."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def repair(self, timeout_s: float) -> str:
        """End the lease: the next one may be another server of the key."""
        del timeout_s
        self.give_back()
        return "another lease from the tracker"

    def close(self) -> None:
        """End the lease."""
        self.give_back()
