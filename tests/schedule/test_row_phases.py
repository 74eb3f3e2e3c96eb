"""Phases of a row are stored by vectors that take turns where the places of its ends are kept within another row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.codegen.in_place import replaceable
from edgetune.codegen.lower import flat
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.schedule.summary import summary
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.sketch_samples import prim_func, random_arguments, run_plain

ROWS = 5
Value = Callable[[Any, int, Any, Any], Any]


def kept(place: Any, extent: int) -> Any:
    """A place that is kept within a row."""
    return te.max(te.min(place, tirx.const(extent - 1, "int32")), tirx.const(0, "int32"))


def linear(x: Any, columns: int, r: Any, c: Any) -> Any:
    """Twice as wide, linear between the centres of pixels."""
    return x[r, c // 2] * 0.75 + x[r, kept(c // 2 + c % 2 * 2 - 1, columns)] * 0.25


def wrapped(x: Any, columns: int, r: Any, c: Any) -> Any:
    """Twice as wide, from a row that goes on at its start."""
    return x[r, c // 2] + x[r, (c // 2 + c % 2) % columns]


def thirds(x: Any, columns: int, r: Any, c: Any) -> Any:
    """Three times as wide; a pixel's neighbours begin and end it."""
    return x[r, c // 3] + x[r, kept(c // 3 + c % 3 - 1, columns)]


def stage(columns: int, phases: int, value: Value) -> Any:
    """A matrix that is `phases` times as wide as its operand."""
    x = te.placeholder((ROWS, columns), name="x")
    return prim_func([x], te.compute((ROWS, phases * columns), lambda r, c: value(x, columns, r, c), "made"))


@pytest.mark.parametrize(("value", "phases"), [(linear, 2), (wrapped, 2), (thirds, 3)])
@pytest.mark.parametrize(("columns", "bits"), [(40, 512), (63, 256)])
def test_phases_take_turns(value: Value, phases: int, columns: int, bits: int, tmp_path: Path) -> None:
    """Three images of 128 by 127 pixels, twice as wide and high, are computed in vectors."""
    function, target = stage(columns, phases, value), wide_target(bits)
    text = default_schedule(function, target, 0, FORMS)[0]
    made = apply_schedule(function, text).module
    source = emit_kernel(made, target, "k")
    assert f"@take_turns_f32x{bits // 32}x{phases}(" in source.definition
    assert f"store {phases} phases of " in summary(text)
    assert replaceable(flat(made)) == ()
    arrays = random_arguments(function)
    for cc in ("gcc", "clang-19"):
        compile_strictly(source, target, tmp_path, cc)
        result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
        np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5)


def test_short_rows_and_other_types_stay(tmp_path: Path) -> None:
    x = te.placeholder((ROWS, 40), "int32", name="x")
    integers = prim_func([x], te.compute((ROWS, 80), lambda r, c: x[r, kept(c // 2 + c % 2 - 1, 40)], "made"))
    for function in (stage(3, 2, linear), integers):
        target = wide_target(512)
        made = apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module
        source = emit_kernel(made, target, "k")
        assert "take_turns" not in source.definition
        arrays = random_arguments(function)
        result = run_kernel(source, target, arrays, tmp_path, extra=SANITIZERS)[-1]
        np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5)
