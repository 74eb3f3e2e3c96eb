"""Starts of many cells at once: the noise of `simulator`, as arrays.

Every number that `SimulatedCell` draws is a field of `Draws`, so the same draws give the same starts there and here
(`tests/benchmarks/test_nightly_gate.py`). The layers of a start take fixed shares of its cost, each with noise of its
own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.nightly.simulator import Noise, recorded

SHARES = np.array([0.5, 0.28, 0.12, 0.1])
LAYER_NOISE = 0.01
TAIL_SHAPE = 2.5


@dataclass(frozen=True)
class Draws:
    """Random numbers of n cells with m starts each.

    (n,): `level`, standard normal, and `in_mode` and `drift` in [0, 1), of the cell. (n, m): `steps`, `modes` and
    `tails` decide whether a start has one, `heights` in [0, 1) and `lengths` (Pareto) how large it is, `chosen` is the
    index of a recorded start. (n, m, layers): `layers`, standard normal.
    """

    level: np.ndarray
    in_mode: np.ndarray
    drift: np.ndarray
    steps: np.ndarray
    heights: np.ndarray
    chosen: np.ndarray
    modes: np.ndarray
    tails: np.ndarray
    lengths: np.ndarray
    layers: np.ndarray


def draw(random: np.random.Generator, cells: int, starts: int) -> Draws:
    """Draw for `cells` cells with `starts` starts each."""
    own, each = (cells,), (cells, starts)
    return Draws(
        level=random.standard_normal(own),
        in_mode=random.random(own),
        drift=random.random(own),
        steps=random.random(each),
        heights=random.random(each),
        chosen=random.integers(0, len(recorded()), each),
        modes=random.random(each),
        tails=random.random(each),
        lengths=random.pareto(TAIL_SHAPE, each),
        layers=random.standard_normal((*each, len(SHARES))),
    )


def costs(draws: Draws, noise: Noise) -> np.ndarray:
    """Logarithms of the costs of all starts in nanoseconds, (n, m), in the order in which the board runs them."""
    steps = np.where(draws.steps < noise.step_share, noise.step * (2 * draws.heights - 1), 0.0)
    drift = (noise.drift * (2 * draws.drift - 1))[:, None] * np.arange(1, draws.steps.shape[1] + 1)
    level = np.log(1e6) + (noise.between_nights * draws.level)[:, None] + drift + np.cumsum(steps, axis=1)
    slow = np.where(draws.modes < (noise.mode_share * draws.in_mode)[:, None], np.log1p(noise.mode), 0.0)
    tails = np.where(draws.tails < noise.tail_share, noise.tail * draws.lengths, 0.0)
    return np.asarray(level + recorded()[draws.chosen] + slow + tails)


def layers(draws: Draws, noise: Noise, new: np.ndarray, ratio: float, layer: float) -> np.ndarray:
    """Costs of the layers of all starts in nanoseconds, (n, m, layers); a start costs their sum.

    `new` says of each start, (m,), whether it is one of the new package, which is slower by `ratio`, and whose last
    layer, a tenth of the whole, is slower by `layer`.
    """
    whole = np.exp(costs(draws, noise) + np.where(new, np.log(ratio), 0.0))
    found = whole[:, :, None] * SHARES * np.exp(LAYER_NOISE * draws.layers)
    found[:, new, -1] *= layer
    return np.asarray(found)
