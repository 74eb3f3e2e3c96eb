"""Zero points of integer products: sums without them are the same, and only sums that cannot overflow lose them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.integer_products import ZeroPoints, centred_weights
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from tests.examples import costly

TYPES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}


def ends_of(dtype: str) -> tuple[int, int]:
    """The least and the greatest number of a type."""
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


@costly(20)
@given(
    st.sampled_from(["ConvInteger", "MatMulInteger"]),
    st.tuples(st.sampled_from(sorted(TYPES)), st.sampled_from(sorted(TYPES))),
    st.tuples(*[st.sampled_from(["least", "greatest", "middle", "zero"])] * 2),
    st.integers(1, 19),
    st.booleans(),
    st.integers(1, 10_000),
)
def test_sums_are_those_of_the_definition(
    operator: str, types: tuple[str, str], zeros: tuple[str, str], channels: int, padded: bool, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    shapes = ((1, channels, 5, 6), (3, channels, 3, 2)) if operator == "ConvInteger" else ((4, channels), (channels, 3))
    arrays, points = [], []
    for dtype, shape, zero in zip(types, shapes, zeros, strict=True):
        low, high = ends_of(dtype)
        arrays.append(generator.choice([low, high, *generator.integers(low, high, 8)], shape).astype(dtype))
        points.append(
            np.array({"least": low, "greatest": high, "middle": (low + high + 1) // 2, "zero": 0}[zero], dtype)
        )
    attributes = {"pads": [1, 0, 1, 1]} if padded and operator == "ConvInteger" else {}
    node = helper.make_node(operator, ["x", "w", "xz", "wz"], ["y"], **attributes)
    stored = {"w": arrays[1], "xz": points[0], "wz": points[1]}
    ends = [
        helper.make_tensor_value_info("x", TYPES[types[0]], shapes[0]),
        helper.make_tensor_value_info("y", TensorProto.INT32, None),
    ]
    initializers = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    graph = helper.make_graph([node], "sums", ends[:1], ends[1:], initializers)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model = model_from_proto(proto, "0" * 64, "model", None, "model.onnx")
    program = to_program(import_onnx(model))
    (found,) = evaluate_program(program, [{"x": arrays[0]}])
    x, w = (array.astype("int64") - int(zero) for array, zero in zip(arrays, points, strict=True))
    np.testing.assert_array_equal(found["y"], x @ w if operator == "MatMulInteger" else convolved(x, w, padded))
    if w.min() >= -128 and w.max() <= 127 and w.size > 64:  # fewer are constants of the module, which are folded
        assert weights_of(program) == ["int8"]


def convolved(x: np.ndarray, w: np.ndarray, padded: bool) -> np.ndarray:
    """The definition of a convolution of (N, C, H, W), here with zeros around it or without."""
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 1))) if padded else x
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    sums: np.ndarray = np.einsum("nchwij,ocij->nohw", windows, w)
    return sums


def weights_of(program: Program) -> list[str]:
    """The types of the constants with several axes longer than 1."""
    params = (param for kernel in program.kernels for param in kernel.params if param.role == "constant")
    return sorted({param.dtype for param in params if sum(extent > 1 for extent in param.shape) > 1})


@pytest.mark.parametrize(
    ("terms", "data", "zero", "fits"),
    [
        (100, "int8", 127, True),
        ((2**31 - 1) // (128 * 128), "int8", 0, True),
        ((2**31 - 1) // (128 * 128) + 1, "int8", 0, False),
        ((2**31 - 1) // (255 * 128), "uint8", 0, True),
        ((2**31 - 1) // (255 * 128), "uint8", 255, False),
    ],
)
def test_sums_that_could_overflow_keep_their_zero_points(terms: int, data: str, zero: int, fits: bool) -> None:
    weights = np.full((terms, 2), -128, "int8")
    assert (centred_weights(weights, ZeroPoints(zero, 0, 0), data, (0,)) is not None) == fits


def test_weights_without_their_zero_point_are_of_8_bits() -> None:
    for weights, zero, fits in (([0, 255], 128, True), ([0, 255], 127, False), ([1, 128], 1, True)):
        found = centred_weights(np.array([weights], "uint8"), ZeroPoints(3, zero, 0), "int8", (1,))
        assert (found is not None) == fits
        if found is not None:
            assert found.integers.tolist() == [[weight - zero for weight in weights]]
            assert found.sums.tolist() == [[sum(weights) - 2 * zero]]
