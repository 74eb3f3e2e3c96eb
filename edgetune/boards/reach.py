"""What a way to a board offers: bytes to and from a process that was started there, files, commands."""

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
"""Lines of a shell that kill every other process whose command line names what `$d` holds."""


@dataclass(frozen=True)
class BoardFacts:
    """What a board is. `bits` is the width of its userland, `libc` such as "glibc 2.31" ("" where it does not tell).

    `machine` is what `uname -m` says, `folder` the one in which files are put, `free_bytes` the space there.
    `identity` names this piece of hardware (serial number, machine id), as far as it tells.
    """

    machine: str
    bits: int
    libc: str
    cores: int
    memory_bytes: int
    folder: str
    free_bytes: int
    kernel: str
    page_bytes: int = 4096
    identity: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Finished:
    """How a command ended: its exit status (128 + number when a signal ended it) and what it printed."""

    status: int
    stdout: str
    stderr: str


class Transport(Protocol):
    """Bytes to and from a process that was started for us, on a board or here."""

    def fileno(self) -> int:
        """Descriptor that is readable when `receive` has bytes or the end."""

    def send(self, data: bytes, timeout_s: float) -> None:
        """Write all of `data`; raises BoardLost when the link is down, or it is not taken within `timeout_s`."""

    def receive(self) -> bytes:
        """Return what is there now, b"" when there is nothing yet; raises BoardLost at the end of the stream."""

    def diagnostics(self) -> str:
        """Last words of the process on stderr, printable, at most 1000 characters."""

    def close(self) -> None:
        """End the process. May be called twice."""


class Reach(Protocol):
    """A way to a board. Every call ends by its deadline; failures are the classes of `edgetune.errors`.

    Deadlines are what a call is given and what the round trips of the link add (`boards.round_trip`).
    """

    @property
    def name(self) -> str:
        """Name of the board."""

    @property
    def round_trip_s(self) -> float:
        """Seconds that a question to the board and its answer took lately; 0 where nothing is between."""

    def connect(self, timeout_s: float = 20.0) -> None:
        """Connect; does nothing when the link is up, connects again when it is down."""

    def facts(self) -> BoardFacts:
        """Ask the board what it is; raises BoardUnfit when it cannot be what its target says."""

    def start(self, program: Path, arguments: Sequence[str], timeout_s: float = 10.0) -> Transport:
        """Put the program there (once per content) and start it."""

    def run(self, command: str, timeout_s: float, stdin: bytes = b"") -> Finished:
        """Run one shell command; raises BoardLost when it has not ended after `timeout_s`."""

    def put(self, local: Path, timeout_s: float) -> str:
        """Bring a file there (once per content); return its path there."""

    def clean(self) -> None:
        """Remove everything that was put there, end every process that was started there."""

    def close(self) -> None:
        """Disconnect. May be called twice."""

    def reboot(self, timeout_s: float) -> bool:
        """Restart the board and wait until it answers; False: not possible here."""

    def power_cycle(self, timeout_s: float) -> bool:
        """Cut the power, wait until the board answers; False: not possible here."""
