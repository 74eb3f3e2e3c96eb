"""Running sums, maxima and minima take windows instead of a triangle, and stay what their definition says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.frontend.tensor_expression.kernel import kernel_from_te
from edgetune.graph.running_reductions import shorten_running_reductions
from edgetune.rewrites.normal_form import normal_form
from tests.examples import costly
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func, random_arguments, run_plain

COMPARISONS = {
    "up to": lambda i, k: k <= i,
    "before": lambda i, k: k < i,
    "from": lambda i, k: i <= k,
    "after": lambda i, k: k > i,
    "up to the next": lambda i, k: k < i + 2,
    "from the last": lambda i, k: k + 1 >= i,
}
REDUCED = {"sum": te.sum, "largest": te.max, "smallest": te.min}


def expression(kind: str, shape: tuple[int, ...], how: str, constant: float) -> list[te.Tensor]:
    x = te.placeholder(shape, name="x")
    k = te.reduce_axis((0, shape[-1]), "k")

    def value(*place: Any) -> Any:
        term = tirx.if_then_else(COMPARISONS[kind](place[-1], k), x(*place[:-1], k), tirx.const(constant, "float32"))
        return REDUCED[how](term, axis=k)

    return [x, te.compute(shape, value, "running")]


def down(kind: str, shape: tuple[int, ...], how: str, constant: float = 0.0) -> Any:
    """A running reduction along the axis before the last one."""
    x, k = te.placeholder(shape, name="x"), te.reduce_axis((0, shape[-2]), "k")

    def value(*place: Any) -> Any:
        *outer, i, j = place
        term = tirx.if_then_else(COMPARISONS[kind](i, k), x(*outer, k, j), tirx.const(constant, "float32"))
        return REDUCED[how](term, axis=k)

    return normal_form(prim_func([x], te.compute(shape, value, "running")), [])


def running(kind: str, shape: tuple[int, ...], how: str, constant: float = 0.0) -> Any:
    x, y = expression(kind, shape, how, constant)
    return normal_form(prim_func([x], y), [])


def stages(function: Any) -> int:
    return len(getattr(function.body.block.body, "seq", [None]))


def assert_same_in_windows(function: Any, how: str, axis: int, seed: int) -> None:
    """Windows serve `function`, whose values run along `axis`, and its results stay the same."""
    shortened = shorten_running_reductions(function)
    assert stages(shortened) >= 3
    arrays = random_arguments(function, seed)
    wanted, found = run_plain(function, arrays), run_plain(shortened, arrays)
    if how != "sum":
        np.testing.assert_array_equal(found, wanted)
        return
    terms = np.abs(arrays[0]).sum(axis, keepdims=True)
    assert np.max(np.abs(found - wanted) / terms) < 1e-6


@pytest.mark.long
@costly(20)
@given(
    st.sampled_from(sorted(COMPARISONS)),
    st.integers(48, 290),
    st.sampled_from(sorted(REDUCED)),
    st.sampled_from([-30.0, -0.25, 0.25, 30.0, float("inf"), -float("inf")]),
)
def test_windows_mean_what_the_triangle_means(kind: str, length: int, how: str, constant: float) -> None:
    """An extreme that leaves out a term sees the constant, and one that leaves out none does not."""
    function = running(kind, (30, length), how, 0.0 if how == "sum" else constant)
    assert_same_in_windows(function, how, -1, length)


@pytest.mark.long
@costly(15)
@given(
    st.sampled_from(sorted(COMPARISONS)),
    st.integers(48, 150),
    st.sampled_from([(), (3,)]),
    st.sampled_from(sorted(REDUCED)),
    st.sampled_from([-0.25, 30.0, -float("inf")]),
)
def test_rows_run_down_as_elements_run_along(
    kind: str, length: int, outer: tuple[int, ...], how: str, constant: float
) -> None:
    """A sum down 64 rows took 64 steps with a mask; with windows it takes 17."""
    function = down(kind, (*outer, length, 31), how, 0.0 if how == "sum" else constant)
    assert_same_in_windows(function, how, -2, length)


@pytest.mark.long
@costly(2)
@given(st.sampled_from(sorted(COMPARISONS)), st.sampled_from([64, 77]), st.sampled_from(sorted(REDUCED)))
def test_schedules_of_rows_mean_the_same(kind: str, length: int, how: str) -> None:
    function = shorten_running_reductions(down(kind, (length, 40), how))
    assert check(function, board(256, 16), length) > 0


@pytest.mark.long
@costly(6)
@given(st.sampled_from(sorted(COMPARISONS)), st.sampled_from([64, 77, 128]), st.sampled_from(sorted(REDUCED)))
def test_their_schedules_mean_the_same(kind: str, length: int, how: str) -> None:
    function = shorten_running_reductions(running(kind, (20, length), how, 0.0))
    assert check(function, board(256, 16), length) > 0


def test_an_infinite_term_stays_where_it_is() -> None:
    """Sums before an infinite or undefined term are finite: no window reaches it."""
    function = running("up to", (30, 100), "sum")
    arrays = random_arguments(function)
    arrays[0][:, 60], arrays[0][:, 80] = np.inf, np.nan
    found = run_plain(shorten_running_reductions(function), arrays)
    assert np.isfinite(found[:, :60]).all()
    assert np.isinf(found[:, 60:80]).all()
    assert np.isnan(found[:, 80:]).all()


def test_kernels_of_expressions_have_windows() -> None:
    """200 elements take 44 steps each instead of 100."""
    kernel = kernel_from_te(expression("up to", (64, 200), "largest", 0.0))
    assert stages(kernel.function) == 4


@pytest.mark.parametrize(
    ("kind", "shape", "how", "constant"),
    [
        ("up to", (30, 40), "sum", 0.0),
        ("up to", (2, 100), "sum", 0.0),
        ("up to", (30, 100), "sum", 1.0),
    ],
    ids=["short", "few", "a sum of constants"],
)
def test_other_triangles_stay(kind: str, shape: tuple[int, int], how: str, constant: float) -> None:
    function = running(kind, shape, how, constant)
    assert stages(shorten_running_reductions(function)) == 1
