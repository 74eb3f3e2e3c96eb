"""Messages between a TVM RPC board and its worker: plain frozen data, all picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgetune.boards.protocol import RunRequest


@dataclass(frozen=True)
class Connect:
    """Open a session with the server at `host:port`, for at most `session_s` seconds; ends the previous session.

    `key` is the one that the server, or the tracker's lease, expects. `shim` is a library of this machine, `cores` are
    those of candidates (none: the last one that the server may use).
    """

    host: str
    port: int
    key: str
    session_s: int
    shim: Path
    cores: tuple[int, ...] = ()


@dataclass(frozen=True)
class Connected:
    """The session is open: `facts` of the board's system, `cores` of candidates."""

    facts: Mapping[str, str]
    cores: tuple[int, ...]


@dataclass(frozen=True)
class Disconnect:
    """End the session; the worker answers with `Disconnected`."""


@dataclass(frozen=True)
class Disconnected:
    """The session has ended."""


@dataclass(frozen=True)
class Read:
    """Ask for files of the board by patterns such as /sys/class/thermal/*/temp."""

    patterns: tuple[str, ...]


@dataclass(frozen=True)
class Files:
    """Contents of the existing files, by path."""

    contents: Mapping[str, bytes]


@dataclass(frozen=True)
class Bring:
    """Send an array (.npy of this machine) that the next candidate needs; the answer is `Brought`."""

    path: Path


@dataclass(frozen=True)
class Brought:
    """The array is on the board."""


@dataclass(frozen=True)
class Try:
    """Check and time a candidate; the answer is a `RunResult`. Paths are files of this machine."""

    request: RunRequest


@dataclass(frozen=True)
class WorkerStep:
    """The worker's current step, sent before the step begins."""

    name: str


@dataclass(frozen=True)
class SessionFailed:
    """The session broke, or could not be opened: the server's message. `unfit`: the board does not match its target."""

    step: str
    reason: str
    unfit: bool = False
