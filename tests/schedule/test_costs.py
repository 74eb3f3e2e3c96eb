"""Costs of a target reach the formulas: what something takes on a core decides between kernels and schedules."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm import te

from edgetune.rewrites.parts import divisions_of
from edgetune.schedule.default_algorithms import predicted_cycles
from edgetune.schedule.default_schedule import default_trace
from edgetune.target.core import WIDEST
from edgetune.target.target import Target
from edgetune.tvm_types import PrimFunc
from tests.sketch_samples import board, prim_func


def products(m: int = 96, n: int = 96, k: int = 96) -> PrimFunc:
    """A product with the transpose of a matrix, whose results pass through a function."""
    x, y = te.placeholder((m, k), name="x"), te.placeholder((n, k), name="y")
    r = te.reduce_axis((0, k), "r")
    total = te.compute((m, n), lambda i, j: te.sum(x[i, r] * y[j, r], axis=r), "total")
    return prim_func([x, y], te.compute((m, n), lambda i, j: te.exp(total[i, j]), "powers"))


@pytest.mark.parametrize(
    ("costs", "kernels"), [({}, 2), ({"kernel_call": 1e6}, 1), ({"move_turned": 90.0, "move_one_by_one": 90.0}, 1)]
)
def test_an_expression_is_divided_by_the_costs_of_a_core(costs: dict[str, float], kernels: int) -> None:
    """A copy of y in another order is a kernel of its own where it takes less than it saves."""
    function = products()
    core = replace(WIDEST, costs=WIDEST.costs.model_copy(update=costs))
    assert len(divisions_of(function, [function.params[-1]], [], core)[0]) == kernels


def costing(target: Target, **costs: float) -> Target:
    return target.model_copy(update={"costs": target.costs.model_copy(update=costs)})


def test_predicted_cycles_have_the_functions_of_a_target() -> None:
    function, target = products(), board(256, 16)
    more = predicted_cycles(function, costing(target, function=40.0)) - predicted_cycles(function, target)
    assert more == (40 - target.costs.function) * 96 * 96 / 8


def test_the_latency_of_a_target_decides_how_many_sums_a_result_has() -> None:
    x, y = te.placeholder((1024,), name="x"), te.placeholder((1024,), name="y")
    r = te.reduce_axis((0, 1024), "r")
    function = prim_func([x, y], te.compute((1,), lambda i: te.sum(x[i + r] * y[i + r], axis=r), "product"))
    targets = [costing(board(512, 32), operations_in_flight=n) for n in (1, 16)]
    few, many = (default_trace(function, target)[0] for target in targets)
    assert few != many
    assert predicted_cycles(function, targets[0]) < predicted_cycles(function, targets[1])
