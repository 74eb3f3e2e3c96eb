"""The gate: decides by starts in turns whether tonight's package is slower than the accepted one, faster or the same.

A turn is four starts in the order old, new, new, old, and the next turn in the opposite order, so that a board that
drifts does the same to both. The statistic of a turn is the difference of the mean logarithms of its two starts each;
turns are independent, samples within a start are not. Where the board counts instructions, one turn is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from edgetune.verify.starts import Start

Which = Literal["old", "new"]
Measure = Callable[[Which], Start]
Word = Literal["same", "faster", "slower", "cannot tell"]

LEAST_TURNS, MOST_TURNS = 6, 40
COVERAGE = 0.99
FALSE_DISCOVERY_RATE = 0.01
LAYER_SHARE, LAYER_LIMIT = 0.1, 0.05
COUNT_LIMIT = 0.001
LEAST_ERROR = 1e-9
"""Smallest error of a mean of logarithms: equal differences would have none."""
_ORDERS: tuple[tuple[Which, ...], ...] = (("old", "new", "new", "old"), ("new", "old", "old", "new"))


@dataclass(frozen=True)
class JudgedRatio:
    """Ratio of the new cost to the old one, its interval with a coverage of 99 %, and what that means."""

    word: Word
    ratio: float
    low: float
    high: float
    p: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Comparison:
    """Result of the gate for the whole package and for its large layers, by index, after a number of turns.

    `old` and `new` are medians of the starts' costs. `reason` says why it cannot tell, "" where it can.
    """

    whole: JudgedRatio
    layers: dict[int, JudgedRatio]
    turns: int
    counted: bool
    old: float
    new: float
    reason: str = ""
    old_layers: tuple[float, ...] = ()
    new_layers: tuple[float, ...] = ()
    starts: dict[str, list[float]] = field(default_factory=dict)

    @property
    def word(self) -> Word:
        """Slower if the whole or a large layer is; otherwise what the whole is."""
        return "slower" if any(layer.word == "slower" for layer in self.layers.values()) else self.whole.word


def compare(measure: Measure, limit: float, cells: int, between_turns: Callable[[], None] = lambda: None) -> Comparison:
    """Compare by the time of starts. `cells` are those of the whole night, among which false alarms are limited.

    The chance of a false alarm of each is at most `FALSE_DISCOVERY_RATE / cells` (Bonferroni), which limits the false
    discovery rate of the night and needs no verdict of another cell.
    """
    old: list[Start] = []
    new: list[Start] = []
    alpha = FALSE_DISCOVERY_RATE / max(1, cells)
    while True:
        for which in order_of(len(old) // 2):
            (old if which == "old" else new).append(measure(which))
        turns = len(old) // 2
        differences = _differences([s.cost for s in old], [s.cost for s in new])
        if turns >= MOST_TURNS or (turns >= LEAST_TURNS and _half_width(differences) <= limit / 3):
            break
        between_turns()
    whole = judge(differences, limit, alpha)
    large = _large_layers(old, new)
    layers = {
        i: judge(
            _differences([s.layers[i] for s in old], [s.layers[i] for s in new]),
            LAYER_LIMIT,
            alpha / max(1, len(large)),
        )
        for i in large
    }
    reason = ""
    if whole.word == "cannot tell":
        width = 100 * math.log(whole.high / whole.low) / 2
        reason = f"after {turns} turns the ratio is known to ±{width:.1f} % only, and the limit is {100 * limit:g} %"
    return _result(whole, layers, (old, new), counted=False, reason=reason)


def order_of(turn: int) -> tuple[Which, ...]:
    """The four starts of a turn, which is counted from 0."""
    return _ORDERS[turn % 2]


def compare_counts(measure: Measure) -> Comparison:
    """Compare by counts of instructions, which are exact: one start each."""
    old, new = [measure("old")], [measure("new")]
    layers = {i: _exact(old[0].layers[i], new[0].layers[i]) for i in _large_layers(old, new)}
    return _result(_exact(old[0].cost, new[0].cost), layers, (old, new), counted=True)


def in_turns(
    start: Callable[[int], Start],
    number: int,
    limit: float,
    between_turns: Callable[[], None],
    *,
    counted: bool,
    asked: int | None = None,
) -> list[Start]:
    """Start `number` programs in turns, forth and back, and return the medians of each.

    Ends as `compare` does, once the interval of each program's ratio to the first one is narrow enough, among the first
    `asked` programs (default: all).
    """
    found: list[list[Start]] = [[] for _ in range(number)]
    if counted:
        return [start(which) for which in range(number)]
    while True:
        for which in (*range(number), *reversed(range(number))):
            found[which].append(start(which))
        turns = len(found[0]) // 2
        costs = [[one.cost for one in own] for own in found]
        if turns >= MOST_TURNS or (
            turns >= LEAST_TURNS
            and all(_half_width(_differences(costs[0], other)) <= limit / 3 for other in costs[1:asked])
        ):
            break
        between_turns()
    return [Start(float(np.median(own)), _medians(runs)) for own, runs in zip(costs, found, strict=True)]


def judge(differences: np.ndarray, limit: float, alpha: float) -> JudgedRatio:
    """Judge differences of logarithms, one of each turn (Student's t)."""
    from scipy import special

    mean = float(np.mean(differences))
    half = _half_width(differences)
    p = float(2 * special.stdtr(len(differences) - 1, -abs(mean) / _error(differences)))
    bound = math.log1p(limit)
    word: Word = "cannot tell"
    if p < alpha and abs(mean) > bound:
        word = "slower" if mean > 0 else "faster"
    elif abs(mean) + half < bound:
        word = "same"
    return JudgedRatio(word, math.exp(mean), math.exp(mean - half), math.exp(mean + half), p)


def _half_width(differences: np.ndarray) -> float:
    """Half of the width of the mean's interval."""
    return quantile(len(differences) - 1) * _error(differences)


def _error(differences: np.ndarray) -> float:
    return max(float(differences.std(ddof=1)) / math.sqrt(len(differences)), LEAST_ERROR)


@lru_cache(maxsize=MOST_TURNS)
def quantile(freedom: int) -> float:
    """Half of the width of an interval with `COVERAGE`, in errors of a mean with that many degrees of freedom."""
    from scipy import special

    return float(special.stdtrit(freedom, (1 + COVERAGE) / 2))


def _exact(old: float, new: float) -> JudgedRatio:
    ratio = new / old if old else 1.0 if not new else math.inf
    word: Word = "slower" if ratio > 1 + COUNT_LIMIT else "faster" if ratio < 1 - COUNT_LIMIT else "same"
    return JudgedRatio(word, ratio, ratio, ratio, 0.0)


def _differences(old: Sequence[float], new: Sequence[float]) -> np.ndarray:
    """Of each turn, the mean logarithm of its new starts less that of its old ones."""
    logs = np.log(np.maximum(np.array([old, new], dtype=float), 1e-3)).reshape(2, -1, 2).mean(axis=2)
    return np.asarray(logs[1] - logs[0])


def _large_layers(old: Sequence[Start], new: Sequence[Start]) -> list[int]:
    """Indices of the layers that take a tenth of either package or more; none where their numbers differ."""
    before, after = _medians(old), _medians(new)
    if len(before) != len(after):
        return []
    return [
        i for i in range(len(after)) if before[i] >= LAYER_SHARE * sum(before) or after[i] >= LAYER_SHARE * sum(after)
    ]


def _medians(starts: Sequence[Start]) -> tuple[float, ...]:
    return tuple(float(np.median(column)) for column in zip(*(s.layers for s in starts), strict=True))


def _result(
    whole: JudgedRatio,
    layers: dict[int, JudgedRatio],
    starts: tuple[list[Start], list[Start]],
    *,
    counted: bool,
    reason: str = "",
) -> Comparison:
    old, new = starts
    costs = {"old": [s.cost for s in old], "new": [s.cost for s in new]}
    before, after = (float(np.median(costs[which])) for which in ("old", "new"))
    turns = max(1, len(old) // 2)
    return Comparison(whole, layers, turns, counted, before, after, reason, _medians(old), _medians(new), costs)
