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
FAR, FAR_US = 1 / 3, 5.0
"""Share of the roofline that is too little, for cases whose roofline is longer than so many microseconds."""
ABOVE = 0.05
"""A share of the roofline this far above 1 is named: it does not say what is left to gain.

The peak is that of multiply-adds. A core that adds beside them exceeds it where additions stand alone, as in distances;
or the limits were disturbed when they were measured.
"""


@dataclass(frozen=True)
class CaseResult:
    """Times of a case in microseconds, a median for each round; `peer_us` is empty without a peer."""

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
        ours = statistics.median(self.ours_us)
        if not self.peer_us:
            return f"{ours:.1f} us, roofline {self.roofline_us:.1f} us: {self.share:.0%}"
        low, high = self.interval
        other = statistics.median(self.peer_us)
        return f"{ours:.1f} us, {peer} {other:.1f} us: {self.ratio:.2f} ({low:.2f} to {high:.2f}), {self.share:.0%}"


def markdown(results: Sequence[CaseResult], peer: str) -> str:
    """A row for each case, then the geometric mean of the ratios; cases that the peer computes quickly come last.

    `peer` is its title. Cases without a peer have a table of their own, the farthest from the roofline first.
    """
    alone = sorted((result for result in results if not result.peer_us), key=lambda result: result.share)
    compared = [result for result in results if result.peer_us]
    tables = [*([_beside(compared, peer)] if compared else []), *([_alone(alone)] if alone else [])]
    return "\n\n".join(tables)


def _alone(results: Sequence[CaseResult]) -> str:
    above = [one.name for one in results if one.share > 1 + ABOVE]
    far = [one.name for one in results if one.share < FAR and one.roofline_us > FAR_US]
    rows = [
        f"| {one.name} | {statistics.median(one.ours_us):.1f} | {one.roofline_us:.1f} | {one.share:.0%} "
        f"| {one.difference:.1g} | {one.search_s:.0f} |"
        for one in results
    ]
    return "\n".join(
        [
            "| expression | edgetune, us | roofline, us | of the roofline | error | search, s |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
            *rows,
            "",
            f"{len(far)} of {len(results)} under a third of a roofline of more than {FAR_US:g} us"
            + (f": {', '.join(far)}." if far else ".")
            + (f" Above the peak of multiply-adds: {', '.join(above)}." if above else ""),
        ]
    )


def _beside(results: Sequence[CaseResult], peer: str) -> str:
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
