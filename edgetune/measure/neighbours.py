"""Samples taken while another thread of the same core was busy are taken again.

Virtual cores share theirs with strangers, who come and go within milliseconds. A kernel that mostly waits for its own
arithmetic keeps its speed then, one that issues more beside it loses up to half, so that what is fastest would be
decided by who was next door. How many additions the core does at once tells (timer.c).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

TakeBoth = Callable[[int, int], list[tuple[float, float]]]
"""(repeat, count) to `count` pairs: nanoseconds per call over `repeat` calls, and additions done at once meanwhile."""

_ALONE = 0.85
"""Share of the additions of a core alone above which nobody else is there: two threads have about 0.6 each."""

_LONG_NS = 5e6
"""A longer sample sees who comes and who goes, whatever was there before and behind it."""


class Neighbourhood:
    """What is known of who else uses the core that measures, from one candidate to the next.

    `patience` is how much longer samples may take for being taken again, as a share of their budget; it halves with
    each candidate for which that was in vain.
    """

    def __init__(self) -> None:
        self._widths: deque[float] = deque(maxlen=2048)
        self.patience = 1.0

    def probed(self, widths: Iterable[float]) -> None:
        """Take in additions at once, as the core did them between two candidates."""
        self._widths.extend(widths)

    @property
    def alone(self) -> float:
        """Additions at once that the core does when nobody else is there, as far as was seen; 0: nobody looked."""
        ordered = sorted(self._widths)
        return ordered[len(ordered) * 95 // 100] if ordered else 0.0

    def tried(self, disturbed: int, samples: int) -> None:
        """A candidate was timed, and so many of its samples are disturbed all the same."""
        self.patience = max(0.1, self.patience / 2) if 2 * disturbed > samples else 1.0


@dataclass
class Undisturbed:
    """Takes samples through `take_both`, and disturbed ones again, which takes `room_ns` at most in all.

    `alone` as in `Neighbourhood`. `disturbed` tells of each sample returned, in their order, whether it is.
    """

    take_both: TakeBoth
    alone: float
    room_ns: float
    disturbed: list[bool] = field(default_factory=list, init=False)

    def take(self, repeat: int, count: int) -> list[float]:
        """`count` samples of `repeat` calls each, in nanoseconds per call."""
        found = []
        for nanoseconds, width in self.take_both(repeat, count):
            sample, alone = nanoseconds, width >= _ALONE * self.alone
            while not alone and repeat * sample <= min(self.room_ns, _LONG_NS):
                ((again, width_again),) = self.take_both(repeat, 1)
                self.room_ns -= repeat * again
                alone = width_again >= _ALONE * self.alone
                sample = again if alone else sample
            found.append(sample)
            self.disturbed.append(not alone)
        return found
