"""Detection of SMT interference: samples taken while another thread of the same core was busy are taken again.

Virtual cores share a physical core with other users, whose load changes within milliseconds. A kernel that mostly waits
for its own arithmetic keeps its speed then; one that issues more in parallel loses up to half. Without a second sample,
the other users' load would decide which kernel is fastest. The indicator is the number of additions that the core does
in parallel (timer.c).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

TakeBoth = Callable[[int, int], list[tuple[float, float]]]
"""Maps (repeat, count) to `count` pairs: nanoseconds per call over `repeat` calls, and parallel additions meanwhile."""

WatchBoth = Callable[[], tuple[float, float]]
"""Makes one watched call; returns one such pair."""

_ALONE = 0.85
"""A thread is alone above this share of an idle core's parallel additions; two threads get about 0.6 each."""

_LONG_NS = 5e6
"""Longer samples are not repeated: the load changes within them, whatever it is right before and after them."""


class Neighbourhood:
    """Knowledge about other users of the measuring core, kept from one candidate to the next.

    `patience` limits the extra time for repeated samples, as a share of their budget; it halves with each candidate for
    which repeating did not help.
    """

    def __init__(self) -> None:
        self._widths: deque[float] = deque(maxlen=2048)
        self.patience = 1.0

    def probed(self, widths: Iterable[float]) -> None:
        """Add the numbers of parallel additions that the core did between two candidates."""
        self._widths.extend(widths)

    @property
    def alone(self) -> float:
        """Parallel additions of the core without other users, estimated from the probes; 0 without probes."""
        ordered = sorted(self._widths)
        return ordered[len(ordered) * 95 // 100] if ordered else 0.0

    def tried(self, disturbed: int, samples: int) -> None:
        """Note that a candidate was timed, and that `disturbed` of its `samples` stayed disturbed."""
        self.patience = max(0.1, self.patience / 2) if 2 * disturbed > samples else 1.0


@dataclass
class Undisturbed:
    """Takes samples through `take_both`, and repeats disturbed ones, for at most `room_ns` in all.

    `alone` as in `Neighbourhood`. A call of `watch_both` counts as a sample while a sample is one call. `disturbed` has
    one entry for each sample returned, in their order.
    """

    take_both: TakeBoth
    watch_both: WatchBoth
    alone: float
    room_ns: float
    disturbed: list[bool] = field(default_factory=list, init=False)
    _repeat: int = field(default=1, init=False)

    def take(self, repeat: int, count: int) -> list[float]:
        """Return `count` samples of `repeat` calls each, in nanoseconds per call."""
        self._repeat = repeat
        return [self._kept(pair) for pair in self.take_both(repeat, count)]

    def watch(self) -> float:
        """Make a watched call; return its nanoseconds, or those of a later call if it was disturbed."""
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
