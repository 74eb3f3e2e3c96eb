"""What travels between a board of TVM's RPC and its worker: plain frozen data, all picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgetune.measure.jobs import RunRequest


@dataclass(frozen=True)
class Connect:
    """Open a session with the server at `host:port`, for at most `session_s` seconds; ends the one before.

    `key` is what the server, or the tracker's lease, wants to hear. `shim` is a library of this machine, `cores` those
    that candidates are kept on (none: the last that the server may use).
    """

    host: str
    port: int
    key: str
    session_s: int
    shim: Path
    cores: tuple[int, ...] = ()


@dataclass(frozen=True)
class Connected:
    """The session is open: `facts` of the board's system, `cores` that candidates are kept on."""

    facts: Mapping[str, str]
    cores: tuple[int, ...]


@dataclass(frozen=True)
class Disconnect:
    """End the session; the worker answers with `Disconnected`."""


@dataclass(frozen=True)
class Disconnected:
    """There is no session."""


@dataclass(frozen=True)
class Read:
    """Ask for files of the board by patterns such as /sys/class/thermal/*/temp."""

    patterns: tuple[str, ...]


@dataclass(frozen=True)
class Files:
    """Content by path, of those there are."""

    contents: Mapping[str, bytes]


@dataclass(frozen=True)
class Bring:
    """Bring an array (.npy of this machine) that the next candidate needs; the answer is `Brought`."""

    path: Path


@dataclass(frozen=True)
class Brought:
    """It is there."""


@dataclass(frozen=True)
class Try:
    """Check and time a candidate; the answer is a `RunResult`. Paths are files of this machine."""

    request: RunRequest


@dataclass(frozen=True)
class Step:
    """What the worker does now, told before it begins."""

    name: str


@dataclass(frozen=True)
class Failed:
    """The session broke, or could not be opened: the server's words. `unfit`: the board is not what it has to be."""

    step: str
    reason: str
    unfit: bool = False
