"""Transposed convolutions with any stride, pads and groups are dense convolutions with the results of ONNX Runtime."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from tests.examples import costly
from tests.interpreter import run_program


def model(extents: list[int], weights: np.ndarray, *, bias: bool = False, **attributes: Any) -> onnx.ModelProto:
    """One ConvTranspose; its output shape is left to shape inference."""
    random = np.random.default_rng(1)
    constants = {"w": weights}
    if bias:
        channels = weights.shape[1] * attributes.get("group", 1)
        constants["b"] = random.standard_normal(channels).astype(np.float32)
    node = helper.make_node("ConvTranspose", ["x", *constants], ["y"], **attributes)
    shape = [2, weights.shape[0], *extents]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return onnx.shape_inference.infer_shapes(proto, strict_mode=True)


def compared(proto: onnx.ModelProto, shape: list[int], *others: list[int]) -> Program:
    """The program of a model, after a comparison of its results with those of ONNX Runtime.

    `shape` is that of the input "x", `others` those of the inputs "x1", "x2" and so on.
    """
    random = np.random.default_rng(0)
    feed = {"x": random.standard_normal(shape).astype(np.float32)}
    feed |= {f"x{n}": random.standard_normal(other).astype(np.float32) for n, other in enumerate(others, 1)}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    program = to_program(import_onnx(model_from_proto(proto, "0" * 64, "m", None, "m")))
    np.testing.assert_allclose(run_program(program, feed)["y"], session.run(None, feed)[0], rtol=1e-4, atol=1e-4)
    return program


@pytest.mark.long
@costly(15)
@given(st.data())
def test_any_transposed_convolution_is_that_of_onnx_runtime(data: st.DataObject) -> None:
    rank = data.draw(st.sampled_from([1, 2, 2, 3]), "rank")

    def each(low: int, high: int, name: str) -> list[int]:
        return [data.draw(st.integers(low, high), f"{name}{axis}") for axis in range(rank)]

    extents, taps, strides = each(1, 4, "extent"), each(1, 5, "taps"), each(1, 3, "stride")
    begin, end = each(0, 2, "begin"), each(0, 2, "end")
    spare = [data.draw(st.integers(0, stride - 1), "output padding") for stride in strides]
    groups = data.draw(st.sampled_from([1, 1, 2]), "groups")
    for i in range(rank):
        assume(strides[i] * (extents[i] - 1) + spare[i] + taps[i] > begin[i] + end[i])
    weights = np.random.default_rng(2).standard_normal((2 * groups, 3, *taps)).astype(np.float32)
    proto = model(
        extents, weights, bias=data.draw(st.booleans(), "bias"),
        strides=strides, pads=begin + end, output_padding=spare, group=groups,
    )  # fmt: skip
    compared(proto, [2, 2 * groups, *extents])


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize(("taps", "stride"), [(2, 2), (3, 2), (4, 2), (3, 1), (1, 2), (2, 3)])
def test_pads_are_those_of_auto_pad(auto_pad: str, taps: int, stride: int) -> None:
    weights = np.random.default_rng(3).standard_normal((2, 3, taps, taps)).astype(np.float32)
    compared(model([3, 4], weights, strides=[stride, stride], auto_pad=auto_pad), [2, 2, 3, 4])


@pytest.mark.long
@pytest.mark.parametrize(("taps", "stride", "pads"), [(2, 2, 0), (4, 2, 1), (3, 2, 1), (5, 3, 1), (3, 1, 1)])
def test_few_products_are_with_zeros(taps: int, stride: int, pads: int) -> None:
    weights = np.ones((8, 16, taps, taps), np.float32)
    program = compared(model([8, 8], weights, strides=[stride] * 2, pads=[pads] * 4), [2, 8, 8, 8])
    convolutions = [kernel for kernel in program.kernels if kernel.macs]
    products = sum(program.kernels[call.kernel].macs for call in program.calls)
    assert convolutions
    assert products <= 1.3 * 2 * 8 * 16 * (9 if stride > 1 else 8) ** 2 * taps**2


@pytest.mark.long
def test_few_bytes_of_weights_are_zeros() -> None:
    for taps, stride in ((3, 16), (2, 8), (1, 2), (5, 3)):
        weights = np.ones((8, 16, taps, taps), np.float32)
        program = compared(model([4, 4], weights, strides=[stride] * 2), [2, 8, 4, 4])
        assert sum(value.nbytes for value in program.constants.values()) <= 1.3 * weights.nbytes


def decoder(after: list[str], channels: int, taps: int, pads: int) -> onnx.ModelProto:
    """A transposed convolution with stride 2, operators after it, and a convolution; x1 goes through another one."""
    random = np.random.default_rng(1)
    extent = 2 * 8 - 2 + taps - 2 * pads
    joined = 2 * channels if "Concat" in after else channels
    constants = {
        "w": (8, channels, taps, taps),
        "b": (channels,),
        "near": (channels, 4, 3, 3),
        "last": (4, joined, 3, 3),
        **dict.fromkeys(("scale", "shift", "mean", "variance"), (channels,)),
    }
    values = {name: random.uniform(0.2, 1, shape).astype(np.float32) for name, shape in constants.items()}
    values |= {"low": np.array(0, np.float32), "high": np.array(6, np.float32)}
    more = {
        "Clip": ["low", "high"],
        "BatchNormalization": ["scale", "shift", "mean", "variance"],
        "Add": ["other"],
        "Concat": ["other"],
    }
    nodes = [
        helper.make_node("Conv", ["x1", "near"], ["other"], pads=[1] * 4),
        helper.make_node("ConvTranspose", ["x", "w", "b"], ["t0"], strides=[2, 2], pads=[pads] * 4),
    ]
    for n, operator in enumerate(after):
        attributes = {"axis": 1} if operator == "Concat" else {}
        nodes.append(helper.make_node(operator, [f"t{n}", *more.get(operator, [])], [f"t{n + 1}"], **attributes))
    nodes.append(helper.make_node("Conv", [f"t{len(after)}", "last"], ["y"], pads=[1] * 4))
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 8, 8]),
            helper.make_tensor_value_info("x1", TensorProto.FLOAT, [1, 4, extent, extent]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return onnx.shape_inference.infer_shapes(proto, strict_mode=True)


@pytest.mark.long
@pytest.mark.parametrize("after", [["BatchNormalization", "Relu"], ["Clip"], ["Add", "Relu"], ["Relu", "Concat"]])
@pytest.mark.parametrize(("channels", "taps", "pads"), [(16, 2, 0), (16, 4, 1), (5, 2, 0)])
def test_what_follows_needs_no_pass_and_no_memory(after: list[str], channels: int, taps: int, pads: int) -> None:
    extent = 2 * 8 - 2 + taps - 2 * pads
    program = compared(decoder(after, channels, taps, pads), [1, 8, 8, 8], [1, 4, extent, extent])
    copied = channels % 16 != 0 and "Concat" in after
    rest = {source for kernel in program.kernels if not kernel.macs for source in kernel.sources}
    assert rest <= ({"transpose", "copy"} if copied else {"transpose"})
    tensors = [buffer for buffer in program.buffers if buffer.kind == "intermediate"]
    assert sum(prod(tensor.shape) >= 5 * extent**2 for tensor in tensors) == (2 if "Add" in after or copied else 1)


@pytest.mark.long
def test_the_end_of_the_last_phases_is_left_out_without_a_copy() -> None:
    program = compared(decoder(["Relu"], 16, 3, 0), [1, 8, 8, 8], [1, 4, 17, 17])
    assert {source for kernel in program.kernels if not kernel.macs for source in kernel.sources} <= {"transpose"}


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_no_channels_are_no_dense_convolution(shape: tuple[int, int]) -> None:
    proto = model([5, 5], np.ones((*shape, 3, 3), np.float32))
    import_onnx(model_from_proto(proto, "0" * 64, "m", None, "m"))


def test_weights_that_are_computed_at_run_time_stay_a_transposed_convolution() -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])
    values = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 2, 3, 3]), ("w", [2, 3, 2, 2]))
    ]
    graph = helper.make_graph(
        [node], "g", values, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 6, 6])]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    random = np.random.default_rng(0)
    feed = {
        name: random.standard_normal(shape).astype(np.float32)
        for name, shape in (("x", (1, 2, 3, 3)), ("w", (2, 3, 2, 2)))
    }
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    program = to_program(import_onnx(model_from_proto(proto, "0" * 64, "m", None, "m")))
    np.testing.assert_allclose(run_program(program, feed)["y"], session.run(None, feed)[0], rtol=1e-4, atol=1e-4)
