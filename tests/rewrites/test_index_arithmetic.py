"""Indices of quotients, remainders and limits, by and at the extents of axes: kernels mean what they say there too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.graph.evaluate import evaluate_program
from tests.te_programs import program_from_te

EXTENTS = (3, 48, 256)
"""Rows, lanes and terms: enough work that operands may be copied."""


@dataclass(frozen=True)
class Axes:
    """The axes and operations that an index is made with: those of TVM, or arrays and those of numpy."""

    r: Any
    i: Any
    k: Any
    least: Callable[[Any, Any], Any]
    most: Callable[[Any, Any], Any]


Place = Callable[[Axes], Any]


def axes() -> st.SearchStrategy[Place]:
    """One of the axes, more often one with many places."""
    return st.sampled_from([lambda at: at.r, lambda at: at.i, lambda at: at.i, lambda at: at.k])


def near(extent: int) -> st.SearchStrategy[int]:
    """A divisor, the extent, or a number beside it."""
    return st.sampled_from([1, 2, 4, extent // 2, extent - 1, extent, extent + 1, 2 * extent])


def changed(inner: st.SearchStrategy[Place]) -> st.SearchStrategy[Place]:
    """A quotient, remainder or limit of another index by what is near an extent, a product, or the sum of two."""
    by = st.sampled_from(EXTENTS).flatmap(near)
    return st.one_of(
        st.builds(lambda one, n: lambda at: one(at) // n, inner, by),
        st.builds(lambda one, n: lambda at: one(at) % n, inner, by),
        st.builds(lambda one, n: lambda at: at.least(one(at), n), inner, by),
        st.builds(lambda one, n: lambda at: at.most(one(at), n), inner, by),
        st.builds(lambda one, n: lambda at: one(at) * n, inner, st.integers(1, 3)),
        st.builds(lambda one, other: lambda at: one(at) + other(at), inner, inner),
    )


places = st.recursive(axes(), changed, max_leaves=3)


def compare(*indices: Place) -> None:
    """The sum over k of x at `indices`, times weights, is that of numpy."""
    r, i, k = np.ogrid[tuple(map(slice, EXTENTS))]
    grid = Axes(r, i, k, np.minimum, np.maximum)
    at = [np.broadcast_to(index(grid), EXTENTS) for index in indices]
    shape = tuple(int(one.max()) + 1 for one in at)
    draw = np.random.default_rng(0)
    rows, lanes, terms = EXTENTS
    x, w = (draw.standard_normal(extents).astype(np.float32) for extents in (shape, (terms, lanes)))

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, terms), "k")

        def value(r: Any, i: Any) -> Any:
            found = Axes(r, i, k.var, tirx.min, tirx.max)
            return te.sum(x(*(index(found) for index in indices)) * w[k, i], axis=k)

        return te.compute((rows, lanes), value, "y")

    program = program_from_te(compute, {"x": (shape, "float32")}, {"w": w}, "made")
    (found,) = evaluate_program(program, [{"x": x}])[0].values()
    wanted = np.einsum("rik,ki->ri", x.astype(np.float64)[tuple(at)], w)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.long
@given(first=places, last=places)
def test_an_index_of_quotients_and_limits_reads_what_it_says(first: Place, last: Place) -> None:
    compare(first, last)


@pytest.mark.parametrize(
    "index",
    [
        lambda at: at.i // 48 * 256 + at.k,  # one group
        lambda at: at.i // 47 * 8 + at.k % 256,
        lambda at: at.least(at.i, 48) + at.k,
        lambda at: at.most(at.i, 47) + at.k // 256,
        lambda at: at.i % 48 + at.k % 255,
        lambda at: at.i // 49,
    ],
)
def test_an_axis_that_changes_no_index_is_no_trouble(index: Place) -> None:
    """`i // 48` of 48 lanes ended with an error of numpy."""
    compare(lambda at: at.r, index)
