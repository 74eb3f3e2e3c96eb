"""Rows that windows move along are computed some rows before they are read, and mean what plain loops mean."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te

from edgetune.codegen import emit_kernel
from edgetune.codegen.lower import to_compact
from edgetune.graph.separable_windows import separate_windows
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.schedule.rules.row_placement import has_windows_along_rows, move_inwards, rows_apart
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.schedule.sketches.spaces import untouched
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func, random_arguments, run_plain

SCRATCH = 1 << 20


def pooled(channels: int, rows: int, columns: int, *, taps: int = 3, stride: int = 2, mean: bool = False) -> Any:
    """The largest element, or the mean, of windows of an image with channels first, in a stage for each axis."""
    x = te.placeholder((channels, (rows - 1) * stride + taps, (columns - 1) * stride + taps), name="x")
    i, j = te.reduce_axis((0, taps), "i"), te.reduce_axis((0, taps), "j")
    shape, reduce = (channels, rows, columns), te.sum if mean else te.max
    pool = te.compute(shape, lambda c, h, w: reduce(x[c, h * stride + i, w * stride + j], axis=[i, j]), "pool")
    out = te.compute(shape, lambda c, h, w: pool[c, h, w] / float(taps**2), "mean") if mean else pool
    return separate_windows(prim_func([x], out))


def rows_stored(function: Any, bits: int) -> int:
    """The rows between the two stages that the default schedule keeps at a time."""
    schedule = default_schedule(function, wide_target(bits), SCRATCH, FORMS)[0]
    compact = to_compact()(apply_schedule(function, schedule).module)["main"]
    shapes = re.findall(r"pool_lines = T\.sblock_alloc_buffer\(\(([\d, ]+)\)", compact.script())
    assert len(shapes) == 1, compact.script()
    return int(shapes[0].split(",")[-2])


@pytest.mark.parametrize("bits", [512, 256, 128])
@pytest.mark.parametrize(
    ("rows", "taps", "stride", "stored"), [(28, 3, 2, 4), (14, 3, 2, 7), (13, 3, 2, 13), (29, 5, 1, 29), (15, 3, 2, 5)]
)
def test_rows_are_stored_before_windows_move_along_them(
    rows: int, taps: int, stride: int, stored: int, bits: int
) -> None:
    """One row at a time took up to ten times as long: each load waited for two stores. 13 and 29 rows: an image."""
    assert rows_stored(pooled(8, rows, 29, taps=taps, stride=stride), bits) >= stored


def test_an_image_that_fills_l1_is_computed_row_by_row() -> None:
    assert rows_stored(pooled(8, 73, 73), 512) == 1


def test_only_windows_along_rows_need_a_distance() -> None:
    x, i, j = te.placeholder((8, 16, 32), name="x"), te.reduce_axis((0, 8), "i"), te.reduce_axis((0, 8), "j")
    total = te.compute((16, 32), lambda r, c: te.sum(x[i, r, c], axis=i), "total")
    squares = te.compute((16, 32), lambda r, c: te.sum((x[j, r, c] - total[r, c]) * total[r, c], axis=j), "squares")
    for function, expected in ((prim_func([x], squares), False), (pooled(8, 28, 28), True)):
        analysis = analyse_blocks(function)
        assert analysis is not None
        assert has_windows_along_rows(analysis) == expected


def clamped(rows: int, columns: int) -> Any:
    """Sums of four rows of a stage before, of which the first and the last ones stand for those beyond them."""
    x, k, a = te.placeholder((8, rows, columns), name="x"), te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 4), "a")
    pool = te.compute((rows, columns), lambda i, j: te.sum(x[k, i, j], axis=k), "pool")

    def between(i: te.Var, j: te.Var) -> te.Tensor:
        return te.sum(pool[te.max(te.min(i + a - 1, rows - 1), 0), j], axis=a)

    return prim_func([x], te.compute((rows, columns), between, "between"))


@pytest.mark.parametrize(("repeated", "moves"), [(0, False), (24 * 32 * 8 * 2, False), (24 * 32 * 8 * 3, True)])
def test_rows_that_depend_on_an_outer_loop_count_as_repeated(repeated: int, moves: bool) -> None:
    """Four rows for each row of results, two or three at the border, are nearly four times the work."""
    plain = untouched(clamped(24, 32))
    assert (move_inwards(plain, "pool", "between", 1, repeated) is not plain) == moves


@pytest.mark.parametrize(
    ("extent", "wanted", "rows"), [(28, 1, 4), (28, 2, 4), (28, 7, 7), (9, 1, None), (13, 1, None), (6, 1, 6)]
)
def test_rows_divide_the_image_and_are_multiples_of_a_tile(extent: int, wanted: int, rows: int | None) -> None:
    assert rows_apart(extent, 8, wanted) == rows


@pytest.mark.long
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize(("bits", "columns"), [(512, 28), (512, 13), (256, 28), (256, 14), (128, 28), (128, 13)])
def test_windows_of_stride_two_are_vectors(bits: int, columns: int, mean: bool, tmp_path: Path) -> None:
    """A row of maxima in registers was read lane by lane: 84 scalar comparisons for 28 results."""
    function, target = pooled(3, 12, columns, mean=mean), wide_target(bits)
    schedule = default_schedule(function, target, SCRATCH, FORMS)[0]
    source = emit_kernel(apply_schedule(function, schedule).module, target, "k")
    widest = next(lanes for lanes in (16, 8, 4) if lanes <= min(columns, bits // 32))
    assert f"every_second_f32x{widest}(&pool_lines[" in source.definition
    assert not re.search(r"acc_\d+\[", source.definition), "a lane of a register"
    arrays = random_arguments(function)
    for cc in ("gcc", "clang-19"):
        compile_strictly(source, target, tmp_path, cc)
        result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
        np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("target", [board(512, 32), board(256, 16), board(0, 0)], ids=["512", "256", "scalar"])
@pytest.mark.parametrize(("rows", "taps", "stride"), [(12, 3, 2), (11, 5, 1), (7, 4, 2)])
def test_every_schedule_means_what_plain_loops_mean(rows: int, taps: int, stride: int, target: Any) -> None:
    assert check(pooled(4, rows, 20, taps=taps, stride=stride), target, 7) > 0
