"""Decides how often to call a kernel: enough to trust the median, no longer than the budget, briefly when hopeless."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Literal

from edgetune.measure.statistics import summarise

Stop = Literal["narrow", "budget", "slow", "count"]
_LEAST_NS = 0.1
Take = Callable[[int, int], list[float]]


@dataclass(frozen=True)
class TimingPolicy:
    """Limits of timing one candidate, in nanoseconds unless said otherwise.

    `budget_ns` covers all calls of the timing, warm-up included. Only kernels so long that `few_samples` calls do not
    fit into it take more. Sampling ends early once there are `min_samples` over at least `min_sampling_ns` and the
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
    """`samples` in nanoseconds per call, each over `repeat` calls; `spent_ns` includes the warm-up."""

    samples: tuple[float, ...]
    repeat: int
    spent_ns: float
    stopped: Stop


def sample(take: Take, policy: TimingPolicy, best_ns: float = 0.0) -> Sampling:
    """Time a kernel through `take(repeat, count)`, which returns `count` samples of `repeat` calls each."""
    spent = 0.0

    def timed(repeat: int, count: int) -> list[float]:
        nonlocal spent
        values = take(repeat, count)
        spent += repeat * sum(values)
        return values

    repeat, estimate = 1, timed(1, 1)[0]
    while estimate * repeat < policy.sample_ns or (spent < policy.warm_up_ns and estimate * repeat < policy.warm_up_ns):
        if estimate * repeat < policy.sample_ns:
            wanted = ceil(1.1 * policy.sample_ns / max(estimate, _LEAST_NS))
            repeat = max(ceil(1.5 * repeat), min(wanted, repeat * 32))
        estimate = timed(repeat, 1)[0]
    one = max(estimate * repeat, 1.0)
    if best_ns > 0 and estimate > policy.hopeless * best_ns:
        fits = int((policy.budget_ns - spent) / one)
        return Sampling(tuple(timed(repeat, max(1, min(policy.few_samples, fits)))), repeat, spent, "slow")
    samples: list[float] = []
    first = spent
    while True:
        fits = int((policy.budget_ns - spent) / one)
        chunk = min(policy.min_samples, fits, policy.max_samples - len(samples))
        if chunk <= 0:
            if len(samples) >= policy.few_samples:
                stopped: Stop = "count" if len(samples) >= policy.max_samples else "budget"
                return Sampling(tuple(samples), repeat, spent, stopped)
            chunk = policy.few_samples - len(samples)
        samples += timed(repeat, chunk)
        enough = len(samples) >= policy.min_samples and spent - first >= policy.min_sampling_ns
        if enough and summarise(samples).relative_width <= policy.narrow:
            return Sampling(tuple(samples), repeat, spent, "narrow")
