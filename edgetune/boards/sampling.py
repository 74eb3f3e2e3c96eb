"""Adaptive sampling: decides how often to call a kernel until the median is reliable, within a time budget.

It stops early for a kernel that is too slow to win. It also decides which calls are watched: made over outputs that
hold a pattern, and compared afterwards. Watched are the first call, two consecutive calls at an unpredictable place,
and the last call. Where one sample is one call, watched calls are samples. `templates/agent/sampling.c` has the same
rules, including the random draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Literal

from edgetune.boards.statistics import summarise

Stop = Literal["narrow", "budget", "slow", "count"]
_LEAST_NS = 0.1
_MASK = (1 << 64) - 1
Take = Callable[[int, int], list[float]]
"""Maps (repeat, count) to `count` samples, each the nanoseconds per call over `repeat` calls."""

Watch = Callable[[], float]
"""Makes one watched call; returns its nanoseconds. May raise any exception when the call went wrong."""


@dataclass(frozen=True)
class TimingPolicy:
    """Limits of timing one candidate, in nanoseconds unless stated otherwise.

    `budget_ns` covers all calls of the timing, warm-up included. Only a kernel so slow that `few_samples` calls do not
    fit into it takes more. Sampling ends early once there are `min_samples` over at least `min_sampling_ns` and the
    confidence interval is narrower than `narrow` (relative), or after `few_samples` when the warm-up is more than
    `hopeless` times slower than the best so far.
    """

    budget_ns: float = 0.3e9
    sample_ns: float = 0.5e6
    warm_up_ns: float = 2e6
    min_sampling_ns: float = 20e6
    min_samples: int = 8
    max_samples: int = 400
    few_samples: int = 3
    narrow: float = 0.01
    hopeless: float = 3.0


@dataclass(frozen=True)
class Sampling:
    """`samples` in nanoseconds per call, each over `repeat` calls."""

    samples: tuple[float, ...]
    repeat: int
    stopped: Stop


class Draws:
    """Random numbers that a candidate cannot predict: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) from a seed."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def below(self, count: int) -> int:
        """Return a number from 0 to `count` - 1."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return (mixed ^ (mixed >> 31)) % count


class _Run:
    """Takes samples in chunks, with watched calls among them."""

    def __init__(self, take: Take, watch: Watch, seed: int) -> None:
        self._take, self._watch, self._draws = take, watch, Draws(seed)
        self._chunks = 0
        self.spent = 0.0

    def watched(self) -> float:
        value = self._watch()
        self.spent += value
        return value

    def timed(self, repeat: int, count: int) -> list[float]:
        values = self._take(repeat, count) if count else []
        self.spent += repeat * sum(values)
        return values

    def chunk(self, repeat: int, count: int) -> list[float]:
        """Take `count` samples; chunk number n has a watched pair at a random place with probability 1/n.

        So there is at least one pair, and each chunk is equally likely to have the last pair.
        """
        self._chunks += 1
        drawn = self._draws.below(self._chunks) == 0
        if repeat > 1:
            before = self._draws.below(count) if drawn else count
            values = self.timed(repeat, before)
            if drawn:
                self.watched()
                self.watched()
            return values + self.timed(repeat, count - before)
        first = self._draws.below(max(1, count - 1)) if drawn else count
        values = self.timed(1, min(first, count - 1))
        while len(values) < count:
            if len(values) in {first, first + 1, count - 1}:
                values.append(self.watched())
            else:
                values += self.timed(1, count - 1 - len(values))
        if drawn and count == 1:
            self.watched()
        return values


def sample(take: Take, watch: Watch, policy: TimingPolicy, best_ns: float = 0.0, seed: int = 0) -> Sampling:
    """Time a kernel; `seed` determines the place of the watched pair."""
    run = _Run(take, watch, seed)
    repeat, estimate = 1, run.watched()
    while estimate * repeat < policy.sample_ns or (
        run.spent < policy.warm_up_ns and estimate * repeat < policy.warm_up_ns
    ):
        if estimate * repeat < policy.sample_ns:
            wanted = ceil(1.1 * policy.sample_ns / max(estimate, _LEAST_NS))
            repeat = max(ceil(1.5 * repeat), min(wanted, repeat * 32))
        estimate = run.timed(repeat, 1)[0]
    one = max(estimate * repeat, 1.0)
    if best_ns > 0 and estimate > policy.hopeless * best_ns:
        fits = int((policy.budget_ns - run.spent) / one)
        samples = run.chunk(repeat, max(1, min(policy.few_samples, fits)))
        stopped: Stop = "slow"
    else:
        samples, stopped = _until_trusted(run, repeat, one, policy)
    if repeat > 1:
        run.watched()
    return Sampling(tuple(samples), repeat, stopped)


def _until_trusted(run: _Run, repeat: int, one: float, policy: TimingPolicy) -> tuple[list[float], Stop]:
    """Take samples, each of about `one` nanoseconds, until there are enough or the budget is spent."""
    samples: list[float] = []
    first = run.spent
    while True:
        fits = int((policy.budget_ns - run.spent) / one)
        chunk = min(policy.min_samples, fits, policy.max_samples - len(samples))
        if chunk <= 0:
            if len(samples) >= policy.few_samples:
                return samples, "count" if len(samples) >= policy.max_samples else "budget"
            chunk = policy.few_samples - len(samples)
        samples += run.chunk(repeat, chunk)
        enough = len(samples) >= policy.min_samples and run.spent - first >= policy.min_sampling_ns
        if enough and summarise(samples).relative_width <= policy.narrow:
            return samples, "narrow"
