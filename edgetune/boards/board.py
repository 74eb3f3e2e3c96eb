"""What a measuring session asks of a board, however it is reached."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from edgetune.measure.environment import Reading
from edgetune.measure.jobs import RunRequest, RunResult


class Board(Protocol):
    """A board takes one candidate at a time.

    Every call has an end, and may raise BoardLost. Calls come from one thread at a time, not always the same one, so
    they may wait. `close` comes last, maybe while another call hangs, which it ends.
    """

    @property
    def name(self) -> str:
        """Name of the board in records."""

    @property
    def facts(self) -> Mapping[str, Reading]:
        """What stays as it is, complete after `reserve`.

        `emulated` is 0 or 1, `clock` "time" or "instructions" (one counts as a nanosecond); the rest as the board tells
        (`machine`, `kernel`, `libc`, ...).
        """

    @property
    def round_trip_s(self) -> float:
        """Seconds that a question and its answer took lately; 0 where nothing is between. From any thread."""

    def reserve(self) -> None:
        """Wait until the board is ours alone, before each candidate; raises BoardUnavailable after a time."""

    def put(self, path: Path) -> str:
        """Bring a file to the board; return its path there."""

    def begin(self, request: RunRequest) -> None:
        """Start to check and time a candidate."""

    def fileno(self) -> int:
        """Descriptor that becomes readable when `collect` has something."""

    def collect(self, timeout_s: float = 0.0) -> RunResult | None:
        """Return the result if it is there within `timeout_s`; there is always one soon after the deadline."""

    def health(self) -> dict[str, Reading]:
        """Governor, clock, temperature, load: what the board tells, by the keys of `measure.environment`."""

    def recover(self) -> None:
        """Bring a board that misbehaves back to where it takes candidates; raises BoardLost when nothing helps."""

    def release(self) -> None:
        """Let others have the board, after each candidate; where taking it is dear, it is kept until `close`."""

    def close(self) -> None:
        """End everything that was started there, and leave nothing behind."""
