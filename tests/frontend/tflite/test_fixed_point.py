"""The fixed point of TensorFlow Lite: its definition in ONNX, in TIR and in C, against integers without a limit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from tvm import te

from edgetune.codegen import emit_kernel
from edgetune.frontend.onnx.fixed_point import DOMAIN, ONCE, TWICE, fixed_point_functions, fixed_point_scales
from edgetune.graph.evaluate import evaluate
from edgetune.graph.fixed_point import fixed_point_scale, fixed_point_scale_once
from edgetune.graph.fixed_point_calls import scaled
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from edgetune.target.target import load_target
from edgetune.tvm_types import Expr, PrimFunc
from tests.codegen_run import SANITIZERS, STRICT, run_kernel, wide_target

SUMS = st.integers(-(1 << 31), (1 << 31) - 1)
Scaling = Callable[[Expr, Expr], Expr]
FACTORS = st.floats(2.0**-36, 0.999, allow_subnormal=False)


def parts(scale: int) -> tuple[int, int]:
    """Multiplier and shift of a scale."""
    return ((scale >> 5) + (1 << 27)) << 3, scale & 31


def twice(x: int, scale: int) -> int:
    """As `MultiplyByQuantizedMultiplier`: SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT."""
    multiplier, right = parts(scale)
    high = (x * multiplier + (1 << 30)) >> 31
    rest, threshold = high & ((1 << right) - 1), (((1 << right) - 1) >> 1) + (high < 0)
    return (high >> right) + (rest > threshold)


def once(x: int, scale: int) -> int:
    multiplier, right = parts(scale)
    return (x * multiplier + (1 << (30 + right))) >> (31 + right)


def by_onnx(name: str, values: np.ndarray, scales: np.ndarray) -> np.ndarray:
    graph = helper.make_graph(
        [helper.make_node(name, ["x", "scale"], ["y"], domain=DOMAIN)],
        "scaled",
        [
            helper.make_tensor_value_info("x", TensorProto.INT32, values.shape),
            helper.make_tensor_value_info("scale", TensorProto.UINT32, scales.shape),
        ],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=fixed_point_functions(), ir_version=10)
    (found,) = ReferenceEvaluator(model).run(None, {"x": values, "scale": scales})
    return np.asarray(found)


def kernel(expression: Scaling, count: int) -> PrimFunc:
    """A function of `count` sums and their scales."""
    x, scale = te.placeholder((count,), "int32", "x"), te.placeholder((count,), "uint32", "scale")
    scaled = te.compute((count,), lambda i: expression(x[i], scale[i]), "scaled")
    return te.create_prim_func([x, scale, scaled])


@given(x=SUMS, factor=FACTORS)
@example(x=(1 << 31) - 1, factor=0.999)
@example(x=(1 << 31) - 1, factor=0.01)
@example(x=-(1 << 31), factor=0.01)
@example(x=-1, factor=0.5)
@example(x=-3, factor=0.5)
@example(x=3, factor=0.5)
@example(x=(1 << 30) + 1, factor=2.0**-31)
def test_the_definitions_in_onnx_and_in_numpy(x: int, factor: float) -> None:
    scales, left = fixed_point_scales(np.array([factor]))
    assert not left.any()
    for name, wanted in ((TWICE, twice), (ONCE, once)):
        (found,) = by_onnx(name, np.array([x], np.int32), scales)
        assert found == wanted(x, int(scales[0]))
        assert scaled(np.array([x]), scales, once=name == ONCE) == found


@given(factor=st.floats(2.0**-31, 2.0**20, allow_subnormal=False))
def test_a_scale_has_28_bits_of_its_factor(factor: float) -> None:
    scales, left = fixed_point_scales(np.array([factor]))
    multiplier, right = parts(int(scales[0]))
    assert multiplier * 2.0 ** (int(left[0]) - right - 31) == pytest.approx(factor, rel=2.0**-28)


def cases() -> tuple[np.ndarray, np.ndarray]:
    """Sums and scales, among them all that are special."""
    draw = np.random.default_rng(7)
    edges = np.repeat([(1 << 31) - 1, -(1 << 31), 1 << 30, -(1 << 30), 1, -1, 3, -3], 32)
    sums = np.concatenate([draw.integers(-(1 << 24), 1 << 24, 496), [0] * 16, edges])
    shifts = np.tile(np.exp2(-0.01 - np.arange(32)), 8)  # each edge with each shift
    factors = np.concatenate([np.exp2(draw.uniform(-33, -0.01, len(sums) - 258)), [0.5, 0.5], shifts])
    return sums.astype(np.int32), fixed_point_scales(factors)[0]


@pytest.mark.parametrize(("expression", "wanted"), [(fixed_point_scale, twice), (fixed_point_scale_once, once)])
def test_the_same_by_llvm(expression: Scaling, wanted: Callable[[int, int], int]) -> None:
    sums, scales = cases()
    (found,) = evaluate(kernel(expression, len(sums)), [sums, scales], [(sums.shape, "int32")])
    assert found.tolist() == list(map(wanted, sums.tolist(), scales.tolist()))


@pytest.mark.long
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
@pytest.mark.parametrize("bits", [0, 128, 256, 512])
def test_the_same_in_c(tmp_path: Path, bits: int, cc: str) -> None:
    sums, scales = cases()
    count = len(sums) // 16 * 16
    target = wide_target(bits)
    for expression, wanted in ((fixed_point_scale, twice), (fixed_point_scale_once, once)):
        function = kernel(expression, count)
        source = emit_kernel(replay(function, default_trace(function, target)[0]), target, expression.__name__)
        assert ("@vfixed_point_scale" in source.definition) == bool(bits)
        arrays = [sums[:count], scales[:count], np.zeros(count, np.int32)]
        found = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=(*STRICT, *SANITIZERS))[-1]
        assert found.tolist() == list(map(wanted, sums[:count].tolist(), scales[:count].tolist()))


@pytest.mark.parametrize("board", ["qemu-aarch64", "qemu-armv7"])
def test_the_same_on_boards(tmp_path: Path, board: str) -> None:
    sums, scales = cases()
    count, target = len(sums) // 16 * 16, load_target(board)
    function = kernel(fixed_point_scale, count)
    source = emit_kernel(replay(function, default_trace(function, target)[0]), target, "scaled")
    found = run_kernel(source, target, [sums[:count], scales[:count], np.zeros(count, np.int32)], tmp_path)[-1]
    assert found.tolist() == list(map(twice, sums[:count].tolist(), scales[:count].tolist()))
