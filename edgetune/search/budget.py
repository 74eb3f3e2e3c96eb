"""Measurement budget: a number of records, a wall-clock time, or both; the first limit reached ends the search."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


def with_shares(trials: int | None, used: int, kernels: int, new: int) -> int | None:
    """Returns the limit of records with which each of `new` kernels, which have none, gets an equal share of `trials`.

    Records of the other kernels may have used them all: `used` of `trials`, for `kernels` in all.
    """
    return None if trials is None else max(trials, used + new * (trials // kernels)) if new else trials


@dataclass
class TrialBudget:
    """Counts the records of the tasks, including failures and earlier runs, and the time of this run.

    `trials` and `seconds` are limits, None for no limit. `reserve` is the share of `seconds` kept for the comparison of
    finalists; without a time limit, it is the number of finalists per measured candidate. `used` starts with the number
    of records in the store and grows by one per record.
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
        """How many more candidates may be proposed while `in_flight` are being measured; None for any number."""
        if self.out_of_time():
            return 0
        return None if self.trials is None else max(self.trials - self.used - in_flight, 0)

    def out_of_time(self) -> bool:
        """Whether the time for searching is over."""
        return self.seconds is not None and self.elapsed >= self.seconds * (1 - self.reserve)

    def seconds_for_finalists(self) -> float | None:
        """Seconds for the comparison of finalists; None without a time limit, as time must decide nothing then."""
        return None if self.seconds is None else max(self.seconds - self.elapsed, 0.0)

    def remaining_seconds(self, pace: float | None) -> float | None:
        """Expected seconds to the end at `pace` records a second; None when nothing is known yet."""
        ends = []
        if self.seconds is not None:
            ends.append(self.seconds - self.elapsed)
        if self.trials is not None and pace:
            ends.append((self.trials - self.used) / pace)
        return max(min(ends), 0.0) if ends else None
