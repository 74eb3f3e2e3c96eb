"""Ways to a server of TVM's RPC: the protocol of them, and the one by a tracker that lends it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from edgetune.boards.round_trip import ANSWER, allowed_s
from edgetune.boards.tvm_rpc.tracker_client import STEP_S, Lease, TrackerClient
from edgetune.errors import BoardUnavailable

Route = Callable[[str, int], tuple[str, int]]
"""From host and port as they are told, to host and port as they are reached from here (through a tunnel, maybe)."""


def straight(host: str, port: int) -> tuple[str, int]:
    """Hosts are reached from here as they are told."""
    return host, port


class Door(Protocol):
    """What lends a server. Every call ends by its deadline; failures are classes of `edgetune.errors`."""

    @property
    def round_trip_s(self) -> float:
        """Seconds that a question on the way to the server and its answer took lately."""

    def lease(self, timeout_s: float) -> Lease:
        """Wait for a server to be ours; return where it is, as seen from here."""

    def wanted(self) -> bool:
        """Whether others wait for it."""

    def give_back(self) -> None:
        """End the lease; the session with the server has ended, or its client was killed. May be called twice."""

    def repair(self, timeout_s: float) -> str:
        """Do what can be done about a server that does not answer; say what was done ("" : nothing can be)."""

    def close(self) -> None:
        """Give back, and end what was started for it. May be called twice."""


class TrackerDoor:
    """Servers of one key, lent by a tracker in order of priority (the highest first)."""

    def __init__(self, host: str, port: int, key: str, *, priority: int = 1, route: Route = straight) -> None:
        self._place, self._key, self._priority, self._route = (host, port), key, priority, route
        self._client: TrackerClient | None = None
        self._greeting_s = 0.0

    @property
    def round_trip_s(self) -> float:
        """Seconds that the greeting of the tracker took, when last we asked; its servers are as far away."""
        return self._greeting_s

    def lease(self, timeout_s: float) -> Lease:
        """Wait for a server of the key; raises BoardBusy, which says who has it."""
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
        """Whether others wait for a server of this key; a tracker that is gone has no queue."""
        if self._client is None:
            return False
        try:
            return self._client.waiting(self._key) > 0
        except BoardUnavailable:
            self._client.close()
            self._client = None
            return False

    def give_back(self) -> None:
        """Let the tracker forget that it is ours."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def repair(self, timeout_s: float) -> str:
        """The next lease may be another server of the key."""
        del timeout_s
        self.give_back()
        return "another lease from the tracker"

    def close(self) -> None:
        """Give back."""
        self.give_back()
