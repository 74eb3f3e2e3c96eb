"""Rows that wrap or are clamped need scalar ends; vectors that overlap do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tvm import te, tirx

from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.schedule.sketches.places import moves_in_parts
from tests.sketch_samples import prim_func


@pytest.mark.parametrize(
    ("place", "apart"),
    [
        (lambda q, c: (c + q % 3 + 1) % 100, True),  # wraps at 99, which 3 divides
        (lambda q, c: (c + q % 3) % 100, True),  # not in the first row
        (lambda _, c: (c + 1) % 100, True),
        (lambda _, c: tirx.min(c + 1, 99), True),
        (lambda _, c: tirx.min(c // 8 * 8, 92) + c % 8, False),
        (lambda _, c: c, False),
    ],
)
def test_places_that_wrap_or_are_clamped_move_in_parts(place: Callable[..., Any], apart: bool) -> None:
    x = te.placeholder((9, 100), name="x")
    analysis = analyse_blocks(prim_func([x], te.compute((9, 100), lambda q, c: x[q, place(q, c)] * 2.0, "moved")))
    assert analysis is not None
    assert moves_in_parts(analysis.stages[0]) == apart
