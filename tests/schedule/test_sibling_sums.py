"""Sums of equal extents: what the largest one gets, its siblings get too; a sum of weights keeps nobody from lanes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tvm import te

from edgetune.codegen.emit import emit_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.target.target import Target
from tests.sketch_samples import board, prim_func, random_arguments, run, run_plain


def weighted(columns: int) -> Any:
    """Weighted variances of columns: the sum of the weights has one element."""
    x, w = te.placeholder((30, columns), name="x"), te.placeholder((30,), name="w")
    i, j, k = (te.reduce_axis((0, 30), name) for name in "ijk")
    total = te.compute((columns,), lambda c: te.sum(w[i] * x[i, c], axis=i), "total")
    count = te.compute((1,), lambda _: te.sum(w[j], axis=j), "count")

    def term(c: Any) -> Any:
        gap = x[k, c] - total[c] / count[0]
        return te.sum(w[k] * gap * gap, axis=k)

    squares = te.compute((columns,), term, "squares")
    return prim_func([x, w], te.compute((columns,), lambda c: squares[c] / count[0], "variance"))


def pairs(columns: int, other: str) -> Any:
    """Two sums of three terms for each pair, both of differences of `b` from `a`, or one from `c`, or along rows."""
    a, b = te.placeholder((20, 3), name="a"), te.placeholder((columns, 3), name="b")
    c = te.placeholder((columns, 3), name="c")
    j, k = te.reduce_axis((0, 3), "j"), te.reduce_axis((0, 3), "k")
    shape = (20, columns)
    read = b if other == "shared" else c
    one = te.compute(shape, lambda r, s: te.sum((b[s, j] - a[r, j]) * (b[s, j] - a[r, j]), axis=j), "one")
    two = te.compute(shape, lambda r, s: te.sum((read[s, k] - a[r, k]) * a[r, k], axis=k), "two")
    result = te.compute(shape, lambda r, s: two[r, s] * two[r, s] - one[r, s], "result")
    return prim_func([a, b] if other == "shared" else [a, b, c], result)


def windows(taps: int) -> Any:
    """A sum and a sum of squares over the same windows."""
    x = te.placeholder((3, 64 + taps - 1), name="x")
    i, j = te.reduce_axis((0, taps), "i"), te.reduce_axis((0, taps), "j")
    total = te.compute((3, 64), lambda c, t: te.sum(x[c, t + i], axis=i), "total")
    squares = te.compute((3, 64), lambda c, t: te.sum(x[c, t + j] * x[c, t + j], axis=j), "squares")
    return prim_func([x], te.compute((3, 64), lambda c, t: squares[c, t] - total[c, t] * total[c, t], "spread"))


def text_of(function: Any, target: Target) -> str:
    """The kernel of the default schedule, once its results are those of plain loops."""
    scheduled = apply_schedule(function, default_schedule(function, target, 1 << 20, FORMS)[0])
    arrays = random_arguments(function)
    np.testing.assert_allclose(run(scheduled.module, arrays), run_plain(function, arrays), rtol=1e-4, atol=1e-4)
    return emit_kernel(scheduled.module, target, "k").definition


@pytest.mark.parametrize(("columns", "target"), [(64, board(256, 16)), (61, board(256, 16)), (100, board(512, 32))])
def test_columns_are_lanes_beside_a_sum_of_weights(columns: int, target: Target) -> None:
    """Both sums of columns were scalar: lanes ran along the weights alone."""
    text = text_of(weighted(columns), target)
    assert "total_0" in text
    assert "squares_0" in text
    assert f"c < {columns}" not in text


@pytest.mark.parametrize("other", ["shared", "own"])
@pytest.mark.parametrize("columns", [640, 61])
def test_both_sums_have_vectors_and_packed_operands(columns: int, other: str) -> None:
    """The second one was a scalar loop over all columns. One operand is packed for both, two for one each."""
    text = text_of(pairs(columns, other), board(256, 16))
    assert "one_0" in text
    assert "two_0" in text
    assert set(re.findall(r"\b[bc]_\d+\b", text)) == ({"b_1"} if other == "shared" else {"b_1", "c_1"})


def test_sums_of_the_same_windows_have_the_same_lanes() -> None:
    """One had lanes along its windows, and a sum over lanes for each result."""
    text = text_of(windows(16), board(256, 16))
    assert "lanes_sum" not in text
    assert "total_0" in text
    assert "squares_0" in text
