"""Padding stages copy whole vectors inside the tensor, and single elements across its edge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.schedule.algorithms.apply import apply_schedule, replay
from edgetune.schedule.default_schedule import default_guess
from edgetune.schedule.sketches.limits import footprint
from edgetune.schedule.sketches.spaces import untouched
from tests.codegen_run import compile_strictly, run_kernel, wide_target
from tests.examples import costly
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func, random_arguments, run, run_plain


def padded(rows: int, columns: int, before: int, after: int, value: float = 0.0) -> Any:
    """A matrix with a row on either side, and some columns."""
    x = te.placeholder((rows, columns), name="x")

    def element(i: Any, j: Any) -> Any:
        inside = tirx.all(i >= 1, i < rows + 1, j >= before, j < columns + before)
        return tirx.if_then_else(inside, x[i - 1, j - before], tirx.const(value, "float32"))

    return prim_func([x], te.compute((rows + 2, columns + before + after), element, "pad"))


def pooled(side: int) -> Any:
    """The largest of 3 by 3 padded elements, with the last axis across windows."""
    x = te.placeholder((6, side, side), name="x")
    least = tirx.const(-1e30, "float32")

    def element(c: Any, i: Any, j: Any) -> Any:
        inside = tirx.all(i >= 1, i < side + 1, j >= 1, j < side + 1)
        return tirx.if_then_else(inside, x[c, i - 1, j - 1], least)

    pad = te.compute((6, side + 2, side + 2), element, "pad")
    i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 3), "j")
    return prim_func([x], te.compute((6, side, side), lambda c, r, s: te.max(pad[c, r + i, s + j], [i, j]), "pool"))


@pytest.mark.long
@costly(15)
@given(st.integers(1, 3), st.integers(1, 40), st.integers(0, 9), st.integers(0, 9), st.sampled_from([128, 256, 512]))
def test_padding_stays_the_same(rows: int, columns: int, before: int, after: int, bits: int) -> None:
    function = padded(rows, columns, before, after, -2.0)
    arrays = random_arguments(function)
    module = replay(function, default_guess(function, board(bits, 16), 1 << 20).trace)
    np.testing.assert_array_equal(run(module, arrays), run_plain(function, arrays))


def test_vectors_inside_have_no_branch(tmp_path: Path) -> None:
    """Element by element, 24 x 28 x 28 took 26 us instead of 2.3."""
    function, target = padded(5, 28, 1, 1), wide_target(256)
    source = emit_kernel(apply_schedule(function, default_guess(function, target, 1 << 20).trace).module, target, "k")
    assert "f32x8u *)&pad[" in source.definition
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, "gcc")
    np.testing.assert_array_equal(run_kernel(source, target, arrays, tmp_path)[-1], run_plain(function, arrays))


@pytest.mark.parametrize("bits", [0, 256])
def test_candidates_of_padded_windows_compute_the_same(bits: int) -> None:
    assert check(pooled(14), board(bits, 16 if bits else 0), 1) > 0


def test_a_kernel_over_the_limit_takes_the_schedule_with_the_least_scratch() -> None:
    """Plain loops took more: the whole padded tensor instead of a few rows of it."""
    function = pooled(28)
    guess = default_guess(function, board(256, 16), 0)
    module = replay(function, guess.trace)
    whole = footprint(untouched(function).mod).scratch_bytes
    assert guess.share != 0.0
    assert footprint(module).scratch_bytes < whole / 4
    arrays = random_arguments(function)
    np.testing.assert_array_equal(run(module, arrays), run_plain(function, arrays))
