"""The gate over arrays of many cells: the starts of the simulator, and the words of the product's gate on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.nightly.gate_errors import usual_rules, words
from benchmarks.nightly.many_cells import LAYER_NOISE, SHARES, Draws, draw, layers
from benchmarks.nightly.simulator import ORDINARY, ROUGH, Noise, SimulatedCell
from benchmarks.nightly.vectorised_gate import STARTS, compare, new_starts
from edgetune.farm import gate
from edgetune.verify.starts import Start

LIMIT, CELLS = 0.02, 60
QUIET = Noise(mode=0.02)
"""Cells that end after different numbers of turns."""


class Scripted:
    """Gives the numbers of one cell's draws in the order in which `SimulatedCell` asks for them."""

    def __init__(self, draws: Draws, cell: int, noise: Noise) -> None:
        self._draws, self._cell, self._noise = draws, cell, noise
        self._start = -1
        self._asked = 0

    def normal(self, mean: float, deviation: float) -> float:
        return mean + deviation * float(self._draws.level[self._cell])

    def uniform(self, low: float, high: float) -> float:
        own = self._draws
        if self._start >= 0:
            value = own.heights[self._cell, self._start]
        else:
            value = (own.in_mode if low == 0.0 else own.drift)[self._cell]
        return low + (high - low) * float(value)

    def random(self) -> float:
        own = (self._draws.steps, self._draws.modes, self._draws.tails)[self._asked % 3]
        self._start += self._asked % 3 == 0
        self._asked += 1
        return float(own[self._cell, self._start])

    def choice(self, values: np.ndarray) -> float:
        return float(values[self._draws.chosen[self._cell, self._start]])

    def pareto(self, shape: float) -> float:
        assert shape == 2.5
        return float(self._draws.lengths[self._cell, self._start])


def product(draws: Draws, cell: int, noise: Noise, ratio: float, layer: float) -> gate.Comparison:
    """What the product's gate says of one cell, whose starts `SimulatedCell` makes one after the other."""
    generator: Any = Scripted(draws, cell, noise)
    simulated = SimulatedCell(generator, noise, ratio)
    shares = SHARES * np.exp(LAYER_NOISE * draws.layers[cell])
    asked = iter(shares)

    def measure(which: gate.Which) -> Start:
        own = simulated(which) * next(asked)
        own[-1] *= layer if which == "new" else 1.0
        return Start(float(own.sum()), tuple(map(float, own)))

    return gate.compare(measure, LIMIT, CELLS)


@pytest.mark.parametrize(
    ("noise", "ratio", "layer"),
    [
        (ORDINARY, 1.0, 1.0),
        (ROUGH, 1.0, 1.0),
        (QUIET, 1.0, 1.0),
        (ORDINARY, 1.02, 1.0),
        (ROUGH, 0.96, 1.0),
        (ORDINARY, 1.0, 1.1),
    ],
)
def test_arrays_get_the_words_of_the_products_gate_on_the_same_starts(noise: Noise, ratio: float, layer: float) -> None:
    draws = draw(np.random.default_rng((5, int(100 * ratio), int(100 * layer))), 40, STARTS)
    found = compare(layers(draws, noise, new_starts(), ratio, layer), LIMIT, CELLS)
    for cell in range(40):
        expected = product(draws, cell, noise, ratio, layer)
        assert (found.turns[cell], found.whole[cell]) == (expected.turns, expected.whole.word)
        of_layers = {index: word for index, word in enumerate(found.layers[cell]) if word}
        assert of_layers == {index: judged.word for index, judged in expected.layers.items()}
    seen = set(found.words)
    if noise == QUIET:
        assert len(set(found.turns)) > 10
    elif layer > 1.0:
        assert "layer" in seen
    else:
        assert seen >= {"same", "cannot tell"} if ratio == 1.0 else seen & {"slower", "faster"}


def test_another_stream_is_another_night_and_the_same_one_the_same() -> None:
    first, again, other = (words(ROUGH, 1.0, 1.0, (seed, 0, 0), nights=2) for seed in (1, 1, 2))
    assert first.shape == (2, CELLS)
    assert (first == again).all()
    assert (first != other).any()


def test_usual_rules_raise_alarms_between_equal_nights() -> None:
    equal, slower = (usual_rules(2000, ratio, ORDINARY, 1) for ratio in (1.0, 1.03))
    assert 0.05 < equal["5 % threshold"] < 0.15
    assert all(slower[rule] >= share for rule, share in equal.items())
    assert slower["z-score"] < 0.15, "they do not find 3 %"
