"""How often the nightly gate is wrong: python -m benchmarks.nightly.gate_errors [--nights 1000] [--seed 1 2] [--check].

A/A nights of 60 cells, in which nothing has changed, count false alarms and cells that the gate cannot tell; then cells
with a known change count what is found. The noise is that of `simulator`, the rule that of `edgetune.farm.gate`, both
over arrays of many cells. Beside the gate, on data of the same simulator, stand three usual rules, which compare one
value a night: a threshold of 5 % against the night before, a z-score against the last 14 nights, a t-test of the last 5
nights against the 14 before. With --check the exit status is 1 where the gate misses its promises with any of the
seeds. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing.pool import Pool
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.nightly.many_cells import costs, draw, layers
from benchmarks.nightly.simulator import ORDINARY, ROUGH, Noise
from benchmarks.nightly.vectorised_gate import STARTS, compare, new_starts

CELLS = 60
LIMIT = 0.02
_AT_ONCE = 20
"""Nights that are simulated at once, from one stream of random numbers: 80 MB."""
_STARTS, _BEFORE, _LAST = 4, 14, 5
_ALARMS = ("slower", "faster", "layer")
_USUAL = 9


def words(noise: Noise, ratio: float, layer: float, stream: tuple[int, ...], nights: int = _AT_ONCE) -> np.ndarray:
    """The gate's words on the cells of some nights, (nights, cells), drawn from one stream of random numbers.

    "layer" is a cell of which only a layer is slower or faster.
    """
    draws = draw(np.random.default_rng(stream), nights * CELLS, STARTS)
    found = compare(layers(draws, noise, new_starts(), ratio, layer), LIMIT, CELLS)
    return found.words.reshape(nights, CELLS)


def counted(pool: Pool, noise: Noise, changes: tuple[float, float], seed: tuple[int, ...], nights: int) -> np.ndarray:
    """The gate's words on the cells of many nights, (nights, cells), by all processes of the pool.

    `changes` are the ratio of the whole and of the layer.
    """
    streams = [(*seed, number) for number in range(-(-nights // _AT_ONCE))]
    return np.concatenate(pool.map(partial(words, noise, *changes), streams, chunksize=1))[:nights]


def threshold(values: np.ndarray) -> np.ndarray:
    """Whether the last night of each cell is 5 % slower than the one before."""
    return np.asarray(values[:, -1] - values[:, -2] > np.log(1.05))


def z_score(values: np.ndarray) -> np.ndarray:
    """Whether the last night of each cell is beyond three standard deviations of the nights before."""
    before = values[:, -1 - _BEFORE : -1]
    return np.asarray((values[:, -1] - before.mean(axis=1)) / before.std(axis=1, ddof=1) > 3)


def t_test(values: np.ndarray) -> np.ndarray:
    """Whether the last nights of each cell are slower than those before, with p below 1 %."""
    found = stats.ttest_ind(values[:, -_LAST:], values[:, :-_LAST], axis=1, alternative="greater", equal_var=False)
    return np.asarray(found.pvalue < 0.01)


def usual_rules(cells: int, ratio: float, noise: Noise, seed: int) -> dict[str, float]:
    """Share of cells with an alarm by each usual rule, where the last night is slower by `ratio`.

    These rules have of a night the median of its starts, as a logarithm.
    """
    rules: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "5 % threshold": threshold,
        "z-score": z_score,
        "t-test over nights": t_test,
    }
    nights = _BEFORE + _LAST
    draws = draw(np.random.default_rng((seed, _USUAL)), cells * nights, _STARTS)
    values = np.median(costs(draws, noise), axis=1).reshape(cells, nights)
    values[:, -1] += np.log(ratio)
    return {name: round(float(rule(values).mean()), 4) for name, rule in rules.items()}


def errors_of(pool: Pool, seed: int, nights: int, changed: int) -> tuple[dict[str, Any], list[str]]:
    """All figures with one seed, and the promises that are missed; prints them on the way."""
    result: dict[str, Any] = {"seed": seed}
    faults = []
    for kind, (name, noise, most) in enumerate((("ordinary", ORDINARY, 0.15), ("steps and heavy tails", ROUGH, 0.40))):
        found = counted(pool, noise, (1.0, 1.0), (seed, kind), nights)
        alarms = int(np.isin(found, _ALARMS).any(axis=1).sum())
        untold = float((found == "cannot tell").mean())
        result[name] = {"nights with a false alarm": alarms, "cannot tell": round(untold, 4)}
        print(f"{name}: {alarms} of {nights} nights with a false alarm; cannot tell {100 * untold:.1f} %", flush=True)
        if alarms > nights / 100 or untold > most:
            faults.append(f"{name}: too many false alarms or too often 'cannot tell'")
    for kind, (name, ratio, layer, least) in enumerate(
        (("+3 %", 1.03, 1.0, 0.95), ("+2 %", 1.02, 1.0, 0.0), ("layer +10 %", 1.0, 1.1, 0.9)), start=2
    ):
        found = counted(pool, ORDINARY, (ratio, layer), (seed, kind), -(-changed // CELLS)).ravel()[:changed]
        share = float(np.isin(found, ("layer", "slower") if layer > 1 else ("slower",)).mean())
        result[f"found {name}"] = share
        print(f"{name}: found {100 * share:.1f} %", flush=True)
        if share < least:
            faults.append(f"{name} is found too rarely")
    for ratio in (1.0, 1.03):
        shares = usual_rules(changed, ratio, ORDINARY, seed)
        result[f"usual rules at {ratio}"] = shares
        print(f"usual rules, ratio {ratio}: {shares}", flush=True)
    return result, [f"seed {seed}: {fault}" for fault in faults]


def main() -> None:
    """Measure, print a table, and check."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nights", type=int, default=1000)
    parser.add_argument("--seed", type=int, nargs="+", default=[1], help="one or more, each for a run of its own")
    parser.add_argument("--changed", type=int, default=1000, help="cells with a known change")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    results, faults = [], []
    with multiprocessing.Pool() as pool:
        for seed in given.seed:
            result, missed = errors_of(pool, seed, given.nights, given.changed)
            results.append(result)
            faults += missed
    print(json.dumps({"nights": given.nights, "cells": CELLS, "seeds": results}))
    if faults and given.check:
        sys.exit("; ".join(faults))


if __name__ == "__main__":
    main()
