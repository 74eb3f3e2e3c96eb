"""Element types and integer semantics: what C leaves undefined has one answer, on every compiler and ISA."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx, topi

from edgetune.codegen import emit_kernel
from edgetune.target.target import Target, load_target
from tests.codegen_run import SANITIZERS, run_kernel, wide_target

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
Binary = Callable[[Any, Any], Any]


def _elementwise(
    arrays: list[np.ndarray], to: str, body: Callable[..., Any], target: Target, folder: Path, **how: Any
) -> Any:
    """`body` of one element of each array, over all of them, as a kernel."""
    inputs = [te.placeholder(array.shape, str(array.dtype), name=f"in{n}") for n, array in enumerate(arrays)]
    out = te.compute(arrays[0].shape, lambda i: body(*(tensor(i) for tensor in inputs)), name="out")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([*inputs, out]))
    if target.vector_bits:
        schedule.vectorize(schedule.split(schedule.get_loops(schedule.get_sblock("out"))[-1], [None, 16])[-1])
    source = emit_kernel(schedule.mod, target, "elementwise")
    dtype = np.uint8 if to == "bool" else np.dtype(to)
    return run_kernel(source, target, [*arrays, np.zeros(arrays[0].shape, dtype)], folder, **how)[-1]


def _extremes(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of values at which integer arithmetic goes wrong."""
    limits = np.iinfo(dtype)
    values = np.array([limits.min, limits.min + 1, 0, 1, 2, 3, 7, limits.max // 2, limits.max - 1, limits.max], dtype)
    if limits.min < 0:
        values = np.concatenate([values, np.array([-1, -2, -7, -3, 5, -5], dtype)])
    a, b = np.meshgrid(values, values)
    count = a.size // 16 * 16
    return a.reshape(-1)[:count], b.reshape(-1)[:count]


@pytest.mark.long
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_integer_arithmetic_wraps_and_divides_by_anything(dtype: str, cc: str, tmp_path: Path) -> None:
    a, b = _extremes(dtype)
    operations: dict[str, tuple[Binary, np.ndarray]] = {}
    with np.errstate(all="ignore"):
        operations["sum"] = (lambda x, y: x + y, a + b)
        operations["difference"] = (lambda x, y: x - y, a - b)
        operations["product"] = (lambda x, y: x * y, a * b)
        operations["largest"] = (tirx.max, np.maximum(a, b))
        # numpy: division by zero gives zero, the smallest over -1 wraps; so does the C.
        operations["floordiv"] = (tirx.floordiv, np.floor_divide(a, b))
        operations["floormod"] = (tirx.floormod, np.remainder(a, b))
        operations["xor"] = (tirx.bitwise_xor, np.bitwise_xor(a, b))
    for name, (body, expected) in operations.items():
        found = _elementwise([a, b], dtype, body, wide_target(256), tmp_path, cc=cc, extra=SANITIZERS)
        np.testing.assert_array_equal(found, expected, err_msg=name)


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "int32", "int64"])
def test_shifts_by_too_much_give_zero_or_the_sign(dtype: str, tmp_path: Path) -> None:
    a, _ = _extremes(dtype)
    amounts = np.resize(np.arange(np.iinfo(dtype).bits + 9), a.size).astype(dtype)
    left = _elementwise([a, amounts], dtype, lambda x, y: x << y, wide_target(256), tmp_path, extra=SANITIZERS)
    right = _elementwise([a, amounts], dtype, lambda x, y: x >> y, wide_target(256), tmp_path, extra=SANITIZERS)
    np.testing.assert_array_equal(left, np.left_shift(a, amounts))
    np.testing.assert_array_equal(right, np.right_shift(a, amounts))


