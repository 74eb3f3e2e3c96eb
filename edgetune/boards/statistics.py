"""Robust statistics of timings: median, its confidence interval, outliers, and whether the samples are too noisy.

The confidence interval of the median assumes no distribution: the median lies between the order statistics x(l) and
x(u) with the binomial probability P(l <= B < u), B ~ Bin(n, 1/2)
(H. A. David, H. N. Nagaraja, Order Statistics, 3rd edition, Wiley 2003, section 7.1). Samples must be independent.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb

CONFIDENCE = 0.95
NOISY_WIDTH = 0.10
OUTLIER_DEVIATIONS = 5.0
_LEAST_SPREAD = 1e-3


@dataclass(frozen=True)
class Summary:
    """Statistics of samples in the unit of the samples (here nanoseconds per call).

    `low` and `high` enclose the median with probability `coverage`, which is lower than requested for few samples (5
    samples reach 0.9375). `count` is the number of all samples; `dropped` of them were outliers.
    """

    count: int
    dropped: int
    median: float
    low: float
    high: float
    coverage: float
    smallest: float

    @property
    def relative_width(self) -> float:
        """Width of the confidence interval divided by the median."""
        return (self.high - self.low) / self.median if self.median > 0 else 0.0

    @property
    def noisy(self) -> bool:
        """Whether the interval is too wide to report the median, whatever its coverage."""
        return self.relative_width > NOISY_WIDTH


def summarise(samples: Sequence[float]) -> Summary:
    """Describe `samples`, at least one, positive and finite, after dropping outliers."""
    if not samples:
        raise ValueError("no samples to summarise")
    kept, dropped = drop_outliers(samples)
    low, high, coverage = median_interval(kept)
    return Summary(len(samples), dropped, statistics.median(kept), low, high, coverage, kept[0])


def drop_outliers(samples: Sequence[float]) -> tuple[list[float], int]:
    """Return the samples kept, sorted, and the number dropped.

    Drops samples above the median by more than 5 median absolute deviations (of at least 0.1 % of the median, for
    clocks with coarse ticks). Interruptions only add time, so no low sample is dropped, and never half of the samples
    or more.
    """
    ordered = sorted(samples)
    middle = statistics.median(ordered)
    deviation = statistics.median(abs(value - middle) for value in ordered)
    limit = middle + OUTLIER_DEVIATIONS * max(deviation, _LEAST_SPREAD * abs(middle))
    kept = [value for value in ordered if value <= limit]
    return kept, len(ordered) - len(kept)


def median_interval(ordered: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Return (low, high, coverage) of the median of sorted samples; few samples cover less than `confidence`."""
    count = len(ordered)
    rank = _lower_rank(count, confidence)
    outside = sum(comb(count, below) for below in range(rank))
    return ordered[rank - 1], ordered[count - rank], max(0.0, 1.0 - 2 * outside / 2**count)


def _lower_rank(count: int, confidence: float) -> int:
    """Largest rank r (from 1) such that P(r <= Bin(count, 1/2) < count + 1 - r) is at least `confidence`, or 1."""
    allowed = Fraction((1.0 - confidence) / 2) * 2**count  # beyond the range of floats from 1024 samples on
    outside, rank = 1, 1  # outside = sum of comb(count, i) for i < rank
    while 2 * (rank + 1) <= count + 1:
        following = outside + comb(count, rank)
        if following > allowed:
            break
        outside, rank = following, rank + 1
    return rank


def retry_wanted(summary: Summary, attempts: int, best: float, most_attempts: int = 2) -> bool:
    """Whether to time again: noisy samples, attempts left, and the kernel may be the best (`best` 0: none yet)."""
    return summary.noisy and attempts < most_attempts and (best <= 0 or summary.smallest < best)
