"""Change-point detection (CUSUM) on the canary's times: is a board still as fast as it was?

Two one-sided cumulative sums of standardised log-times (E. S. Page, Continuous Inspection Schemes, Biometrika 41,
1954, pages 100-115), with the usual slack of half a standard deviation and threshold of 5: a lasting shift by one
standard deviation is detected after about ten canaries, by four after two, and a false alarm comes every 465
(D. C. Montgomery, Introduction to Statistical Quality Control, 6th edition, Wiley 2009, section 9.1).
"""

from __future__ import annotations

import statistics
from math import exp, log
from typing import Literal

State = Literal["unknown", "steady", "drifted"]

LEARNED = 5
"""Number of canaries that make a reference level."""

_SLACK = 0.5
_THRESHOLD = 5.0
_MOST = 4.0  # limit of a single canary's deviation, so that one interruption does not count as drift
_LEAST_DEVIATION = 0.01
_OF_FIVE = 1.79  # from median absolute to standard deviation, for a normal distribution, corrected for few samples
_NEAR = 3.0
_BACK = 3


class Trend:
    """Takes the canary's times (any unit) in order; `state` is "unknown" until there is a reference level."""

    def __init__(self) -> None:
        self.state: State = "unknown"
        self.shift = 0.0
        self._recent: list[float] = []
        self._level = 0.0
        self._deviation = _LEAST_DEVIATION
        self._up = self._down = 0.0
        self._all: list[float] = []

    @property
    def median(self) -> float | None:
        """Median of all times, None without any."""
        return exp(statistics.median(self._all)) if self._all else None

    @property
    def noise(self) -> float:
        """Relative standard deviation of the times."""
        return self._deviation

    def add(self, time: float) -> str:
        """Add a time; return a sentence when the state changes, else an empty text.

        `shift` then is the relative distance of the last canaries from the reference level.
        """
        value = log(time)
        self._all.append(value)
        self._recent = [*self._recent[1 - LEARNED :], value]
        if self.state == "unknown":
            return self._learn() if len(self._recent) == LEARNED else ""
        if self.state == "drifted":
            return self._steady_again()
        deviation = max(-_MOST, min(_MOST, (value - self._level) / self._deviation))
        self._up = max(0.0, self._up + deviation - _SLACK)
        self._down = max(0.0, self._down - deviation - _SLACK)
        if max(self._up, self._down) <= _THRESHOLD:
            return ""
        self.state = "drifted"
        self.shift = exp(statistics.median(self._recent[-_BACK:]) - self._level) - 1
        self._recent = self._recent[-1:]
        return f"its canary takes {_than_before(self.shift)}"

    def _learn(self) -> str:
        self._level = statistics.median(self._recent)
        spread = statistics.median(abs(value - self._level) for value in self._recent)
        self._deviation = max(_LEAST_DEVIATION, _OF_FIVE * spread)
        self.state, self.shift = "steady", 0.0
        self._up = self._down = 0.0
        return ""

    def _steady_again(self) -> str:
        last = self._recent[-_BACK:]
        if len(last) == _BACK and all(abs(value - self._level) <= _NEAR * self._deviation for value in last):
            self._up = self._down = self.shift = 0.0
            self.state = "steady"
            return "its canary takes its former time again"
        middle = statistics.median(self._recent)
        same = all(abs(value - middle) <= _NEAR * self._deviation for value in self._recent)
        if len(self._recent) == LEARNED and same:
            before = self._level
            self._learn()
            return f"its canary is steady again, and takes {_than_before(exp(self._level - before) - 1)}"
        return ""


def _than_before(change: float) -> str:
    return f"{100 * abs(change):.1f} % {'more' if change > 0 else 'less'} time than before"
