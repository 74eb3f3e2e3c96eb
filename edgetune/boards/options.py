"""The options for measuring, passed from the command line to the process that measures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from edgetune.boards.sampling import TimingPolicy

if TYPE_CHECKING:
    from edgetune.boards.access import BoardAccess

Grade = Literal["A", "B", "C", "D"]
GRADES: tuple[Grade, ...] = ("A", "B", "C", "D")
"""Grades of trust in a time, the best first."""


@dataclass(frozen=True)
class MeasuringOptions:
    """Boards, how candidates are timed on them, and how far their times must be trusted.

    `boards` are all of one target. Samples below `min_trust` are refused. A board hotter than `ceiling_c` degrees
    Celsius gets up to `cooling_s` seconds to cool; a lost board gets `recovery_s` seconds to come back. A candidate
    is timed by `timing`, within `deadline_s` seconds of wall time in all, and may use `memory_bytes`.
    """

    boards: tuple[BoardAccess, ...] = ()
    min_trust: Grade = "D"
    ceiling_c: float = 80.0
    cooling_s: float = 60.0
    recovery_s: float = 600.0
    timing: TimingPolicy = field(default_factory=TimingPolicy)
    deadline_s: float = 10.0
    memory_bytes: int = 2 << 30
