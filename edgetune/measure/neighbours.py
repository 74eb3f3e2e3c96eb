"""Samples taken while another thread of the same core was busy are taken again.

Virtual cores share theirs with strangers, who come and go within milliseconds. A kernel that mostly waits for its own
arithmetic keeps its speed then, one that issues more beside it loses up to half, so that what is fastest would be
decided by who was next door. How many additions the core does at once tells (timer.c); it is compared with the most
that it ever did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

TakeBoth = Callable[[int, int], list[tuple[float, float]]]
"""(repeat, count) to `count` pairs: nanoseconds per call over `repeat` calls, and additions done at once meanwhile."""

_ALONE = 0.85
"""Share of the most additions at once above which nobody else is there: two threads have about 0.6 each."""


@dataclass
class Undisturbed:
    """Takes samples through `take_both`, disturbed ones again while there are at most `patience` times as many of them.

    `widest` is the most additions at once that were seen so far; `disturbed` and `taken` count what `take` returned.
    """

    take_both: TakeBoth
    widest: float = 0.0
    patience: float = 2.0
    taken: int = field(default=0, init=False)
    disturbed: int = field(default=0, init=False)

    def take(self, repeat: int, count: int) -> list[float]:
        """`count` samples of `repeat` calls each, in the order in which they were taken."""
        kept: list[float] = []
        others: list[float] = []
        while len(kept) < count and len(others) <= self.patience * count:
            wanted = count - len(kept)
            for nanoseconds, width in self.take_both(repeat, wanted):
                self.widest = max(self.widest, width)
                (kept if width >= _ALONE * self.widest else others).append(nanoseconds)
        missing = max(0, count - len(kept))
        self.taken += count
        self.disturbed += missing
        return [*kept, *others[len(others) - missing :]]
