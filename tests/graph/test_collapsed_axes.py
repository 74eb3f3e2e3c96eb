"""Adjacent axes that all stages of a kernel walk as one become one; the result stays the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx, topi

from edgetune.graph.collapsed_axes import collapse_axes
from edgetune.graph.kernels import scratch_of_columns
from tests.examples import costly
from tests.sketch_samples import prim_func, random_arguments, run_plain

SHAPE = (2, 3, 5, 7)
_K = te.reduce_axis((0, 3), "k")


def of(operator: Callable[[te.Tensor], te.Tensor], shape: tuple[int, ...] = SHAPE) -> Any:
    """The kernel of an operator on one tensor."""
    x = te.placeholder(shape, name="x")
    return prim_func([x], operator(x))


def normalised(x: te.Tensor, axes: list[int]) -> te.Tensor:
    """Each element less the mean over `axes`."""
    size = int(np.prod([int(x.shape[axis]) for axis in axes]))
    return topi.subtract(x, topi.divide(topi.sum(x, axes, keepdims=True), float(size)))


def windowed(x: te.Tensor) -> te.Tensor:
    """Sums of windows of three elements along the last axis, which begin before the first one."""
    k = te.reduce_axis((0, 3), "k")

    def term(n: Any, c: Any, h: Any, w: Any) -> Any:
        inside = tirx.all(w + k >= 1, w + k <= 7)
        return te.sum(tirx.if_then_else(inside, x[n, c, h, w + k - 1], tirx.const(0.0, "float32")), axis=k)

    return te.compute(SHAPE, term, "windowed")


def shapes(function: Any) -> list[tuple[int, ...]]:
    return [tuple(int(extent) for extent in param.shape) for param in function.params]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (of(lambda x: topi.nn.softmax(x, axis=1)), [(2, 3, 35), (2, 3, 35)]),
        (of(lambda x: topi.nn.softmax(x, axis=0)), [(2, 105), (2, 105)]),
        (of(lambda x: topi.max(x, [2, 3])), [(2, 3, 35), (2, 3)]),
        (of(lambda x: normalised(x, [2, 3])), [(2, 3, 35), (2, 3, 35)]),
        (of(lambda x: normalised(x, [1, 2, 3])), [(2, 105), (2, 105)]),
    ],
    ids=["softmax over channels", "over the first axis", "whole images", "mean of images", "mean of all but one"],
)
def test_axes_that_all_stages_walk_together_are_one(function: Any, expected: list[tuple[int, ...]]) -> None:
    assert shapes(collapse_axes(function, [])) == expected


@pytest.mark.parametrize(
    "function",
    [
        of(topi.nn.relu),
        of(lambda x: topi.nn.softmax(x, axis=0), (1, 3, 5, 7)),
        of(lambda x: topi.nn.softmax(x, axis=3)),
        of(lambda x: topi.sum(x, [1, 3])),
        of(windowed),
        of(lambda x: topi.argmax(x, 1)),
        of(lambda x: topi.transpose(topi.nn.softmax(x, axis=1), [0, 1, 3, 2])),
        of(lambda x: te.compute((2, 5, 4), lambda n, h, w: te.sum(x[n, _K, h, w], axis=_K), "part")),
    ],
    ids=[
        "elementwise",
        "one term",
        "softmax of rows",
        "every other axis",
        "a condition",
        "two results",
        "transposed",
        "a part",
    ],
)
def test_other_axes_stay(function: Any) -> None:
    """A part of the last axis, a condition on it or another order of axes tell both axes apart."""
    assert collapse_axes(function, []).same_as(function)


def test_a_constant_keeps_its_shape() -> None:
    """The array of the program has it."""
    x, scale = te.placeholder(SHAPE, name="x"), te.placeholder((1, 1, 5, 7), name="scale")
    function = prim_func([x, scale], topi.nn.softmax(topi.multiply(x, scale), axis=1))
    assert collapse_axes(function, [1]).same_as(function)


@pytest.mark.long
@costly(20)
@given(
    st.lists(st.integers(1, 6), min_size=2, max_size=4),
    st.sampled_from(["softmax", "sum", "max", "mean"]),
    st.data(),
    st.integers(0, 1000),
)
def test_the_result_is_the_same(shape: list[int], kind: str, data: st.DataObject, seed: int) -> None:
    axes = sorted(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    made: dict[str, Callable[[te.Tensor], te.Tensor]] = {
        "softmax": lambda x: topi.nn.softmax(x, axis=axes[0]),
        "sum": lambda x: topi.sum(x, axes),
        "max": lambda x: topi.max(topi.nn.relu(x), axes, keepdims=True),
        "mean": lambda x: normalised(x, axes),
    }
    function = of(made[kind], tuple(shape))
    collapsed = collapse_axes(function, [])
    arrays = random_arguments(function, seed)
    expected = run_plain(function, arrays)
    flat = [array.reshape(extents) for array, extents in zip(arrays, shapes(collapsed), strict=True)]
    found = run_plain(collapsed, flat)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)


def test_a_block_of_columns_may_use_scratch() -> None:
    """Maxima, powers and sums of 128 columns; where stages have other columns, no block is smaller than the whole."""
    assert scratch_of_columns(of(lambda x: topi.nn.softmax(x, axis=0), (21, 4225))) == 4 * 128 * (1 + 21 + 1)
    assert scratch_of_columns(of(lambda x: topi.nn.softmax(x, axis=0), (4000, 4225))) == 1 << 14
    assert scratch_of_columns(of(lambda x: topi.nn.softmax(x, axis=1), (21, 4225))) == 0
    assert scratch_of_columns(of(topi.nn.relu)) == 0
