"""Rows of terms begin and end where their condition holds: the C has bounds of loops instead of conditions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.examples import costly
from tests.sketch_samples import board, prim_func, random_arguments, run, run_plain


def overlapping(rows: int, length: int, hop: int, *, sign: int = 1, batch: int = 1, dtype: str = "float32") -> Any:
    """Sums of rows, each of which begins `hop` places after the one before, or before it if `sign` is -1."""
    x, w = te.placeholder((batch, rows, length), dtype, name="x"), te.placeholder((rows,), dtype, name="w")
    f = te.reduce_axis((0, rows), "f")

    def value(b: Any, t: Any) -> Any:
        at = t - f * hop if sign == 1 else t - (rows - 1 - f) * hop
        inside = tirx.all(at >= 0, at < length)
        return te.sum(tirx.if_then_else(inside, x[b, f, at], tirx.const(0, dtype)) * w[f], axis=f)

    return prim_func([x, w], te.compute((batch, (rows - 1) * hop + length), value, "y"))


@pytest.mark.parametrize("function", [overlapping(20, 100, 7), overlapping(9, 64, 33), overlapping(30, 40, 1, sign=-1)])
@pytest.mark.parametrize("bits", [512, 128])
def test_rows_have_bounds_instead_of_conditions(function: Any, bits: int, tmp_path: Path) -> None:
    """The sums of antidiagonals of 200 x 300 elements."""
    target = wide_target(bits)
    schedule, note = default_schedule(function, target, 0, FORMS)
    assert note == "rows of terms between bounds"
    module = apply_schedule(function, schedule).module
    source = emit_kernel(module, target, "k")
    text = source.definition.partition("{")[2]
    assert "if (" not in text
    assert " ? " not in text
    assert f"f32x{bits // 32}u *)&y[" in text
    arrays = random_arguments(function)
    for cc in ("gcc", "clang-19"):
        compile_strictly(source, target, tmp_path, cc)
        result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
        np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-4, atol=1e-5)


@pytest.mark.long
@costly(15)
@given(
    rows=st.integers(1, 9),
    length=st.integers(1, 40),
    hop=st.integers(1, 40),
    sign=st.sampled_from([1, -1]),
    batch=st.integers(1, 2),
    dtype=st.sampled_from(["float32", "int32", "float64"]),
)
def test_any_overlap_means_what_plain_loops_mean(**sizes: Any) -> None:
    function = overlapping(**sizes)
    arrays = random_arguments(function)
    for target in (board(512, 32), board(128, 16)):
        module = apply_schedule(function, default_schedule(function, target, 1 << 20, FORMS)[0]).module
        np.testing.assert_allclose(run(module, arrays), run_plain(function, arrays), rtol=1e-4, atol=1e-5)


@pytest.mark.long
@costly(20)
@given(st.data())
def test_any_ends_mean_what_plain_loops_mean(data: st.DataObject) -> None:
    """Conditions may hold nowhere, along the whole row, or for some terms alone; a function may follow the sums."""
    columns, terms, rows = data.draw(st.integers(1, 50)), data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    ends = data.draw(st.lists(st.tuples(*[st.integers(-2, 2)] * 2, st.integers(-30, 30)), min_size=1, max_size=4))
    x, k = te.placeholder((rows, terms, columns), name="x"), te.reduce_axis((0, terms), "k")

    def value(r: Any, c: Any) -> Any:
        conditions = [c * min(1, max(-1, along)) + k * across + first >= r for along, across, first in ends]
        return te.sum(tirx.if_then_else(tirx.all(*conditions), x[r, k, c], tirx.const(0.0, "float32")), axis=k)

    sums = te.compute((rows, columns), value, "sums")
    made = te.compute((rows, columns), lambda r, c: te.exp(sums[r, c]), "made") if data.draw(st.booleans()) else sums
    function = prim_func([x], made)
    arrays = random_arguments(function)
    module = apply_schedule(function, default_schedule(function, board(512, 32), 1 << 20, FORMS)[0]).module
    np.testing.assert_allclose(run(module, arrays), run_plain(function, arrays), rtol=1e-4, atol=1e-5)
