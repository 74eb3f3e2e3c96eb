"""Client of a TVM tracker: sends requests in the tracker's protocol (length, JSON), with a deadline on every step."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import select
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgetune.boards.holder import Holder
from edgetune.errors import BoardBusy, BoardLost, HostUnknown, ProtocolViolation

_MAGIC = 0x2F271
_REQUEST, _UPDATE_INFO, _SUMMARY = 4, 5, 6
_MOST_BYTES = 1 << 20
STEP_S = 5.0
_LEASED = "leased"


@dataclass(frozen=True)
class Lease:
    """A server that is ours until the session with it ends: its address, and the key it expects.

    `origin` is its name at its tracker, where there is one.
    """

    host: str
    port: int
    key: str
    origin: str = ""


class TrackerClient:
    """One connection to a tracker. While it is open, the tracker shows its lease to others with our name.

    `where` is the tracker's name in messages, `host` and `port` are its address as seen from here. Each answer may take
    `timeout_s` seconds.
    """

    def __init__(self, host: str, port: int, where: str = "", timeout_s: float = STEP_S) -> None:
        self._where = where or f"{host}:{port}"
        self._address = (host, port)
        self._data = b""
        self._timeout_s = timeout_s
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
        except (OSError, ValueError) as error:
            raise HostUnknown(
                f"the TVM tracker at {self._where} does not answer ({_words(error)}): start it, or correct `tracker:`"
            ) from error
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(struct.pack("<i", _MAGIC))
            answer = self._exactly(4, time.monotonic() + timeout_s)
        except OSError as error:
            self.close()
            raise self._lost("greeting", error) from error
        if answer != struct.pack("<i", _MAGIC):
            self.close()
            raise ProtocolViolation(f"what listens at {self._where} is not a TVM tracker: correct `tracker:`")

    def lease(self, key: str, priority: int, timeout_s: float) -> Lease:
        """Wait for a server of that key, by priority (the highest first); raises BoardBusy after `timeout_s`."""
        self._send([_REQUEST, key, owner_name(), priority])
        try:
            answer = self._receive(timeout_s)
        except TimeoutError as error:
            self.close()  # withdraws the request
            raise BoardBusy(self._why_busy(key, timeout_s)) from error
        match answer:
            case [0, [str(host), int(port), str(matched)]]:
                return Lease(host, port, matched, f"{host}:{port}")
        raise ProtocolViolation(f"the TVM tracker at {self._where} answers a request with {str(answer)[:100]!r}")

    def announce(self, key: str, lease: Lease) -> None:
        """Show others who has the lease, for as long as this connection is open."""
        holder = Holder.of_this_process(owner_name()).line
        info = {"key": f"server:{key}-{_LEASED}", "addr": [holder, lease.port], "since": int(time.time())}
        self._ask([_UPDATE_INFO, info])

    def summary(self) -> Mapping[str, Any]:
        """Return the tracker's queues (`queue_info`: free, pending by key) and its servers (`server_info`)."""
        match self._ask([_SUMMARY]):
            case [0, dict(found)]:
                return found
        raise ProtocolViolation(f"the TVM tracker at {self._where} gives no summary")

    def waiting(self, key: str) -> int:
        """Number of clients that wait for a server of that key."""
        queue = self.summary().get("queue_info", {}).get(key, {})
        return int(queue.get("pending", 0))

    def close(self) -> None:
        """Close the connection, even while a thread waits on it; the tracker forgets our name. May be called twice."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._socket.close()

    def _why_busy(self, key: str, timeout_s: float) -> str:
        what = f"no board with key '{key}' at the TVM tracker {self._where} came free within {timeout_s:g} s"
        with contextlib.suppress(OSError, HostUnknown, BoardLost, ProtocolViolation):
            other = TrackerClient(*self._address, where=self._where, timeout_s=self._timeout_s)
            with contextlib.closing(other):
                servers = other.summary().get("server_info", [])
            leased = [one for one in servers if one.get("key") == f"server:{key}-{_LEASED}"]
            holders = [Holder.read(str(one["addr"][0]), one.get("since")) for one in leased]
            total = sum(one.get("key") == f"server:{key}" for one in servers)
            if not total:
                return f"{what}: no server with that key is registered there; start one, or correct `key:`"
            names = ", ".join(holder.words for holder in holders) or "a client that gives no name"
            drain = "".join(dict.fromkeys(holder.remedy for holder in holders))
            return f"{what}: leased by {names}; wait, or raise the priority{drain}"
        return f"{what}: wait, or ask its operator"

    def _ask(self, message: list[object]) -> object:
        self._send(message)
        try:
            return self._receive(self._timeout_s)
        except TimeoutError as error:
            raise self._lost("request", error) from error

    def _send(self, message: list[object]) -> None:
        data = json.dumps(message).encode()
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall(struct.pack("<i", len(data)) + data)
        except OSError as error:
            raise self._lost("request", error) from error

    def _receive(self, timeout_s: float) -> object:
        deadline = time.monotonic() + timeout_s
        try:
            (size,) = struct.unpack("<i", self._exactly(4, deadline))
            if not 0 < size <= _MOST_BYTES:
                raise ProtocolViolation(f"the TVM tracker at {self._where} announces a message of {size} bytes")
            return json.loads(self._exactly(size, deadline))
        except TimeoutError:
            raise
        except OSError as error:
            raise self._lost("answer", error) from error
        except ValueError as error:
            raise ProtocolViolation(f"the TVM tracker at {self._where} sends what is not JSON") from error

    def _exactly(self, count: int, deadline: float) -> bytes:
        while len(self._data) < count:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                raise TimeoutError("no answer")
            some = self._socket.recv(65536)
            if not some:
                raise ConnectionResetError("the connection was closed")
            self._data += some
        found, self._data = self._data[:count], self._data[count:]
        return found

    def _lost(self, step: str, error: OSError) -> BoardLost:
        return BoardLost(f"the TVM tracker at {self._where} was lost during its {step} ({_words(error)}): restart it")


def owner_name() -> str:
    """Return our name as shown to other users: user, machine and process."""
    with contextlib.suppress(OSError, KeyError):
        return f"{getpass.getuser()}@{socket.gethostname()}-{os.getpid()}"
    return f"{socket.gethostname()}-{os.getpid()}"


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
