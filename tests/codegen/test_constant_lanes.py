"""Constant lanes: masks that depend on no variable are printed as numbers, once."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.codegen.constant_lanes import constant_lanes
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.tvm_types import Expr
from tests.codegen_run import compile_strictly, run_kernel, wide_target
from tests.sketch_samples import prim_func, random_arguments, run_plain

LANES = tirx.Ramp(tirx.IntImm("int32", 2), tirx.IntImm("int32", 3), 8)


def splat(value: Expr | int) -> Expr:
    """Eight lanes of one number."""
    return tirx.Broadcast(tirx.IntImm("int32", value) if isinstance(value, int) else value, 8)


@pytest.mark.parametrize(
    ("e", "lanes"),
    [
        (LANES, [11, 14, 17, 20]),
        (splat(4) + LANES, [15, 18, 21, 24]),
        (LANES - splat(1) > splat(14), [0, 0, 1, 1]),
        (tirx.Not(tirx.EQ(LANES, splat(14))), [1, 0, 1, 1]),
        (tirx.And(splat(12) <= LANES, tirx.NE(LANES, splat(17))), [0, 1, 0, 1]),
        (splat(tirx.Var("n", "int32")) > LANES, None),
        (tirx.Ramp(tirx.Var("n", "int32"), tirx.IntImm("int32", 1), 8), None),
        (tirx.floormod(LANES * splat(2), splat(7)), [1, 0, 6, 5]),
        (tirx.floordiv(LANES - splat(15), splat(4)), [-1, -1, 0, 1]),
        (tirx.FloorMod(LANES, splat(0)), None),
    ],
    ids=str,
)
def test_lanes_of_numbers_are_numbers(e: Expr, lanes: list[int] | None) -> None:
    assert constant_lanes(e, 3, 4) == lanes


def test_a_constant_mask_is_printed_as_numbers_once(tmp_path: Path) -> None:
    """The last 5 of 37 terms are a whole vector, of which 11 lanes are left out: for each of eight rows."""
    x = te.placeholder((8, 37), name="x")
    j = te.reduce_axis((0, 37), "j")
    function, target = prim_func([x], te.compute((8,), lambda i: te.sum(x[i, j], axis=j), "total")), wide_target(512)
    text, _ = default_schedule(function, target, 1 << 20, FORMS)
    source = emit_kernel(apply_schedule(function, text).module, target, "k")
    masks = re.findall(r"i32x16 mask\w* =\s*(.*);", source.definition)
    assert masks == ["(i32x16){0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1}"]
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, "gcc")
    np.testing.assert_allclose(run_kernel(source, target, arrays, tmp_path)[-1], run_plain(function, arrays), rtol=1e-5)


def test_a_choice_that_is_known_is_no_choice() -> None:
    """Both results are sums of their own vectors, unrolled, so that each knows which it is."""
    x = te.placeholder((7, 48), name="x")
    j = te.reduce_axis((0, 48), "j")
    summed = te.compute((7, 2), lambda i, way: te.sum(tirx.Select(way == 0, x[i, j], x[i, j] * 2.0), axis=j), "summed")
    function, target = prim_func([x], summed), wide_target(512)
    text, _ = default_schedule(function, target, 1 << 20, FORMS)
    code = emit_kernel(apply_schedule(function, text).module, target, "k").definition
    assert "f32x16" in code
    assert "mask" not in code
    assert " ? " not in code


def test_remainders_of_known_lanes_are_numbers(tmp_path: Path) -> None:
    """100 rows of 7 are vectors of 16 lanes and a rest, in which every place along a row is known."""
    x = te.placeholder((100, 7), name="x")

    def value(i: Expr, j: Expr) -> Expr:
        return x[i, j] * ((j * 2 + 1) % 5).astype("float32") + tirx.floordiv(j, 5).astype("float32")

    function, target = prim_func([x], te.compute((100, 7), value, "weighed")), wide_target(512)
    text, _ = default_schedule(function, target, 1 << 20, FORMS)
    source = emit_kernel(apply_schedule(function, text).module, target, "k")
    assert re.search(r"i32x8 value\w* = \(i32x8\)\{2, 3, 4, 5, 6, 0, 1, 2\};", source.definition)
    (given, _) = random_arguments(function)
    compile_strictly(source, target, tmp_path, "gcc")
    result = run_kernel(source, target, [given, np.zeros_like(given)], tmp_path)[-1]
    place = np.arange(7)
    wanted = given * ((place * 2 + 1) % 5).astype(np.float32) + (place // 5).astype(np.float32)
    np.testing.assert_allclose(result, wanted, atol=1e-6)
