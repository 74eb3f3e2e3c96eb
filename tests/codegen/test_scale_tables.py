"""Fixed-point scales by the factors of a table: TensorFlow Lite's two roundings to the last bit, ties included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.codegen import KernelSource, emit_kernel
from edgetune.codegen.scale_tables import ScaleTable
from edgetune.graph.fixed_point import fixed_point_scale
from edgetune.graph.kernels import SCALES_SHIFT, SCALES_SHIFT_LITTLE
from edgetune.schedule.sketches.spaces import untouched
from edgetune.target.target import Target, load_target
from tests.codegen_run import run_kernel, wide_target
from tests.dsp_core import dsp_core
from tests.examples import costly
from tests.fixed_point_samples import scaled
from tests.sketch_samples import Array, prim_func

ROWS, ZERO = 600, -3


def scales(shifts: list[int], seed: int = 0) -> Array:
    """Scales with such shifts, of multipliers at the ends of their range and between."""
    generator = np.random.default_rng(seed)
    digits = generator.choice([0, 1, (1 << 27) - 1, *generator.integers(0, 1 << 27, 5)], len(shifts))
    return (digits.astype(np.uint32) << np.uint32(5) | np.asarray(shifts, np.uint32)).astype(np.uint32)


def near_ties(scale: Array, seed: int = 0) -> Array:
    """Numbers whose second rounding is at a tie or beside it, and others of all sizes."""
    generator = np.random.default_rng(seed)
    x = np.empty((ROWS, len(scale)), np.int64)
    for column, one in enumerate(scale):
        multiplier, shift = ((int(one) >> 5) + (1 << 27)) << 3, int(one) & 31
        high = (2 * generator.integers(-200, 200, ROWS) + 1) * (1 << shift >> 1) + generator.integers(-1, 2, ROWS)
        x[:, column] = [int(value) * (1 << 31) // multiplier for value in high]
    wide = generator.integers(-(1 << 31), 1 << 31, x.shape) >> generator.integers(0, 31, x.shape)
    far = generator.random(x.shape) < 0.3
    return np.where(far | (abs(x) >= 1 << 31), wide, x).astype(np.int32)


def kernel(
    channels: int, target: Target, *, to_bytes: bool, little: bool, shifting: bool = True, zero: int = ZERO
) -> KernelSource:
    """A kernel that scales rows by a constant scale for each column, to bytes or to 32 bits."""
    x, scale = te.placeholder((ROWS, channels), "int32", name="x"), te.placeholder((channels,), "uint32", name="scale")
    y = te.compute(x.shape, lambda i, j: fixed_point_scale(x[i, j], scale[j]) + tirx.const(zero, "int32"), name="y")
    if to_bytes:
        limited = te.compute(y.shape, lambda i, j: tirx.max(tirx.min(y[i, j], 127), -128), name="limited")
        y = te.compute(y.shape, lambda i, j: limited[i, j].astype("int8"), name="bytes")
    function = prim_func([x, scale], y, [])
    for attribute, wanted in ((SCALES_SHIFT, shifting), (SCALES_SHIFT_LITTLE, little)):
        function = function.with_attr(attribute, [1]) if wanted else function
    sch = untouched(function)
    for stage in ("y", "limited") if to_bytes else ():
        sch.compute_inline(sch.get_sblock(stage))
    return emit_kernel(sch.mod, target, "k")


@pytest.mark.parametrize("board", ["dsp", "plain"])
@pytest.mark.parametrize(
    ("shifts", "little", "to_bytes", "name"),
    [
        ([2, 3, 5, 7, 9, 11, 12], True, True, "scaled_little_i8"),
        ([2, 3, 12, 13, 17, 24, 31], False, True, "scaled_by_i8"),
        ([2, 3, 12, 13, 17, 24, 31], False, False, "fixed_point_scale_by"),
        ([2, 5, 12], True, False, "fixed_point_scale_by"),
    ],
)
def test_results_are_those_of_the_definition(
    shifts: list[int], little: bool, to_bytes: bool, name: str, board: str, tmp_path: Path
) -> None:
    scale = scales(shifts)
    x = near_ties(scale)
    source = kernel(len(shifts), dsp_core(), to_bytes=to_bytes, little=little)
    assert f"@{name}_i32(" in source.definition
    table = ScaleTable(of_bytes=source.params[1].table == "byte table").apply(scale)
    expected = scaled(x, scale) + ZERO
    expected = np.clip(expected, -128, 127) if to_bytes else expected
    target = dsp_core() if board == "dsp" else wide_target(256)
    found = run_kernel(source, target, [x, table, np.zeros(x.shape, "int8" if to_bytes else "int32")], tmp_path)[-1]
    np.testing.assert_array_equal(found, expected)


def test_scales_that_hardly_shift_stay_one_number(tmp_path: Path) -> None:
    scale = scales([0, 1, 2, 8])
    x = near_ties(scale)
    source = kernel(len(scale), dsp_core(), to_bytes=True, little=False, shifting=False)
    assert not source.params[1].table
    found = run_kernel(source, dsp_core(), [x, scale, np.zeros(x.shape, "int8")], tmp_path)[-1]
    np.testing.assert_array_equal(found, np.clip(scaled(x, scale) + ZERO, -128, 127))


def test_cores_without_the_instructions_have_no_tables() -> None:
    for board in ("mps2-an385", "rpi4", "generic-riscv64"):
        assert not kernel(8, load_target(board), to_bytes=True, little=True).params[1].table


@pytest.mark.parametrize("zero", [-128, 127, -129, 200])
def test_ties_need_a_zero_point_that_is_a_byte(zero: int, tmp_path: Path) -> None:
    """Beyond, what is scaled may be so far from 0 that the last rounding is off."""
    table = "byte table" if -128 <= zero <= 127 else "table"
    scale = scales([2, 5, 9, 12])
    x = near_ties(scale)
    source = kernel(len(scale), dsp_core(), to_bytes=True, little=True, zero=zero)
    assert source.params[1].table == table
    factors = ScaleTable(of_bytes=table == "byte table").apply(scale)
    found = run_kernel(source, dsp_core(), [x, factors, np.zeros(x.shape, "int8")], tmp_path)[-1]
    np.testing.assert_array_equal(found, np.clip(scaled(x, scale) + zero, -128, 127))


@costly(50)
@given(st.lists(st.integers(2, 31), min_size=1, max_size=8), st.integers(0, 10_000))
def test_factors_give_the_same_number(shifts: list[int], seed: int) -> None:
    """The definition of a table, in integers of any size."""
    scale = scales(shifts, seed)
    x = near_ties(scale, seed)[:40]
    twice, places = (ScaleTable().apply(scale)[:, number].astype(object) for number in (0, 1))
    high = (x.astype(object) * (twice + (1 << 32)) + (1 << 31)) >> 32
    found = ((high - (high < 0)) * places + (1 << 31)) >> 32
    np.testing.assert_array_equal(found, scaled(x, scale))
