"""What a measuring session asks of a board, however it is reached."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from edgetune.measure.jobs import RunRequest, RunResult

Reading = str | int | float


class Board(Protocol):
    """A board takes one candidate at a time. Every call has an end: a board that is lost raises BoardUnavailable."""

    @property
    def name(self) -> str:
        """Name of the board in records."""

    def reserve(self) -> None:
        """Wait until the board is ours alone; raises BoardUnavailable after a time."""

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
        """Bring a board that misbehaves back to where it takes candidates."""

    def release(self) -> None:
        """Let others have the board."""

    def close(self) -> None:
        """End everything that was started there."""
