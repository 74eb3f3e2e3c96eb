"""Steps of a reduction without anything to add are skipped, and sums over triangles stay what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.codegen.emit import emit_kernel
from edgetune.codegen.packing import split_packing
from edgetune.rewrites.normal_form import normal_form
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.default_algorithms import form_for_odd_extents
from edgetune.schedule.default_schedule import default_trace
from tests.examples import costly
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func, random_arguments, run, run_plain

COMPARISONS = {
    "up to": lambda i, j: j <= i,
    "before": lambda i, j: j < i,
    "from": lambda i, j: j >= i,
    "after": lambda i, j: j > i,
    "every second": lambda i, j: 2 * j <= i,
    "equal": lambda i, j: j == i,
    "between": lambda i, j: tirx.all(j <= i + 5, i - j <= 9),
    "near": lambda i, j: tirx.all(j < i, j >= i - 3, i >= 2),
}


def triangle(kind: str, rows: int, length: int) -> Any:
    """Sums of the elements of a row whose place compares with that of the result."""
    x = te.placeholder((rows, length), name="x")
    j = te.reduce_axis((0, length), "j")
    zero = tirx.const(0.0, "float32")

    def term(r: Any, i: Any) -> Any:
        return te.sum(tirx.if_then_else(COMPARISONS[kind](i, j), x[r, j], zero), axis=j)

    return normal_form(prim_func([x], te.compute((rows, length), term, "sums")), [])


def running(kind: str, shape: tuple[int, int], terms: int, axis: int, how: str) -> Any:
    """Sums, sums of products, maxima or minima of the elements along an axis whose place compares with the result's.

    Some results have no place that any of fewer `terms` reaches.
    """
    from_shape = tuple(terms if number == axis else extent for number, extent in enumerate(shape))
    x, y = te.placeholder(from_shape, name="x"), te.placeholder((terms, 1), name="y")
    k = te.reduce_axis((0, terms), "k")
    constant = {"largest": -0.25, "smallest": 0.25}.get(how, 0.0)
    summed = {"largest": te.max, "smallest": te.min}.get(how, te.sum)

    def value(*place: Any) -> Any:
        seen = [k if number == axis else one for number, one in enumerate(place)]
        term = tirx.if_then_else(COMPARISONS[kind](place[axis], k), x(*seen), tirx.const(constant, "float32"))
        return summed(term * y[k, 0] if how == "products" else term, axis=k)

    inputs = [x, y] if how == "products" else [x]
    return normal_form(prim_func(inputs, te.compute(shape, value, "running")), [])


@pytest.mark.long
@costly(20)
@given(
    st.sampled_from(sorted(COMPARISONS)),
    st.tuples(st.sampled_from([1, 3, 8, 16]), st.sampled_from([4, 16, 24, 33])),
    st.sampled_from([4, 12, 24, 40]),
    st.integers(0, 1),
    st.sampled_from(["sum", "products", "largest", "smallest"]),
    st.sampled_from([board(512, 32), board(128, 32)]),
    st.integers(1, 10_000),
)
def test_running_values_mean_what_plain_loops_mean(
    kind: str, shape: tuple[int, int], terms: int, axis: int, how: str, target: Any, seed: int
) -> None:
    """An element of a maximum that leaves out a term sees the constant, and one that leaves out none does not."""
    function = running(kind, shape, terms, axis, how)
    assert check(function, target, seed) > 0
    form = form_for_odd_extents(function, FORMS, target)
    if form is not None:
        assert check(form.function, target, seed) > 0


@pytest.mark.long
@costly(10)
@given(
    st.sampled_from(sorted(COMPARISONS)),
    st.sampled_from([1, 3, 8]),
    st.sampled_from([4, 16, 24, 32]),
    st.sampled_from([board(512, 32), board(128, 32)]),
    st.integers(1, 10_000),
)
def test_every_schedule_means_what_plain_loops_mean(kind: str, rows: int, length: int, target: Any, seed: int) -> None:
    assert check(triangle(kind, rows, length), target, seed) > 0


@pytest.mark.parametrize(("kind", "skips"), [("up to", True), ("after", True), ("between", True), ("equal", False)])
def test_steps_without_lanes_are_skipped(kind: str, skips: bool) -> None:
    function, target = triangle(kind, 8, 64), board(256, 16)
    module, _ = split_packing(replay(function, default_trace(function, target, 1 << 20)[0]))
    text = emit_kernel(module, target, "k").definition
    assert ("if (" in text) == skips
    assert "mask" in text


@pytest.mark.parametrize("how", ["sum", "largest"])
def test_a_condition_inside_another_sum_keeps_both_of_its_sides(how: str) -> None:
    """TVM hoists the condition, which does not change along the outer axis of the sum."""
    x = te.placeholder((5, 32, 8, 2), name="x")
    d, e = te.reduce_axis((0, 8), "d"), te.reduce_axis((0, 2), "e")
    other = tirx.const(0.0 if how == "sum" else -0.25, "float32")

    def value(i: Any, j: Any) -> Any:
        return (te.sum if how == "sum" else te.max)(tirx.if_then_else(e < i, x[i, j, d, e], other), axis=[d, e])

    function = normal_form(prim_func([x], te.compute((5, 32), value, "y")), [])
    assert check(function, board(128, 32), 1) > 0
    arrays = random_arguments(function)
    result = run(replay(function, default_trace(function, board(128, 32), 1 << 20)[0]), arrays)
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5, atol=1e-5)
