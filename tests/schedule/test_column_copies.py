"""Columns of a run-time operand are copied where many rows share them and each lies in lines of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import te

from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.schedule.sketches.limits import footprint
from edgetune.schedule.sketches.spaces import tile_of
from edgetune.schedule.sketches.variants import copies_columns
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func, random_arguments, run, run_plain

ROOM = 1 << 20
TARGET = board(256, 16)


def product(rows: int, depth: int, columns: int, *, constant: bool = False) -> Any:
    """A matrix product; `constant` says that the second matrix is a weight."""
    x, w = te.placeholder((rows, depth), name="x"), te.placeholder((depth, columns), name="w")
    k = te.reduce_axis((0, depth), "k")
    y = te.compute((rows, columns), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), "y")
    return prim_func([x, w], y, [1] if constant else [])


@pytest.mark.parametrize("name", ["shifted", "shifted_columns"])
def test_a_stage_is_no_copy_of_columns_because_of_its_name(name: str) -> None:
    x, w = te.placeholder((40, 64), name="x"), te.placeholder((64, 96), name="w")
    shifted, k = te.compute((64, 96), lambda i, j: w[i, j] + 1.0, name), te.reduce_axis((0, 64), "k")
    y = te.compute((40, 96), lambda i, j: te.sum(x[i, k] * shifted[k, j], axis=k), "y")
    found = tile_of(prim_func([x, w], y), TARGET)
    assert found is not None
    assert (found[1].columns, found[1].copy) == (None, None)


def scratch_of(function: Any, room: int = ROOM) -> int:
    text = default_schedule(function, TARGET, room, FORMS)[0]
    return footprint(apply_schedule(function, text).module).scratch_bytes


@pytest.mark.parametrize(("rows", "depth", "columns"), [(40, 600, 96), (33, 513, 65), (127, 1000, 127)])
def test_long_columns_that_many_rows_share_are_copied(rows: int, depth: int, columns: int) -> None:
    """Also where no vector divides them: then the copy has the overlapping vectors."""
    function = product(rows, depth, columns)
    text = default_schedule(function, TARGET, ROOM, FORMS)[0]
    module = apply_schedule(function, text).module
    assert footprint(module).scratch_bytes in (4 * 8 * depth, 4 * 16 * depth)  # one or two vectors wide
    arrays = random_arguments(function)
    np.testing.assert_allclose(run(module, arrays), run_plain(function, arrays), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "constant"),
    [(16, 600, 96, False), (40, 256, 96, False), (40, 600, 32, False), (40, 600, 96, True)],
    ids=["few rows", "short columns", "adjacent columns", "constants, which are packed"],
)
def test_other_columns_stay_where_they_are(rows: int, depth: int, columns: int, *, constant: bool) -> None:
    function = product(rows, depth, columns, constant=constant)
    found = tile_of(function, TARGET)
    assert found is not None
    assert not copies_columns(found[1])
    assert scratch_of(function) == 0


def test_nothing_is_copied_where_there_is_no_room() -> None:
    assert scratch_of(product(40, 600, 96), 0) == 0


@pytest.mark.parametrize("columns", [64, 65])
def test_candidates_with_copies_compute_the_same(columns: int) -> None:
    assert check(product(35, 513, columns), TARGET, 1) > 0
