"""Compares the boards of one target: one that is faster or slower than its twins, by more than noise, is flagged."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from math import exp, log

from edgetune.measure.statistics import Summary

_LEAST_DIFFERENCE = 0.02
_DEVIATIONS = 3.0
_LEAST_CANARIES = 3
_LEAST_SHARED = 3


@dataclass
class _Board:
    canary: float | None = None
    noise: float = 0.0
    canaries: int = 0
    shared: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    flagged: bool = False


class Twins:
    """Each of the methods returns the flags that it raises: the board's name and a sentence, once per board."""

    def __init__(self) -> None:
        self._boards: defaultdict[str, _Board] = defaultdict(_Board)
        self._times: defaultdict[str, dict[str, float]] = defaultdict(dict)

    def canary(self, name: str, median: float, noise: float, count: int) -> list[tuple[str, str]]:
        """Take in a board's canary: the median of `count` times, and their relative standard deviation."""
        board = self._boards[name]
        board.canary, board.noise, board.canaries = log(median), noise, count
        told = {
            key: one.canary
            for key, one in self._boards.items()
            if one.canary is not None and one.canaries >= _LEAST_CANARIES
        }
        if len(told) < 2:  # noqa: PLR2004  one board has no twin
            return []
        noisiest = max(self._boards[key].noise for key in told)
        limit = max(_LEAST_DIFFERENCE, _DEVIATIONS * noisiest)
        flags = []
        for key, value in told.items():
            gaps = [value - other for twin, other in told.items() if twin != key]
            differing = [gap for gap in gaps if abs(gap) > limit]
            if 2 * len(differing) > len(gaps) and (len(gaps) > 1 or gaps[0] > 0):  # of two, the slower one
                flags += self._flag(key, statistics.median(differing), limit, "canary")
        return flags

    def candidate(self, name: str, candidate: str, summary: Summary) -> list[tuple[str, str]]:
        """Take in the time of a candidate; some are timed on several boards."""
        times = self._times[candidate]
        flags: list[tuple[str, str]] = []
        for twin, other in times.items():
            if twin == name:
                continue
            offset = log(summary.median) - other
            noise = max(_LEAST_DIFFERENCE, _DEVIATIONS / 2 * summary.relative_width)
            for key, value in ((name, offset), (twin, -offset)):
                shared = self._boards[key].shared[name if key == twin else twin]
                shared.append(value)
                same = all((one > 0) == (value > 0) and abs(one) > noise for one in shared)
                if len(shared) >= _LEAST_SHARED and same and value > 0:
                    flags += self._flag(key, statistics.median(shared), noise, "candidates that both have timed")
        times[name] = log(summary.median)
        return flags

    def _flag(self, name: str, difference: float, limit: float, what: str) -> list[tuple[str, str]]:
        board = self._boards[name]
        if board.flagged or abs(difference) <= limit:
            return []
        board.flagged = True
        change = 100 * abs(exp(difference) - 1)
        kind = "slower" if difference > 0 else "faster"
        return [(name, f"it is {change:.1f} % {kind} than its twins, by the {what}: its times are not theirs")]
