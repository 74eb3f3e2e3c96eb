"""Sums that divide the places of their results have axes for quotients and remainders, and mean the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import s_tir, te, tirx

from edgetune.rewrites.divided_axes import with_divided_axes
from edgetune.rewrites.stored_values import statements_in
from edgetune.schedule.sketches.block_analysis import stage_of
from tests.examples import costly
from tests.rewrites.test_copies_for_lanes import made
from tests.sketch_samples import prim_func, random_arguments, run_plain

Element = Callable[..., Any]


def extents(function: Any) -> list[tuple[int, ...]]:
    """The extents of the results of each stage."""
    stages = [stage_of(statement) for statement in statements_in(function)]
    return [stage.spatial_extents for stage in stages if stage is not None]


def summed(shape: tuple[int, ...], depth: int, term: Element, name: str = "y") -> te.Tensor:
    k = te.reduce_axis((0, depth), "k")
    return te.compute(shape, lambda *place: te.sum(term(k, *place), axis=k), name)


def upscaled(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    """A transposed convolution without overlap, channels first."""
    depth, height, width = map(int, x.shape)
    outer, f = int(w.shape[0]), int(w.shape[1])

    def term(k: te.Var, o: te.Var, i: te.Var, j: te.Var) -> Any:
        return x[k, i // f, j // f] * w[o, i % f, j % f, k]

    return summed((outer, height * f, width * f), depth, term)


@pytest.mark.parametrize("f", [2, 3])
def test_a_transposed_convolution_is_a_product(f: int) -> None:
    program, (x, w), found = made(upscaled, (12, 5, 8), (6, f, f, 12))
    wanted = np.einsum("khw,oabk->ohawb", x.astype(np.float64), w).reshape(6, 5 * f, 8 * f)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    tensors = [prim_func([p, q], upscaled(p, q)) for p, q in [placeholders((12, 5, 8), (6, f, f, 12))]]
    assert extents(with_divided_axes(tensors[0], [1])) == [(6, 5, f, 8, f)]
    assert program.outputs[0].shape == (6, 5 * f, 8 * f)


def placeholders(*shapes: tuple[int, ...]) -> list[te.Tensor]:
    return [te.placeholder(shape, name=f"x{number}") for number, shape in enumerate(shapes)]


def test_what_follows_has_the_same_axes() -> None:
    """A bias of the channels stays, a tensor of the results' shape is divided with them."""
    x, w, bias, more = placeholders((12, 5, 8), (6, 2, 2, 12), (6,), (6, 10, 16))
    total = upscaled(x, w)

    def activated(o: te.Var, i: te.Var, j: te.Var) -> Any:
        return tirx.max(total[o, i, j] + bias[o] + more[o, i, j], tirx.const(0.0, "float32"))

    function = prim_func([x, w, bias, more], te.compute((6, 10, 16), activated, "activated"))
    divided = with_divided_axes(function, [])
    assert extents(divided) == [(6, 5, 2, 8, 2)] * 2
    assert [len(param.shape) for param in divided.params] == [3, 4, 1, 5, 5]
    same(function, divided)


def same(function: Any, divided: Any) -> None:
    """Both compute the same of inputs that lie in memory alike."""
    arrays = random_arguments(function)
    shaped = [
        array.reshape([int(extent) for extent in param.shape])
        for array, param in zip(arrays, divided.params, strict=True)
    ]
    wanted, found = run_plain(function, arrays), run_plain(divided, shaped)
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5)


X, W = placeholders((12, 8), (2, 12))


def of(term: Element, later: Element | None = None) -> te.Tensor:
    value = summed((16,), 12, term)
    return value if later is None else te.compute((16,), lambda i: later(value, i), "later")


@pytest.mark.parametrize(
    "value",
    [
        of(lambda k, i: X[k, i // 2] * tirx.Cast("float32", i)),  # the place itself
        of(lambda k, i: X[k, i // 2] * W[i % 2, k] * X[k, i // 4]),  # two divisors
        of(lambda k, i: X[k, i // 3] * W[i % 3 % 2, k]),  # no whole groups
        of(lambda k, i: X[k, i // 2] * W[0, k]),  # no remainder
        of(lambda k, i: X[k, i // 2] * W[i % 2, k], lambda y, i: y[15 - i]),  # another place of the results
        of(lambda k, i: X[k, i // 2] * W[i % 2, k], lambda y, i: y[i] * X[0, i % 8]),  # divided by 8 later
        of(lambda k, i: X[k, i // 2] * W[i % 2, k], lambda y, i: y[i // 2 * 2]),
        summed((16,), 8, lambda k, i: X[i // 2, k] * W[i % 2, k]),  # vectors along the terms
        summed((8,), 4, lambda k, i: X[k, i // 2 + k] * W[i % 2, k]),  # windows
    ],
)
def test_other_sums_keep_their_axes(value: te.Tensor) -> None:
    function = prim_func([X, W], value)
    assert with_divided_axes(function, []).same_as(function)


def test_a_constant_keeps_its_shape() -> None:
    """Weights are given in the model's shape; those that are indexed by parts of a place are packed anyhow."""
    x, w, more = placeholders((12, 8), (2, 12), (16,))
    total = summed((16,), 12, lambda k, i: x[k, i // 2] * w[i % 2, k])
    function = prim_func([x, w, more], te.compute((16,), lambda i: total[i] + more[i], "sum"))
    assert with_divided_axes(function, [2]).same_as(function)
    assert extents(with_divided_axes(function, [1])) == [(8, 2)] * 2
    constant = prim_func([x, w], summed((16,), 12, lambda k, i: x[k, 0] * w[i % 2, i // 2]))
    assert with_divided_axes(constant, [1]).same_as(constant)


@pytest.mark.long
@costly(20)
@given(st.integers(1, 4), st.integers(2, 6), st.integers(2, 5), st.integers(2, 5), st.integers(2, 9), st.booleans())
def test_results_are_the_same(rows: int, outer: int, f: int, g: int, depth: int, both: bool) -> None:
    """Along rows too, or with a running place there."""
    x, w = placeholders((depth, rows, outer), (g, f, depth))

    def term(k: te.Var, i: te.Var, j: te.Var) -> Any:
        at = (i // g, i % g) if both else (i % rows, i % g)
        return x[k, at[0], j // f] * w[at[1], j % f, k]

    function = prim_func([x, w], summed((rows * g, outer * f), depth, term))
    divided = with_divided_axes(function, [])
    assert extents(divided)[0][-2:] == (outer, f)
    assert isinstance(divided.body, s_tir.SBlockRealize)
    same(function, divided)
