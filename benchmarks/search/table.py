"""The table of the search benchmark: ratios with bootstrap intervals, and the share of the roofline."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_DRAWS = 2000
_CONFIDENCE = 0.95
SHORT_US = 20.0
"""Cases that the peer computes faster than this are listed apart: its own overhead of a call counts there."""
WIDE = 0.10
"""A ratio whose interval is wider than this share of it is undecided."""


@dataclass(frozen=True)
class CaseResult:
    """Times of a case in microseconds, one median a round of both sides in turns."""

    name: str
    ours_us: list[float]
    peer_us: list[float]
    roofline_us: float
    peak_gflops: float
    operations: int
    difference: float
    search_s: float
    trials: int

    @property
    def ratio(self) -> float:
        """The peer's time over ours: more than 1 means that we are faster."""
        return statistics.median(self.peer_us) / statistics.median(self.ours_us)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % bootstrap interval of the ratio, over rounds (Efron, Tibshirani: An Introduction, chapter 13)."""
        random_numbers = random.Random(0)  # noqa: S311  resampling needs no secret
        rounds = list(zip(self.ours_us, self.peer_us, strict=True))
        drawn = []
        for _ in range(_DRAWS):
            sample = random_numbers.choices(rounds, k=len(rounds))
            drawn.append(statistics.median(peer for _, peer in sample) / statistics.median(own for own, _ in sample))
        drawn.sort()
        cut = int(_DRAWS * (1 - _CONFIDENCE) / 2)
        return drawn[cut], drawn[-1 - cut]

    @property
    def share(self) -> float:
        """The share of the roofline that the package reaches."""
        return self.roofline_us / statistics.median(self.ours_us)

    def summary(self, peer: str) -> str:
        """One line for the terminal; `peer` is the title of the other side."""
        low, high = self.interval
        ours, other = statistics.median(self.ours_us), statistics.median(self.peer_us)
        return f"{ours:.1f} us, {peer} {other:.1f} us: {self.ratio:.2f} ({low:.2f} to {high:.2f}), {self.share:.0%}"


def markdown(results: Sequence[CaseResult], peer: str) -> str:
    """A row for each case, then the geometric mean of the ratios; cases that the peer computes quickly come last.

    `peer` is the title of the other side.
    """
    long = [result for result in results if statistics.median(result.peer_us) >= SHORT_US]
    short = [result for result in results if result not in long]
    lines = [
        f"| operator | edgetune, us | {peer}, us | ratio | 95 % interval | of the roofline | search, s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *map(_row, long),
    ]
    if long:
        ratios = [result.ratio for result in long]
        lost = sum(result.interval[1] < 1 for result in long)
        undecided = [result.name for result in long if _is_wide(result)]
        lines += [
            "",
            f"Geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}, "
            f"{lost} of {len(long)} slower than {peer}"
            + (f"; undecided: {', '.join(undecided)}." if undecided else "."),
        ]
    if short:
        lines += ["", f"Computed by {peer} in less than {SHORT_US:g} us:", "", *lines[:2], *map(_row, short)]
    return "\n".join(lines)


def _is_wide(result: CaseResult) -> bool:
    low, high = result.interval
    return high - low > WIDE * result.ratio


def _row(result: CaseResult) -> str:
    low, high = result.interval
    return (
        f"| {result.name} | {statistics.median(result.ours_us):.1f} | {statistics.median(result.peer_us):.1f} "
        f"| {result.ratio:.2f} | {low:.2f} to {high:.2f} | {result.share:.0%} | {result.search_s:.0f} |"
    )
