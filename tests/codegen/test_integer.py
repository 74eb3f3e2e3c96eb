"""Vectors of bytes: widening, narrowing, rounding and multiply-add agree with numpy on every compiler and ISA."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from edgetune.codegen import KernelSource, emit_kernel, split_packing
from edgetune.graph.fixed_point import fixed_point_scale_once
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.rules.derivation import find_stages, ranked_structures
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.schedule.sketches.decisions import Chosen
from edgetune.schedule.sketches.spaces import core_of, derived, untouched
from edgetune.target.target import Target, load_target
from tests.codegen_run import compile_strictly, run_kernel, wide_target
from tests.integer_samples import Quantised, close

BOARDS = [load_target("generic-aarch64"), load_target("generic-armv7")] + [wide_target(n) for n in (128, 256, 512)]
IDS = ["aarch64", "armv7", "x86-128", "x86-256", "x86-512"]


def _elementwise(
    array: np.ndarray, to: str, body: Callable[..., Any], target: Target, folder: Path, cc: str | None
) -> np.ndarray:
    kernel = _vectorised(array, body, target)
    return run_kernel(kernel, target, [array, np.zeros(array.shape, to)], folder, cc=cc)[-1]


def _vectorised(array: np.ndarray, body: Callable[..., Any], target: Target, vectors: int = 1) -> KernelSource:
    """A kernel whose iterations compute so many vectors."""
    source = te.placeholder(array.shape, str(array.dtype), name="x")
    out = te.compute(array.shape, lambda i: body(source[i]), name="out")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([source, out]))
    lanes = max(1, target.vector_bits // 32)
    _, several, one = schedule.split(schedule.get_loops(schedule.get_sblock("out"))[-1], [None, vectors, lanes])
    schedule.unroll(several)
    schedule.vectorize(one)
    return emit_kernel(schedule.mod, target, "elementwise")


def _compilers(target: Target) -> list[str | None]:
    return [None, "clang-19"] if target.isa == "x86_64" else [None]


ROUNDED = [(tirx.nearbyint, np.rint), (tirx.floor, np.floor), (tirx.ceil, np.ceil), (tirx.trunc, np.trunc)]


@pytest.mark.parametrize(("function", "expected"), ROUNDED, ids=["nearest", "down", "up", "to_zero"])
@pytest.mark.parametrize("target", BOARDS, ids=IDS)
def test_rounding_is_exact_for_every_kind_of_number(
    target: Target, function: Callable[..., Any], expected: np.ufunc, tmp_path: Path
) -> None:
    special = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.49999997, 2.0**22 + 0.5, 2.0**23 - 0.5, 2.0**23 + 1]
    special += [2.0**24 + 2, -(2.0**31), 2.0**40, -3e38, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-39, -1e-39]
    special += [0.99999994, -0.99999994, 1.0000001, -1.0000001, 1 - 2.0**23, -0.5 - 2.0**22, -(2.0**23)]
    random = np.random.default_rng(1).uniform(-300, 300, 1000)
    numbers = np.concatenate([special, np.round(random * 2) / 2, random])
    x = np.resize(numbers, 2048).astype(np.float32)
    for cc in _compilers(target):
        result = _elementwise(x, "float32", function, target, tmp_path, cc)
        np.testing.assert_array_equal(result, expected(x))
        np.testing.assert_array_equal(np.signbit(result), np.signbit(expected(x)))


@pytest.mark.parametrize("target", BOARDS, ids=IDS)
def test_fake_quantisation_has_no_single_lane(target: Target, tmp_path: Path) -> None:
    x = np.linspace(-20, 20, 2048, dtype=np.float32)
    for function, expected in ROUNDED:

        def quantised(v: Any, function: Callable[..., Any] = function) -> Any:
            low, high, scale = (tirx.const(number, "float32") for number in (-128.0, 127.0, 0.125))
            return tirx.min(tirx.max(function(v * tirx.const(8.0, "float32")), low), high) * scale

        kernel = _vectorised(x, quantised, target)
        assert "__builtin_" not in kernel.definition
        result = run_kernel(kernel, target, [x, np.zeros_like(x)], tmp_path)[-1]
        np.testing.assert_array_equal(result, np.clip(expected(x * 8), -128, 127) / 8)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("target", BOARDS, ids=IDS)
def test_bytes_become_words_and_floats_become_bytes(target: Target, dtype: str, tmp_path: Path) -> None:
    numbers = np.arange(256).astype(np.uint8).view(dtype)
    limits = np.iinfo(dtype)
    floats = np.resize(np.arange(-300, 301, dtype=np.float32), 1024)

    def clamped(v: Any) -> Any:
        return tirx.min(tirx.max(v, tirx.const(limits.min, "float32")), tirx.const(limits.max, "float32"))

    for cc in _compilers(target):
        wide = _elementwise(numbers, "int32", lambda v: v.astype("int32") * 3 - 5, target, tmp_path, cc)
        np.testing.assert_array_equal(wide, numbers.astype(np.int32) * 3 - 5)
        half = tirx.const(0.5, "float32")
        real = _elementwise(numbers, "float32", lambda v, h=half: v.astype("float32") * h, target, tmp_path, cc)
        np.testing.assert_array_equal(real, numbers.astype(np.float32) / 2)
        narrow = _elementwise(floats, dtype, lambda v: clamped(v).astype(dtype), target, tmp_path, cc)
        np.testing.assert_array_equal(narrow, np.clip(floats, limits.min, limits.max).astype(dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("target", BOARDS, ids=IDS)
def test_computed_bytes_are_widened_and_multiplied(target: Target, dtype: str, tmp_path: Path) -> None:
    numbers = np.resize(np.arange(256).astype(np.uint8).view(dtype), 512)
    most = tirx.const(100, dtype)

    def squared(v: Any) -> Any:
        limited = tirx.min(v, most).astype("int32")
        return limited * limited + v.astype("int32")

    limits = np.minimum(numbers, 100)
    for cc in _compilers(target):
        half = _elementwise(numbers, "int16", lambda v: tirx.min(v, most).astype("int16"), target, tmp_path, cc)
        np.testing.assert_array_equal(half, limits.astype(np.int16))
        whole = _elementwise(numbers, "int32", squared, target, tmp_path, cc)
        np.testing.assert_array_equal(whole, limits.astype(np.int32) ** 2 + numbers)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("vectors", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("target", BOARDS, ids=IDS)
def test_vectors_are_rounded_and_narrowed_together(target: Target, vectors: int, dtype: str, tmp_path: Path) -> None:
    limits, zero = np.iinfo(dtype), -7 if dtype == "int8" else 200
    far = [2.0**31, -(2.0**31), 2.0**31 - 128, 3e38, -3e38, np.inf, -np.inf, 32767, 32768, -32768, -32769, 65536, 1e6]
    floats = np.resize(np.concatenate([np.arange(-600, 601) / 2, far]), 1536).astype(np.float32)
    ends = [2**31 - 1, -(2**31), 32767, 32768, -32768, -32769, 1 << 20, limits.max, limits.min]
    whole = np.resize(np.concatenate([np.arange(-300, 301), ends]), 1536).astype(np.int32)

    def limited(v: Any, kind: str = "int32") -> Any:
        return tirx.min(tirx.max(v, tirx.const(limits.min, kind)), tirx.const(limits.max, kind)).astype(dtype)

    def quantised(v: Any) -> Any:
        return limited(tirx.nearbyint(v * tirx.const(0.5, "float32")) + tirx.const(zero, "float32"), "float32")

    def halved(v: Any) -> Any:
        return limited(fixed_point_scale_once(v, tirx.const(0, "uint32")) + tirx.const(zero, "int32"))

    cases = [
        (floats, quantised, np.clip(np.rint(floats.astype("f8") / 2) + zero, limits.min, limits.max)),
        (whole, limited, np.clip(whole, limits.min, limits.max)),
        (whole, halved, np.clip((whole.astype(np.int64) + 1 >> 1) + zero, limits.min, limits.max)),
    ]
    for cc in _compilers(target):
        for array, body, expected in cases:
            kernel = _vectorised(array, body, target, vectors)
            assert ("@narrowed_each_" if vectors > 1 else "@narrowed_") in kernel.definition
            compile_strictly(kernel, target, tmp_path, cc or target.compiler.cc)
            found = run_kernel(kernel, target, [array, np.zeros(array.shape, dtype)], tmp_path, cc=cc)[-1]
            np.testing.assert_array_equal(found, expected.astype(dtype))


def _kernel(case: Quantised, target: Target) -> tuple[KernelSource, list[np.ndarray]]:
    function = case.function()
    module, packing = split_packing(replay(function, default_trace(function, target)[0]))
    arrays = [packing[i].apply(array) if i in packing else array for i, array in enumerate(case.arrays())]
    return emit_kernel(module, target, "kernel"), arrays


@pytest.mark.parametrize("case", [Quantised(), Quantised((5, 5, 16), 16, groups=16, residual=True, zeros=(3, -2))])
@pytest.mark.parametrize("target", BOARDS, ids=IDS)
def test_a_quantised_convolution_is_right_and_short(target: Target, case: Quantised, tmp_path: Path) -> None:
    source, arrays = _kernel(case, target)
    assert "ET_MAC_" in source.definition
    assert "nearbyintf" not in source.definition
    assert len(source.definition) < 60_000
    for cc in _compilers(target):
        compile_strictly(source, target, tmp_path, cc or target.compiler.cc)
        close(run_kernel(source, target, arrays, tmp_path, cc=cc)[-1], case.expected(*case.arrays()[:-1]))


def test_a_quantised_convolution_is_clean_under_sanitizers(tmp_path: Path) -> None:
    target, case = wide_target(128), Quantised()
    source, arrays = _kernel(case, target)
    extra = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1")
    close(
        run_kernel(source, target, arrays, tmp_path, cc="clang-19", extra=extra)[-1], case.expected(*case.arrays()[:-1])
    )


@pytest.mark.parametrize("divisor", [1, 3, 16, 1000, 10007])
@pytest.mark.parametrize("target", BOARDS, ids=IDS)
def test_vectors_divide_by_constants(target: Target, divisor: int, tmp_path: Path) -> None:
    """Rounded down or towards zero, as TVM's four divisions are."""
    ends = [-(2**31), 2**31 - 1, -1, 0, 1, divisor, -divisor, divisor - 1]
    x = np.resize(np.concatenate([ends, np.random.default_rng(1).integers(-(2**31), 2**31, 300)]), 512)
    x = x.astype(np.int32)
    wide = x.astype(np.int64)
    whole = np.trunc(wide / divisor).astype(np.int64)
    expected = {
        te.floordiv: wide // divisor,
        te.floormod: wide % divisor,
        te.truncdiv: whole,
        te.truncmod: wide - whole * divisor,
    }
    for function, value in expected.items():
        for cc in _compilers(target):
            result = _elementwise(x, "int32", lambda v, f=function: f(v, divisor), target, tmp_path, cc)
            np.testing.assert_array_equal(result, value.astype(np.int32))


def test_products_that_do_not_fit_wrap(tmp_path: Path) -> None:
    target = wide_target(512)
    x = np.array([2**31 - 1, -(2**31), 65537, 3] * 8, np.int32)
    result = _elementwise(x, "int32", lambda v: v * v + v * 70000, target, tmp_path, None)
    np.testing.assert_array_equal(result, (x.astype(np.int64) * x + x.astype(np.int64) * 70000).astype(np.int32))


def test_a_row_by_row_schedule_copies_no_reduction(tmp_path: Path) -> None:
    case, target = Quantised(), wide_target(512)
    function = case.function()
    analysis = analyse_blocks(function)
    assert analysis is not None
    stages = find_stages(untouched(function), analysis, 16)
    structure = ranked_structures(stages, core_of(function, target))[0]
    module = derived(function, stages, structure, Chosen({}), target).mod
    source = emit_kernel(module, target, "kernel")
    assert source.definition.count("for (") < 20
    assert len(source.definition) < 20_000  # copied, the reduction would be ten times that
    close(run_kernel(source, target, case.arrays(), tmp_path)[-1], case.expected(*case.arrays()[:-1]))
