"""The gate: no alarm between equal packages, true changes found, counts compared exactly."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.nightly.simulator import ORDINARY, ROUGH, Noise, SimulatedCell
from edgetune.farm import gate
from edgetune.verify.starts import Start


def words(noise: Noise, ratio: float, cells: int) -> list[str]:
    found: list[str] = []
    for seed in range(cells):
        cell = SimulatedCell(np.random.default_rng([2, seed]), noise, ratio)
        found.append(gate.compare(lambda which, cell=cell: Start(cell(which), ()), 0.02, 60).word)  # type: ignore[misc]
    return found


@pytest.mark.parametrize(("noise", "undecided"), [(ORDINARY, 0.15), (ROUGH, 0.40)])
def test_equal_packages_raise_no_alarm(noise: Noise, undecided: float) -> None:
    found = words(noise, 1.0, 150)
    assert {"slower", "faster"} & set(found) == set()
    assert found.count("cannot tell") <= undecided * len(found)


@pytest.mark.parametrize(("ratio", "word"), [(1.03, "slower"), (1 / 1.03, "faster")])
def test_a_change_of_three_percent_is_found(ratio: float, word: str) -> None:
    found = words(ORDINARY, ratio, 100)
    assert found.count(word) >= 95


def test_turns_are_symmetric_so_that_drift_cancels() -> None:
    costs = iter(1e6 * 1.001 ** np.arange(1000))
    order: list[str] = []

    def measure(which: str) -> Start:
        order.append(which)
        return Start(float(next(costs)), ())

    found = gate.compare(measure, 0.02, 1)
    assert order[:8] == ["old", "new", "new", "old", "new", "old", "old", "new"]
    assert found.turns == gate.LEAST_TURNS
    assert found.word == "same"
    assert found.whole.ratio == pytest.approx(1.0, abs=1e-9)


def test_a_slower_layer_is_found_though_the_whole_is_the_same() -> None:
    random = np.random.default_rng(3)

    def measure(which: str) -> Start:
        noise = random.normal(1.0, 0.003, 3)
        layers = noise * [100.0, 12.0 if which == "new" else 10.8, 3.0]
        return Start(float(layers.sum()), tuple(layers))

    found = gate.compare(measure, 0.02, 60)
    assert found.whole.word == "same"
    assert {i: layer.word for i, layer in found.layers.items()} == {0: "same", 1: "slower"}
    assert found.word == "slower"


def test_counts_are_compared_after_one_turn_and_to_a_thousandth() -> None:
    for new, word in ((10_000.0, "same"), (10_009.0, "same"), (10_011.0, "slower"), (9_989.0, "faster")):
        found = gate.compare_counts(lambda which, new=new: Start(new if which == "new" else 10_000.0, ()))  # type: ignore[misc]
        assert (found.word, found.turns, found.counted) == (word, 1, True)


def test_programs_in_turns_keep_their_ratios_on_a_board_that_drifts() -> None:
    started: list[int] = []

    def start(which: int) -> Start:
        started.append(which)
        drift = 1 + 0.01 * len(started)
        return Start(drift * (100.0, 110.0, 100.0)[which], (drift * (100.0, 110.0, 100.0)[which],))

    found = gate.in_turns(start, 3, 0.02, lambda: None, counted=False)
    assert started[:6] == [0, 1, 2, 2, 1, 0]
    assert found[1].cost / found[0].cost == pytest.approx(1.1, rel=0.005)
    assert found[2].cost / found[0].cost == pytest.approx(1.0, rel=0.005)
    assert gate.in_turns(start, 2, 0.02, lambda: None, counted=True)[1].layers[0] > 110.0
