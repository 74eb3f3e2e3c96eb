"""How much may still be measured: a number of records, a wall-clock time, or both, whichever ends first."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Budget:
    """Counts records of the tasks, failures and earlier runs included, and the time of this run.

    `trials` and `seconds` are limits, None for no limit; `reserve` is the share of `seconds` kept for the
    final comparison, or where there is no such limit, its contenders for each candidate measured. `used` starts with
    what the store holds and grows by one per record.
    """

    trials: int | None
    seconds: float | None
    used: int = 0
    reserve: float = 0.1
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)

    def __post_init__(self) -> None:
        """Starts the clock."""
        self.started = self.clock()

    @property
    def elapsed(self) -> float:
        """Seconds since the budget was made."""
        return self.clock() - self.started

    def room(self, in_flight: int) -> int | None:
        """How many more candidates may be proposed while `in_flight` are on their way; None for any number."""
        if self.out_of_time():
            return 0
        return None if self.trials is None else max(self.trials - self.used - in_flight, 0)

    def out_of_time(self) -> bool:
        """Whether the time for searching is over."""
        return self.seconds is not None and self.elapsed >= self.seconds * (1 - self.reserve)

    def seconds_for_playoff(self) -> float | None:
        """Seconds that the final comparison may take; None where time is no limit, and must decide nothing."""
        return None if self.seconds is None else max(self.seconds - self.elapsed, 0.0)

    def remaining_seconds(self, pace: float | None) -> float | None:
        """Expected seconds to the end, given `pace` records a second; None when nothing is known yet."""
        ends = []
        if self.seconds is not None:
            ends.append(self.seconds - self.elapsed)
        if self.trials is not None and pace:
            ends.append((self.trials - self.used) / pace)
        return max(min(ends), 0.0) if ends else None
