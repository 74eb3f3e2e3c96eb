"""Counts by class of a run and of its layers, from the records of a benchmark, and the cycles that they estimate."""

from __future__ import annotations

import pytest

from edgetune.package.counted_run import CountedRun
from edgetune.target.cycles import COUNTERS, CycleCosts
from edgetune.verify.class_counts import ClassCounts, Counts, class_counts


def counts(instructions: int, loads: int = 0) -> Counts:
    return (instructions, loads, *[0] * (len(COUNTERS) - 2))


def records(runs: int, layers: int) -> list[Counts]:
    """As the benchmark makes them: runs of 1000, layers of 100 and more, a clock of 5, and 1 between two of them."""
    of_runs = [counts(1000 + run // 2) if run % 2 == 0 else counts(1) for run in range(2 * runs)]
    of_layers = [[counts(105 + layer, 10), counts(1)] for layer in range(layers)]
    once = [*(one for pair in of_layers for one in pair), counts(5), counts(1)]
    return [*of_runs, *once * runs][:-1]


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("layers", [0, 1, 4])
def test_a_run_and_its_layers_are_told_apart(runs: int, layers: int) -> None:
    found = class_counts(records(runs, layers), runs, layers)
    assert found == ClassCounts(counts(999 + runs), tuple(counts(100 + layer, 10) for layer in range(layers)))


def test_records_of_another_form_give_no_counts() -> None:
    whole = records(1, 2)
    assert class_counts(whole[:-1], 1, 2) is None
    assert class_counts([one[:1] for one in whole], 1, 2) is None
    assert class_counts([], 1, 2) is None


def test_cycles_add_up_by_class() -> None:
    costs = CycleCosts(instructions=0.5, loads=2, vectors=7)
    assert costs.estimate((100, 10, 9, 8, 7, 6, 5, 1)) == 50 + 20 + 7
    assert CycleCosts().estimate((100, 10, 9, 8, 7, 6, 5, 1)) == 100
    found = ClassCounts(counts(10, 1), (counts(4, 1),))
    assert found.estimated("qemu", costs, 100) == CountedRun("qemu", 10, (4,), 7, (4,), 100)
    assert found.estimated("qemu", None, 100) == CountedRun("qemu", 10, (4,), clock_mhz=100)


def test_there_is_a_cost_for_each_class() -> None:
    assert tuple(CycleCosts.model_fields) == COUNTERS
