"""How often the nightly gate is wrong: python -m benchmarks.nightly.gate_errors [--nights 1000] [--seed 1] [--check].

A/A nights of 60 cells, in which nothing has changed, count false alarms and cells that the gate cannot tell; then cells
with a known change count what is found. The noise is that of `simulator`; a start's layers take fixed shares of its
cost, each with noise of its own. Beside the gate, on data of the same simulator, stand three usual rules, which compare
one value a night: a threshold of 5 % against the night before, a z-score against the last 14 nights, a t-test of the
last 5 nights against the 14 before. With --check the exit status is 1 where the gate misses its promises. The last line
is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from scipy import stats

from benchmarks.nightly.simulator import ORDINARY, ROUGH, Noise, SimulatedCell
from edgetune.farm import gate
from edgetune.verify.starts import Start

CELLS = 60
LIMIT = 0.02
SHARES = np.array([0.5, 0.28, 0.12, 0.1])
LAYER_NOISE = 0.01
_STARTS, _BEFORE, _LAST = 4, 14, 5
_ALARMS = ("slower", "faster")


class LayeredCell:
    """A simulated cell whose starts have layers; the last one, a tenth of the whole, is slower by `layer`."""

    def __init__(self, generator: np.random.Generator, noise: Noise, ratio: float, layer: float) -> None:
        self._random = generator
        self._cell = SimulatedCell(generator, noise, ratio)
        self._layer = layer

    def __call__(self, which: str) -> Start:
        """One start."""
        layers = self._cell(which) * SHARES * np.exp(self._random.normal(0.0, LAYER_NOISE, len(SHARES)))
        if which == "new":
            layers[-1] *= self._layer
        return Start(float(layers.sum()), tuple(map(float, layers)))


def verdict(noise: Noise, ratio: float, layer: float, seed: tuple[int, ...]) -> str:
    """The gate's word on one cell; "layer" where only a layer is slower or faster."""
    found = gate.compare(LayeredCell(np.random.default_rng(seed), noise, ratio, layer), LIMIT, CELLS)
    changed = any(each.word in _ALARMS for each in found.layers.values())
    return "layer" if changed and found.whole.word not in _ALARMS else found.whole.word


def night_value(noise: Noise, ratio: float, random: np.random.Generator) -> float:
    """What the usual rules have of a night: the median of its starts, as a logarithm."""
    cell = SimulatedCell(random, noise, ratio)
    return float(np.median([np.log(cell("new")) for _ in range(_STARTS)]))


def threshold(values: np.ndarray) -> bool:
    """Whether the last night is 5 % slower than the one before."""
    return bool(values[-1] - values[-2] > np.log(1.05))


def z_score(values: np.ndarray) -> bool:
    """Whether the last night is beyond three standard deviations of the nights before."""
    before = values[-1 - _BEFORE : -1]
    return bool((values[-1] - before.mean()) / before.std(ddof=1) > 3)


def t_test(values: np.ndarray) -> bool:
    """Whether the last nights are slower than those before, with p below 1 %."""
    return bool(stats.ttest_ind(values[-_LAST:], values[:-_LAST], alternative="greater", equal_var=False).pvalue < 0.01)


def usual_rules(cells: int, ratio: float, noise: Noise, seed: int) -> dict[str, float]:
    """Share of cells with an alarm by each usual rule, where the last night is slower by `ratio`."""
    rules: dict[str, Callable[[np.ndarray], bool]] = {
        "5 % threshold": threshold,
        "z-score": z_score,
        "t-test over nights": t_test,
    }
    alarms: Counter[str] = Counter()
    for cell in range(cells):
        random = np.random.default_rng((seed, 9, cell))
        nights = [night_value(noise, 1.0, random) for _ in range(_BEFORE + _LAST - 1)]
        values = np.array([*nights, night_value(noise, ratio, random)])
        alarms.update(name for name, rule in rules.items() if rule(values))
    return {name: alarms[name] / cells for name in rules}


def counted(noise: Noise, ratio: float, layer: float, seeds: Iterable[tuple[int, ...]]) -> list[str]:
    """Verdicts of many cells, on all cores that this process may use."""
    with multiprocessing.Pool() as pool:
        return pool.map(partial(verdict, noise, ratio, layer), list(seeds), chunksize=CELLS)


def main() -> None:
    """Measure, print a table, and check."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nights", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--changed", type=int, default=1000, help="cells with a known change")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    result: dict[str, object] = {"nights": given.nights, "seed": given.seed, "cells": CELLS}
    faults = []
    for name, noise, most in (("ordinary", ORDINARY, 0.15), ("steps and heavy tails", ROUGH, 0.40)):
        seeds = [(given.seed, night, cell) for night in range(given.nights) for cell in range(CELLS)]
        words = counted(noise, 1.0, 1.0, seeds)
        alarms = {seed[1] for seed, word in zip(seeds, words, strict=True) if word in (*_ALARMS, "layer")}
        untold = words.count("cannot tell") / len(words)
        result[name] = {"nights with a false alarm": len(alarms), "cannot tell": round(untold, 4)}
        print(f"{name}: {len(alarms)} of {given.nights} nights with a false alarm; cannot tell {100 * untold:.1f} %")
        if len(alarms) > given.nights / 100 or untold > most:
            faults.append(f"{name}: too many false alarms or too often 'cannot tell'")
    for name, ratio, layer, least in (
        ("+3 %", 1.03, 1.0, 0.95),
        ("+2 %", 1.02, 1.0, 0.0),
        ("layer +10 %", 1.0, 1.1, 0.9),
    ):
        words = counted(ORDINARY, ratio, layer, [(given.seed, 7, cell) for cell in range(given.changed)])
        wanted = ("layer", "slower") if layer > 1 else ("slower",)
        share = sum(word in wanted for word in words) / len(words)
        result[f"found {name}"] = share
        print(f"{name}: found {100 * share:.1f} %")
        if share < least:
            faults.append(f"{name} is found too rarely")
    for ratio in (1.0, 1.03):
        shares = usual_rules(given.changed, ratio, ORDINARY, given.seed)
        result[f"usual rules at {ratio}"] = shares
        print(f"usual rules, ratio {ratio}: {shares}")
    print(json.dumps(result))
    if faults and given.check:
        sys.exit("; ".join(faults))


if __name__ == "__main__":
    main()