@pytest.mark.parametrize("to", [*INTEGERS, "bool", "float64"])
@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("bits", [0, 256])
def test_floats_saturate_and_nan_becomes_zero(source: str, to: str, bits: int, tmp_path: Path) -> None:
    limits = [0.0, 0.5, -0.5, 1.9, -1.9, 126.9, 127.5, 128, -128.9, -129, 255.5, 256, 3e4, -4e4, 7e4, 2**31, -(2.0**31)]
    values = np.array([*limits, -3e9, 5e9, 2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30, np.inf, -np.inf, np.nan], source)
    values = np.resize(values, 32)
    found = _elementwise([values], to, lambda x: x.astype(to), wide_target(bits), tmp_path, extra=SANITIZERS)
    if to == "float64":
        np.testing.assert_array_equal(found, values.astype(np.float64))
        return
    if to == "bool":
        np.testing.assert_array_equal(found, values != 0)
        return
    low, high = np.iinfo(to).min, np.iinfo(to).max
    expected = [
        0 if np.isnan(v) else min(max(low, int(np.clip(v, -(2.0**70), 2.0**70))), high) for v in values.tolist()
    ]
    np.testing.assert_array_equal(found, np.array(expected, to))


@pytest.mark.parametrize("has_float16", [False, True])
def test_every_float16_survives_and_every_float_rounds(has_float16: bool, tmp_path: Path) -> None:
    target = wide_target(256).model_copy(update={"has_float16": has_float16})
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    found = _elementwise([every], "float32", lambda x: x.astype("float32"), target, tmp_path)
    np.testing.assert_array_equal(found, every.astype(np.float32))
    with np.errstate(all="ignore"):
        floats = np.arange(0, 2**32, 2**16 + 1, dtype=np.uint64).astype(np.uint32).view(np.float32)[:65520]
        ties = (every.astype(np.float64) * (1 + 2.0**-11)).astype(np.float32)
        for values in (floats, ties):
            back = _elementwise([values], "float16", lambda x: x.astype("float16"), target, tmp_path)
            np.testing.assert_array_equal(back, values.astype(np.float16))


@pytest.mark.parametrize("board", ["generic-armv7", "generic-aarch64"])
def test_arm_agrees(board: str, tmp_path: Path) -> None:
    target = load_target(board)
    rng = np.random.default_rng(0)
    half = rng.standard_normal(64).astype(np.float16)
    found = _elementwise([half, half[::-1].copy()], "float16", lambda x, y: x * y, target, tmp_path)
    np.testing.assert_array_equal(found, half * half[::-1])
    a, b = _extremes("int64")
    with np.errstate(all="ignore"):
        found = _elementwise([a, b], "int64", tirx.floordiv, target, tmp_path)
        np.testing.assert_array_equal(found, np.floor_divide(a, b))


def test_max_keeps_its_first_operand_where_one_is_nan(tmp_path: Path) -> None:
    x = np.resize(np.array([np.nan, 1.0, -1.0, -0.0, np.inf, -np.inf], np.float32), 32)
    zero = tirx.const(0, "float32")
    for bits in (0, 256):
        found = _elementwise([x], "float32", lambda v: tirx.max(v, zero), wide_target(bits), tmp_path)
        np.testing.assert_array_equal(found, np.maximum(x, 0))


def test_vectors_with_a_name_are_used_where_elements_are_gathered(tmp_path: Path) -> None:
    """Interpolation names its clamped places and gathers at them: one variable for each native vector, no loop."""
    given = np.random.default_rng(0).standard_normal((1, 8, 8, 8)).astype("float32")
    x = te.placeholder(given.shape, name="x")
    y = topi.image.resize2d(x, [0.0] * 4, (16, 16), "NCHW", "linear", "half_pixel")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, y]))
    schedule.vectorize(schedule.get_loops(schedule.get_sblock("resize"))[-1])
    target = wide_target(256)
    source = emit_kernel(schedule.mod, target, "resize")
    found = run_kernel(source, target, [given, np.zeros((1, 8, 16, 16), "float32")], tmp_path, extra=SANITIZERS)[-1]
    place = np.maximum((np.arange(16) + 0.5) / 2 - 0.5, 0)
    low, part = place.astype(int), (place % 1).astype("float32")
    high = np.minimum(low + 1, 7)
    rows = given[:, :, low] * (1 - part)[:, None] + given[:, :, high] * part[:, None]
    np.testing.assert_allclose(found, rows[..., low] * (1 - part) + rows[..., high] * part, rtol=1e-5, atol=1e-6)
