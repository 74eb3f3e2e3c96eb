"""Several reductions over an outer axis: each has lanes along its results, and means what plain loops mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, topi

from edgetune.codegen.emit import emit_kernel
from edgetune.codegen.packing import split_packing
from edgetune.schedule.algorithms.apply import apply_schedule, replay
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.target.target import Target
from tests.examples import costly
from tests.schedule.test_sketches import check, sampled
from tests.sketch_samples import board, prim_func, random_arguments, run, run_plain

KINDS = ("softmax", "spread", "centred")


def operator(kind: str, batch: int, length: int, inner: int) -> Any:
    """An operator with more than one reduction over the middle axis of (batch, length, inner)."""
    x = te.placeholder((batch, length, inner), name="x")
    if kind == "softmax":
        return prim_func([x], topi.nn.softmax(x, axis=1))
    i, k = te.reduce_axis((0, length), "i"), te.reduce_axis((0, length), "k")
    shape = (batch, inner)
    first = te.compute(shape, lambda b, c: te.max(x[b, i, c], axis=i), "first")
    if kind == "spread":
        return prim_func([x], te.compute(shape, lambda b, c: te.sum(first[b, c] - x[b, k, c], axis=k), "spread"))
    total = te.compute(shape, lambda b, c: te.sum(x[b, k, c] - first[b, c], axis=k), "total")
    return prim_func([x], te.compute(x.shape, lambda b, r, c: x[b, r, c] - total[b, c], "centred"))


@pytest.mark.long
@costly(20)
@given(
    st.sampled_from(KINDS),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 2, 7, 12]),
    st.sampled_from([1, 7, 8, 12, 16, 19, 64]),
    st.sampled_from([board(512, 32), board(256, 16), board(128, 32), board(0, 0)]),
    st.integers(1, 10_000),
)
def test_operators_mean_what_plain_loops_mean(
    kind: str, batch: int, length: int, inner: int, target: Target, seed: int
) -> None:
    assert check(operator(kind, batch, length, inner), target, seed) > 0


@pytest.mark.parametrize("inner", [64, 61])
@pytest.mark.parametrize("kind", KINDS)
def test_the_default_schedule_reduces_no_column_by_itself(kind: str, inner: int) -> None:
    function = operator(kind, 2, 12, inner)
    trace, _ = default_trace(function, board(256, 16), 1 << 20)
    module, _ = split_packing(replay(function, trace))
    text = emit_kernel(module, board(256, 16), "k").definition
    assert "f32x8" in text
    assert not [line for line in text.splitlines() if line.strip().startswith("for (") and f"< {inner};" in line]


def normalised(rows: int, columns: int, depth: int) -> Any:
    """Rows divided by their norms, times a matrix: the last stage is a reduction with rows of its own."""
    x, w = te.placeholder((rows, depth), name="x"), te.placeholder((depth, columns), name="w")
    j, k = te.reduce_axis((0, depth), "j"), te.reduce_axis((0, depth), "k")
    squares = te.compute((rows,), lambda i: te.sum(x[i, j] * x[i, j], axis=j), "squares")
    unit = te.compute((rows, depth), lambda i, d: x[i, d] / te.sqrt(squares[i]), "unit")
    return prim_func([x, w], te.compute((rows, columns), lambda i, o: te.sum(unit[i, k] * w[k, o], axis=k), "product"))


def spread_of_rows(rows: int, length: int) -> Any:
    """Two reductions of each row of a matrix: only one axis is left at the end."""
    x = te.placeholder((rows, length), name="x")
    j, k = te.reduce_axis((0, length), "j"), te.reduce_axis((0, length), "k")
    most = te.compute((rows,), lambda i: te.max(x[i, j], axis=j), "most")
    total = te.compute((rows,), lambda i: te.sum(te.exp(x[i, k] - most[i]), axis=k), "total")
    return prim_func([x], te.compute((rows,), lambda i: te.log(total[i]) + most[i], "spread"))


@pytest.mark.long
@costly(10)
@given(
    st.sampled_from(["normalised", "rows"]),
    st.sampled_from([1, 6, 8]),
    st.sampled_from([1, 16, 24]),
    st.sampled_from([8, 15, 32]),
    st.sampled_from([board(512, 32), board(128, 32), board(0, 0)]),
    st.integers(1, 10_000),
)
def test_rows_of_several_reductions_mean_what_plain_loops_mean(
    kind: str, rows: int, columns: int, depth: int, target: Target, seed: int
) -> None:
    function = normalised(rows, columns, depth) if kind == "normalised" else spread_of_rows(rows, depth)
    assert check(function, target, seed) > 0


@pytest.mark.parametrize("function", [normalised(16, 32, 64), spread_of_rows(64, 512)])
def test_stages_between_reductions_keep_a_few_rows(function: Any) -> None:
    trace, note = default_trace(function, board(256, 16), 1 << 14)
    module, _ = split_packing(replay(function, trace))
    kernel = emit_kernel(module, board(256, 16), "k")
    assert kernel.scratch_bytes <= 8 * 64 * 4, note
    assert "f32x8" in kernel.definition


@pytest.mark.long
def test_weights_across_the_lanes_are_packed_once() -> None:
    """By the build, and not again by the kernel: TVM would drop an axis of weights that both pack."""
    x, w = te.placeholder((2,), name="x"), te.placeholder((32, 1, 2, 16), name="w")
    b, k = te.reduce_axis((0, 1), "b"), te.reduce_axis((0, 32), "k")
    y = te.compute((2, 16, 32), lambda i, j, c: te.sum(x[i] * w[c, b, i, j], axis=b), "y")
    total = te.compute((2, 16), lambda i, j: te.sum(te.exp(y[i, j, k]), axis=k), "total")
    function = prim_func([x, w], te.compute(y.shape, lambda i, j, c: y[i, j, c] / total[i, j], "z"), [1])
    target = board(512, 32)
    arrays = random_arguments(function)
    for text in (default_schedule(function, target, 1 << 20, FORMS)[0], *sampled(function, target, 1)):
        scheduled = apply_schedule(function, text)
        packed = [scheduled.constants[n].apply(a) if n in scheduled.constants else a for n, a in enumerate(arrays)]
        np.testing.assert_allclose(run(scheduled.module, packed), run_plain(function, arrays), rtol=1e-4, atol=1e-4)
