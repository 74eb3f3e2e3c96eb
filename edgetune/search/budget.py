"""Measurement budget: a number of records, a wall-clock time, or both; the first limit reached ends the search."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


def missing_shares(trials: int | None, records: Sequence[int], ended: Sequence[bool]) -> dict[int, int]:
    """Returns, by the number of a kernel, how many records it lacks of an equal share of `trials`.

    `records` has the records of each kernel, `ended` says whether a search of it has ended. Nothing is owed to a kernel
    whose search has ended, nor where none has: a search that is continued divides its trials as it began.
    """
    if not trials or not any(ended):
        return {}
    share = max(trials // len(records), 1)
    kernels = enumerate(zip(records, ended, strict=True))
    return {index: share - count for index, (count, over) in kernels if not over and count < share}


@dataclass
class TrialBudget:
    """Counts the records of the tasks, including failures and earlier runs, and the time of this run.

    `trials` and `seconds` are limits, None for no limit. `reserve` is the share of `seconds` kept for the comparison of
    finalists; without a time limit, it is the number of finalists per measured candidate. `used` starts with the number
    of records in the store and grows by one per record. `extra` records beyond `trials` are for kernels to which a
    share is `owed`.
    """

    trials: int | None
    seconds: float | None
    used: int = 0
    extra: int = 0
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

    @property
    def limit(self) -> int | None:
        """The number of records that ends the search; None for no limit."""
        return None if self.trials is None else self.trials + self.extra

    def room(self, in_flight: int, *, owed: bool = False) -> int | None:
        """How many more candidates may be proposed while `in_flight` are being measured; None for any number.

        Those of a kernel to which a share is `owed` may use `extra` as well.
        """
        if self.out_of_time():
            return 0
        if self.trials is None:
            return None
        return max(self.trials + (self.extra if owed else 0) - self.used - in_flight, 0)

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
        if self.limit is not None and pace:
            ends.append((self.limit - self.used) / pace)
        return max(min(ends), 0.0) if ends else None
