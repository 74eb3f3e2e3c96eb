"""The rule of `edgetune.farm.gate` over arrays of many cells.

`tests/benchmarks/test_nightly_gate.py` shows that it says of the same starts what `gate.compare` says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from edgetune.farm import gate

STARTS = 4 * gate.MOST_TURNS
_ALARMS = ("slower", "faster")


def new_starts() -> np.ndarray:
    """Which of the starts of one cell are those of the new package, (160,) of bool, in their order."""
    orders = [gate.order_of(turn) for turn in range(gate.MOST_TURNS)]
    return np.array([which == "new" for order in orders for which in order])


@dataclass(frozen=True)
class Words:
    """What the gate says of n cells: of the whole, (n,), and of each layer, (n, layers), "" of small ones."""

    whole: np.ndarray
    layers: np.ndarray
    turns: np.ndarray

    @property
    def words(self) -> np.ndarray:
        """The whole's word; "layer" where only a layer is slower or faster."""
        only = np.isin(self.layers, _ALARMS).any(axis=1) & ~np.isin(self.whole, _ALARMS)
        return np.where(only, "layer", self.whole)


def compare(layers: np.ndarray, limit: float, cells: int) -> Words:
    """Judge n cells by the costs of the layers of their starts, (n, 160, layers), as `gate.compare` judges one.

    A cell reads its starts only as far as its turns go. `cells` are those of a whole night.
    """
    alpha = gate.FALSE_DISCOVERY_RATE / max(1, cells)
    new = new_starts()
    whole = _differences(layers.sum(axis=2), new)
    turns = _turns(whole, limit)
    words = np.empty(len(layers), dtype="U11")
    of_layers = np.full((len(layers), layers.shape[2]), "", dtype="U11")
    for number in np.unique(turns):
        rows = np.flatnonzero(turns == number)
        seen = layers[rows, : 4 * number]
        words[rows] = _judge(whole[rows, :number], limit, alpha)
        medians = [np.median(seen[:, which], axis=1) for which in (~new[: 4 * number], new[: 4 * number])]
        large = np.any([own >= gate.LAYER_SHARE * own.sum(axis=1, keepdims=True) for own in medians], axis=0)
        shares = alpha / np.maximum(1, large.sum(axis=1))
        for index in range(layers.shape[2]):
            found = _judge(_differences(seen[:, :, index], new[: 4 * number]), gate.LAYER_LIMIT, shares)
            of_layers[rows, index] = np.where(large[:, index], found, "")
    return Words(words, of_layers, turns)


def _differences(costs: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Of each turn, the mean logarithm of its new starts less that of its old ones, (n, turns)."""
    logs = np.log(costs)
    means = [logs[:, which].reshape(len(costs), -1, 2).mean(axis=2) for which in (~new, new)]
    return np.asarray(means[1] - means[0])


def _turns(differences: np.ndarray, limit: float) -> np.ndarray:
    """After how many turns the gate ends, (n,)."""
    turns = np.full(len(differences), gate.MOST_TURNS)
    waiting = np.arange(len(differences))
    for number in range(gate.LEAST_TURNS, gate.MOST_TURNS):
        ends = _half_width(differences[waiting, :number]) <= limit / 3
        turns[waiting[ends]] = number
        waiting = waiting[~ends]
    return turns


def _judge(differences: np.ndarray, limit: float, alpha: float | np.ndarray) -> np.ndarray:
    """The word on each row of differences, (n,), at the significance `alpha` of all or each."""
    mean = differences.mean(axis=1)
    p = 2 * stats.t.sf(np.abs(mean) / _error(differences), differences.shape[1] - 1)
    bound = np.log1p(limit)
    same = np.abs(mean) + _half_width(differences) < bound
    alarm = (p < alpha) & (np.abs(mean) > bound)
    return np.asarray(np.select([alarm & (mean > 0), alarm, same], ["slower", "faster", "same"], default="cannot tell"))


def _half_width(differences: np.ndarray) -> np.ndarray:
    """Half of the width of each mean's interval, (n,)."""
    return np.asarray(gate.quantile(differences.shape[1] - 1) * _error(differences))


def _error(differences: np.ndarray) -> np.ndarray:
    number = differences.shape[1]
    return np.asarray(np.maximum(differences.std(axis=1, ddof=1) / np.sqrt(number), gate.LEAST_ERROR))
