"""Reach: the interface of a way to a board. It starts programs with a byte stream, copies files, runs commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

ENDING = """\
for f in $(grep -l -F -e "$d" /proc/[0-9]*/cmdline 2>/dev/null); do
p=${f#/proc/}
p=${p%/cmdline}
if [ "$p" != $$ ]; then kill -9 "$p" 2>/dev/null; fi; done"""
"""Shell lines that kill every other process whose command line contains the text in `$d`."""


@dataclass(frozen=True)
class BoardFacts:
    """Description of a board. `bits` is the width of its userland, `libc` is such as "glibc 2.31" ("" if unknown).

    `machine` is the output of `uname -m`, `folder` the one for files, `free_bytes` the space there. `identity`
    identifies this piece of hardware (serial number, machine id), as far as it is known. `firmware` is the version of
    what starts the board ("" if unknown).
    """

    machine: str
    bits: int
    libc: str
    cores: int
    memory_bytes: int
    folder: str
    free_bytes: int
    kernel: str
    identity: Mapping[str, str] = field(default_factory=dict)
    firmware: str = ""


@dataclass(frozen=True)
class CommandResult:
    """Result of a command: its exit status (128 + number when a signal ended it) and its output."""

    status: int
    stdout: str
    stderr: str


class ByteStream(Protocol):
    """Byte stream to and from a process that was started on a board or on this machine."""

    def fileno(self) -> int:
        """Descriptor that is readable when `receive` has bytes, or at the end of the stream."""

    def send(self, data: bytes, timeout_s: float) -> None:
        """Write all of `data`; raises BoardLost when the link is down, or `data` is not taken within `timeout_s`."""

    def receive(self) -> bytes:
        """Return the bytes that have arrived, b"" without any; raises BoardLost at the end of the stream."""

    def diagnostics(self) -> str:
        """Last output of the process on stderr, printable, at most 1000 characters."""

    def close(self) -> None:
        """End the process. May be called twice."""


class Reach(Protocol):
    """A way to a board. Every call ends by its deadline; failures are the classes of `edgetune.errors`.

    A deadline is the time that a call gets, plus the round trips of the link (`boards.round_trip`).
    """

    @property
    def name(self) -> str:
        """Name of the board."""

    @property
    def round_trip_s(self) -> float:
        """Latest round-trip time to the board in seconds; 0 on this machine."""

    def connect(self, timeout_s: float = 20.0) -> None:
        """Connect; does nothing when the link is up, reconnects when it is down."""

    def facts(self) -> BoardFacts:
        """Query the facts of the board; raises BoardUnfit when it does not match its target."""

    def start(self, program: Path, arguments: Sequence[str], timeout_s: float = 10.0) -> ByteStream:
        """Put the program on the board (once per content) and start it."""

    def run(self, command: str, timeout_s: float, stdin: bytes = b"") -> CommandResult:
        """Run one shell command; raises BoardLost when it has not ended after `timeout_s`."""

    def put(self, local: Path, timeout_s: float) -> str:
        """Copy a file to the board (once per content); return its path there."""

    def clean(self) -> None:
        """Remove all files that were put on the board, and end every process that was started there."""

    def close(self) -> None:
        """Disconnect. May be called twice."""

    def reboot(self, timeout_s: float) -> bool:
        """Restart the board and wait until it answers; False: not possible for this board."""

    def power_cycle(self, timeout_s: float) -> bool:
        """Switch the power off and on, and wait until the board answers; False: not possible for this board."""
