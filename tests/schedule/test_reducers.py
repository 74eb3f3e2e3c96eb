"""Maxima from minus infinity have schedules with lanes, as those from finite numbers, and still begin at infinity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import te

from edgetune.frontend.onnx.converters.reductions import reduce_max, reduce_min
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_guess
from edgetune.schedule.sketches.reducers import with_finite_starts, with_infinite_starts
from edgetune.schedule.sketches.spaces import module_of
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func, random_arguments, run

REDUCTIONS = {"largest": (reduce_max, np.max, -np.inf), "least": (reduce_min, np.min, np.inf)}


def rows(kind: str, dtype: str = "float32") -> Any:
    x = te.placeholder((6, 64), dtype, "x")
    return prim_func([x], REDUCTIONS[kind][0](x, [1], keep=False))


@pytest.mark.parametrize("kind", sorted(REDUCTIONS))
def test_lanes_run_along_the_terms(kind: str) -> None:
    """TVM does not divide them: they had plain loops, which took seven times as long."""
    function = rows(kind)
    guess = default_guess(function, board(256, 16), 1 << 16)
    module = replay(function, guess.trace)
    assert "RFactor" in guess.trace
    arrays = random_arguments(function)
    arrays[0][1] = start = REDUCTIONS[kind][2]
    arrays[0][2, 5] = -start
    found = run(module, arrays)
    np.testing.assert_array_equal(found, REDUCTIONS[kind][1](arrays[0], axis=1))
    assert found[1] == start


@pytest.mark.parametrize("kind", sorted(REDUCTIONS))
def test_candidates_compute_the_same(kind: str) -> None:
    assert check(rows(kind), board(256, 16), 1) > 0


def test_other_functions_are_not_changed() -> None:
    x, k = te.placeholder((6, 64), name="x"), te.reduce_axis((0, 64), "k")
    finite = prim_func([x], te.compute((6,), lambda i: te.max(x[i, k], axis=k), "finite"))
    assert with_finite_starts(finite).same_as(finite)
    module = module_of(finite)
    assert with_infinite_starts(module).same_as(module)


def test_nothing_is_left_of_the_change() -> None:
    module = with_infinite_starts(module_of(rows("largest")))
    text = module["main"].script()
    assert "infinite" not in text
    assert "-inf" in text
    assert "3402823" not in text
