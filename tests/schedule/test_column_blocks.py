"""Blocks of columns: stages of reductions over outer axes are computed for some columns, one block after another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, topi

from edgetune.codegen import emit_kernel
from edgetune.schedule.algorithms.apply import apply_schedule, replay
from edgetune.schedule.algorithms.catalogue import algorithm_named
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.default_algorithms import form_for_odd_extents
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.schedule.rules.column_blocks import block_of_columns, common_columns
from edgetune.schedule.sketches.block_analysis import BlockAnalysis, analyse_blocks
from edgetune.schedule.sketches.limits import footprint
from tests.codegen_run import compile_strictly, wide_target
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func, random_arguments, run, run_plain

L1 = 32 * 1024


def softmax(shape: tuple[int, ...], axis: int) -> Any:
    x = te.placeholder(shape, name="x")
    return prim_func([x], topi.nn.softmax(x, axis=axis))


def shifted() -> Any:
    """Each column is divided by the sum of its left neighbour."""
    x, k = te.placeholder((8, 65), name="x"), te.reduce_axis((0, 8), "k")
    total = te.compute((64,), lambda j: te.sum(x[k, j], axis=k), "total")
    return prim_func([x], te.compute((8, 64), lambda i, j: x[i, j] / total[te.max(j - 1, 0)], "shifted"))


def analysis_of(function: Any) -> BlockAnalysis:
    found = analyse_blocks(function)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("function", "common"),
    [(softmax((12, 64), 0), 0), (softmax((3, 12, 64), 1), 1), (softmax((12, 64), 1), None), (shifted(), None)],
    ids=["outer axis", "middle axis", "last axis", "other columns"],
)
def test_reductions_over_outer_axes_have_common_columns(function: Any, common: int | None) -> None:
    assert common_columns(analysis_of(function)) == common


@pytest.mark.parametrize(
    ("rows", "columns", "block"), [(12, 640, 8), (12, 96, 6), (200, 640, 2), (12, 100, 0), (4000, 640, 0)]
)
def test_a_block_has_whole_lines_and_fits_l1(rows: int, columns: int, block: int) -> None:
    """100 columns are no whole vectors, and 16 columns of 4,000 rows fill L1 many times."""
    assert block_of_columns(analysis_of(softmax((rows, columns), 0)), 8, L1) == block


@pytest.mark.parametrize(("shape", "axis"), [((7, 4000), 0), ((4, 30, 64), 1)])
def test_the_default_schedule_stores_one_block_between_stages(shape: tuple[int, ...], axis: int) -> None:
    """Row after row, all exponentials were stored: 4 bytes for each element of the result."""
    function = softmax(shape, axis)
    module = replay(function, default_trace(function, board(256, 16), 1 << 20)[0])
    assert footprint(module).scratch_bytes < L1 // 2
    arrays = random_arguments(function)
    np.testing.assert_allclose(run(module, arrays), run_plain(function, arrays), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("rows", "columns"), [(21, 4225), (7, 1003), (150, 333)])
def test_columns_that_no_vector_divides_have_blocks_of_overlapping_vectors(rows: int, columns: int) -> None:
    """The softmax of 21 classes of 65 x 65 pixels had plain loops, and kept all exponentials: 372 KB."""
    function, target = softmax((rows, columns), 0), board(256, 16)
    form = form_for_odd_extents(function, FORMS, target)
    assert form is not None
    assert form.name == "vectors_256"
    assert common_columns(analysis_of(form.function)) == 0
    module = replay(form.function, default_trace(form.function, target, 1 << 14)[0])
    assert footprint(module).scratch_bytes <= 1 << 14
    arrays = random_arguments(function)
    np.testing.assert_allclose(run(module, arrays), run_plain(function, arrays), rtol=1e-5, atol=1e-6)


def test_overlapping_blocks_have_vectors_in_all_stages(tmp_path: Path) -> None:
    function, target = softmax((21, 4225), 0), wide_target(256)
    text, _ = default_schedule(function, target, 1 << 14, FORMS)
    source = emit_kernel(apply_schedule(function, text).module, target, "k")
    assert "exp_each_f32x8x" in source.definition, "several vectors in one call"
    assert "exp_f32(" not in source.definition
    compile_strictly(source, target, tmp_path, "gcc")


def test_a_stage_without_axes_has_no_overlapping_columns() -> None:
    """The total of all columns has no last axis."""
    x, k, j = te.placeholder((21, 65), name="x"), te.reduce_axis((0, 21), "k"), te.reduce_axis((0, 65), "j")
    most = te.compute((65,), lambda c: te.max(x[k, c], axis=k), "most")
    whole = te.compute((), lambda: te.sum(most[j], axis=j), "whole")
    function = prim_func([x], te.compute((21, 65), lambda r, c: x[r, c] / whole() - most[c], "shares"))
    text, _ = default_schedule(function, board(256, 16), 1 << 16, FORMS)
    module = apply_schedule(function, text).module
    arrays = random_arguments(function)
    np.testing.assert_allclose(run(module, arrays), run_plain(function, arrays), rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_candidates_in_overlapping_blocks_compute_the_same() -> None:
    form = algorithm_named(softmax((2, 7, 100), 1), "vectors_256")
    assert check(form.function, board(256, 16), 1) > 0


@pytest.mark.long
@pytest.mark.parametrize("vector_bits", [0, 128, 512])
def test_candidates_in_blocks_compute_the_same(vector_bits: int) -> None:
    assert check(softmax((2, 7, 48), 1), board(vector_bits, 32 if vector_bits else 0), 1) > 0
