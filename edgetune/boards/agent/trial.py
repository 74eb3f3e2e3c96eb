"""A candidate that an agent tries, and what it needs there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.boards.agent import messages
from edgetune.boards.agent.contents import Content
from edgetune.measure.jobs import RunRequest, RunResult, Tolerance


@dataclass(frozen=True)
class Trial:
    """What is under way: its number on the wire, and when (of `time.monotonic`) we give up on it.

    `again`: not all of it found a place at first; this time there is nothing else.
    """

    number: int
    request: RunRequest
    library: Content
    arrays: tuple[Content, ...]
    gives_up: float = 0.0
    again: bool = False

    @property
    def contents(self) -> tuple[Content, ...]:
        """What has to be there, some of it perhaps more than once."""
        return (self.library, *self.arrays)

    @property
    def size(self) -> int:
        """Bytes that it takes there."""
        return sum({content.key: content.size for content in self.contents}.values())

    def ask(self, cores: Sequence[int], cold_bytes: int) -> bytes:
        """Return the frame that asks for it."""
        uses = [
            messages.ArrayUse(content.key, role, content.dtype, tolerance or Tolerance())
            for content, role, tolerance in zip(self.arrays, self.request.roles, self.request.tolerances, strict=True)
        ]
        return messages.run(self.number, self.request, self.library.key, uses, cores, cold_bytes)

    def too_much(self, room: int) -> str:
        """Say what of it is more than any agent takes, and than one takes whose memory has `room` bytes for it."""
        if len(self.arrays) > messages.MOST_ARRAYS:
            return f"the kernel has {len(self.arrays)} parameters: an agent takes at most {messages.MOST_ARRAYS}"
        if self.size > room:
            return f"its arrays take {self.size >> 20} MB: the memory of the board has room for {room >> 20} MB"
        return ""

    def crashed(self, reason: str) -> RunResult:
        """Return the end of a candidate that no board of this kind can try."""
        return RunResult(self.request.candidate_id, "crashed", reason[:1000])
