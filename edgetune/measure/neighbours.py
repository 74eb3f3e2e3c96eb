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

WatchBoth = Callable[[], tuple[float, float]]
"""Makes one watched call; returns such a pair."""

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

    `alone` as in `Neighbourhood`. A call of `watch_both` is a sample like others while samples are of one call.
    `disturbed` tells of each sample returned, in their order, whether it is.
    """

    take_both: TakeBoth
    watch_both: WatchBoth
    alone: float
    room_ns: float
    disturbed: list[bool] = field(default_factory=list, init=False)
    _repeat: int = field(default=1, init=False)

    def take(self, repeat: int, count: int) -> list[float]:
        """`count` samples of `repeat` calls each, in nanoseconds per call."""
        self._repeat = repeat
        return [self._kept(pair) for pair in self.take_both(repeat, count)]

    def watch(self) -> float:
        """Make a watched call; return its nanoseconds, or those of a call after it where that was disturbed."""
        pair = self.watch_both()
        return self._kept(pair) if self._repeat == 1 else pair[0]

    def _kept(self, pair: tuple[float, float]) -> float:
        sample, width = pair
        alone = width >= _ALONE * self.alone
        while not alone and self._repeat * sample <= min(self.room_ns, _LONG_NS):
            ((again, width_again),) = self.take_both(self._repeat, 1)
            self.room_ns -= self._repeat * again
            alone = width_again >= _ALONE * self.alone
            sample = again if alone else sample
        self.disturbed.append(not alone)
        return sample
