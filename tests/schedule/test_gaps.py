"""Kernels whose rows have gaps: every form computes the same, reads nothing there and writes nothing there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, topi

from edgetune.codegen import emit_kernel
from edgetune.codegen.in_place import replaceable
from edgetune.codegen.lower import flat
from edgetune.graph.views.strided_view import StridedView, rows_of, shape_with_gaps, with_gaps
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import DIRECT, FORMS, WINOGRAD, schedule_text
from edgetune.schedule.default_algorithms import algorithms_of
from edgetune.schedule.default_schedule import best_guess
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.target.target import Target
from tests.codegen_run import run_kernel, wide_target
from tests.sketch_samples import conv2d, dense, prim_func, random_arguments, run_plain

ROOM = 1 << 20
GAP = 3


def scaled(channels: int) -> Any:
    x, factor = te.placeholder((1, 5, 4, channels), name="x"), te.placeholder((channels,), name="factor")
    return prim_func([x, factor], topi.nn.relu(topi.multiply(x, factor)))


def pooled() -> Any:
    x = te.placeholder((1, 9, 8, 16), name="x")
    return prim_func([x], topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "avg", layout="NHWC"))


KERNELS: dict[str, Callable[[], Any]] = {
    "tiles of 3x3": lambda: conv2d((7, 9, 8), 12, tail="residual"),
    "no border": lambda: conv2d((9, 10, 16), 16, pad=(0, 0, 0, 0)),
    "sums alone": lambda: conv2d((6, 6, 8), 16, tail=""),
    "one pixel": lambda: conv2d((11, 13, 8), 32, kernel=(1, 1), pad=(0, 0, 0, 0)),
    "stride": lambda: conv2d((8, 7, 6), 9, stride=2),
    "whole vectors": lambda: conv2d((5, 6, 8), 42, kernel=(1, 1), pad=(0, 0, 0, 0), tail="residual"),
    "depthwise": lambda: conv2d((8, 7, 38), 38, groups=38),
    "rows": lambda: dense(17, 24, 43),
    "elements": lambda: scaled(7),
    "vectors": lambda: scaled(32),
    "pooling": pooled,
}


def widened(function: Any) -> tuple[Any, dict[int, Any]]:
    """`function` with gaps in its first input and its output, and their rows."""
    shapes, rows = {}, {}
    for number in (0, len(function.params) - 1):
        shape = tuple(int(extent) for extent in function.params[number].shape)
        outer, length = int(np.prod(shape[:-1])), shape[-1]
        wide = shape_with_gaps(shape, StridedView.of_rows(0, 0, outer, length + GAP, length))
        assert wide is not None
        shapes[number], rows[number] = wide, rows_of(shape, wide)
    return with_gaps(function, shapes), rows


def filled(array: np.ndarray, rows: Any) -> np.ndarray:
    """`array` with gaps, in which there is what spoils every sum."""
    count = array.size // rows.length * rows.pitch
    wide = np.full(count, np.nan, array.dtype)
    wide[rows.elements(count)] = array.reshape(-1)
    return wide


def schedules(function: Any, target: Target) -> dict[str, str]:
    found = {DIRECT: default_schedule(function, target, ROOM, ())[0]}
    for form in algorithms_of(function, FORMS, target):
        guess = best_guess(form.function, target, ROOM)
        if form.name != DIRECT and guess is not None:
            found[form.name] = schedule_text(form.name, guess[0])
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", KERNELS)
def test_every_form_computes_the_same_and_leaves_gaps_alone(name: str, tmp_path: Path) -> None:
    plain, target = KERNELS[name](), wide_target(256)
    arrays = random_arguments(plain)
    expected = run_plain(plain, arrays)
    function, rows = widened(plain)
    texts = schedules(function, target)
    assert (WINOGRAD[0] in texts) == (WINOGRAD[0] in schedules(plain, target))
    arrays = [filled(array, rows[n]) if n in rows else array for n, array in enumerate(arrays)]
    touched = rows[len(arrays) - 1].elements(arrays[-1].size)
    for form, text in texts.items():
        scheduled = apply_schedule(function, text)
        constants = scheduled.constants
        given = [constants[n].apply(array) if n in constants else array for n, array in enumerate(arrays)]
        source = emit_kernel(scheduled.module, target, "gaps")
        result = run_kernel(source, target, given, tmp_path)[-1]
        limit = 1e-4 * np.abs(expected).max()
        assert np.abs(result[touched] - expected.reshape(-1)).max() < limit, form
        assert np.isnan(np.delete(result, touched)).all(), form


def test_nothing_is_written_over_an_operand_with_gaps() -> None:
    function, _ = widened(scaled(32))
    text, _ = default_schedule(function, wide_target(), ROOM, ())
    assert replaceable(flat(apply_schedule(function, text).module)) == ()
    assert replaceable(
        flat(apply_schedule(scaled(32), default_schedule(scaled(32), wide_target(), ROOM, ())[0]).module)
    ) == (0,)


def test_an_anatomy_is_that_of_the_kernel_without_gaps() -> None:
    plain = conv2d((7, 9, 8), 12)
    found, wanted = analyse_blocks(widened(plain)[0]), analyse_blocks(plain)
    assert found is not None
    assert wanted is not None
    assert [stage.spatial_extents for stage in found.stages] == [stage.spatial_extents for stage in wanted.stages]


@pytest.mark.parametrize(
    ("shape", "outer", "pitch", "expected"),
    [
        ((1, 5, 4, 8), 20, 12, (1, 5, 4, 12)),
        ((20, 8), 20, 12, (20, 12)),
        ((1, 5, 4, 4, 2), 20, 12, (1, 5, 4, 6, 2)),
        ((1, 5, 4, 4, 2), 20, 13, None),
        ((1, 5, 4, 8), 5, 96, (1, 5, 12, 8)),
        ((5, 32), 20, 12, None),
        ((160,), 20, 12, None),
    ],
)
def test_the_first_axis_of_a_row_grows(
    shape: tuple[int, ...], outer: int, pitch: int, expected: tuple[int, ...] | None
) -> None:
    view = StridedView.of_rows(0, 0, outer, pitch, int(np.prod(shape)) // outer)
    assert shape_with_gaps(shape, view) == expected
