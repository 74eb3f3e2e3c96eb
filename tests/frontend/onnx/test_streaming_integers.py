"""States of quantised models are integers, and their steps have the integers of the window."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from edgetune.frontend.onnx.streaming import InputStream, StepModel, step_model
from edgetune.frontend.tflite.format import FORMAT as TFLITE
from edgetune.frontend.tflite.format import LoadedTflite
from tests.frontend.onnx.streamed import Network, equals_window, exactly, feeds_of, read, stepped, stepped_model

FEATURES = 4


def padded_quantised(frames: int) -> onnx.ModelProto:
    """Integers, in pairs of operators, with zero points that are not 0; padding before and within the convolution."""
    net = Network(opset=19)
    scale, point = net.constant(0.0625), net.constant(-7, "int8")

    def quantised(value: str) -> str:
        return net.add("DequantizeLinear", net.add("QuantizeLinear", value, scale, point), scale, point)

    x = net.input("x", (1, FEATURES, frames))
    x = quantised(net.add("Pad", quantised(x), net.constant([0, 0, 2, 0, 0, 0], "int64"), net.constant(0.5)))
    weights = net.constant(np.random.default_rng(1).integers(-9, 9, (3, FEATURES, 3)), "int8")
    x = net.add("Conv", x, net.add("DequantizeLinear", weights, scale), pads=[1, 1])
    x = net.add("MaxPool", quantised(x), kernel_shape=[3], pads=[2, 0])
    return net.proto(quantised(x))


@pytest.mark.parametrize("hop", [1, 4])
def test_states_are_integers_where_tensors_are(hop: int) -> None:
    found = equals_window(padded_quantised, 24, {"x": InputStream(2, hop)}, opened=exactly)
    assert [state.first.dtype.name for state in found.states] == ["int8", "int8"]
    assert found.latency_frames == 0


def integers(frames: int) -> onnx.ModelProto:
    net = Network()
    x = net.input("x", (1, 2, frames), TensorProto.UINT8)
    weights = net.constant(np.random.default_rng(1).integers(0, 9, (3, 2, 3)), "uint8")
    return net.proto(net.add("ConvInteger", x, weights, net.constant(11, "uint8"), pads=[2, 0]))


def test_integer_convolution() -> None:
    found = equals_window(integers, 24, {"x": InputStream(2)})
    assert (found.states[0].first == 11).all()


def test_names_of_states_are_new() -> None:
    net = Network()
    x = net.add("Identity", net.conv(net.input("x", (1, 2, 9)), (2, 2), 3))
    net.input("x_state", (1,))
    found: StepModel = step_model(read(net.proto(x, net.add("Neg", "x_state"))), {"x": InputStream(2)})
    assert [(state.name_in, state.name_out) for state in found.states] == [("x_state_2", "x_state_2_next")]


def quantised_operators(frames: int) -> onnx.ModelProto:
    net = Network()
    scale, zero = net.constant(0.25), net.constant(-5, "int8")
    x = net.input("x", (1, 2, frames), TensorProto.INT8)
    draw = np.random.default_rng(1)
    weights = net.constant(draw.integers(-9, 9, (3, 2, 3)), "int8")
    x = net.add("QLinearConv", x, scale, zero, weights, scale, net.constant(0, "int8"), scale, zero, pads=[2, 0])
    x = net.add("Transpose", x, perm=[0, 2, 1])
    weights = net.constant(draw.integers(-9, 9, (3, 4)), "int8")
    return net.proto(net.add("QLinearMatMul", x, scale, zero, weights, scale, zero, scale, zero))


@pytest.mark.parametrize("hop", [1, 4])
def test_quantised_operators(hop: int) -> None:
    found = equals_window(quantised_operators, 16, {"x": InputStream(2, hop)}, opened=exactly, steps=20)
    assert [(state.first.dtype.name, state.first.flat[0]) for state in found.states] == [("int8", -5)]


def late_quantised(frames: int) -> onnx.ModelProto:
    """A branch that waits for the other one, and a product behind it that reads a window."""
    net = Network(opset=19)
    scale, zero = net.constant(0.0625), net.constant(3, "int8")

    def quantised(value: str) -> str:
        return net.add("DequantizeLinear", net.add("QuantizeLinear", value, scale, zero), scale, zero)

    x = quantised(net.input("x", (1, 2, frames)))
    y = quantised(net.conv(x, (2, 2), 3))
    x = quantised(net.add("Slice", x, *(net.constant([one], "int64") for one in (1, -1, 2))))
    both = quantised(net.add("Concat", x, y, axis=1))
    return net.proto(net.add("Gemm", net.add("Flatten", both), net.weight(4 * (frames - 2), 3)))


@pytest.mark.parametrize("hop", [1, 3])
def test_late_integers(hop: int) -> None:
    found = equals_window(late_quantised, 12, {"x": InputStream(2, hop)}, steps=30)
    assert {state.first.dtype.name for state in found.states} == {"int8"}


def test_wake_word() -> None:
    """A network of 30 frames, in integers: a step computes one frame of each layer."""
    file = Path(__file__).parents[4] / "shared" / "models" / "mlperf_tiny" / "sww_int8.tflite"
    loaded = TFLITE.read(file).with_shapes({})
    assert isinstance(loaded, LoadedTflite)
    model = loaded.onnx.model
    (value,), (output,) = model.proto.graph.input, model.proto.graph.output
    streams = {value.name: InputStream(1)}
    found = step_model(model, streams)
    assert found.by_output[output.name].settled == 29
    assert {state.first.dtype.name for state in found.states} == {"int8"}
    costs = stepped_model(model, streams).stream()
    assert (costs.step_macs, costs.window_macs, found.state_bytes) == (46_040, 826_368, 3_536)
    frames = feeds_of(model, streams, 34)
    results = stepped(found, streams, frames, 34, exactly(found.model))
    for k in range(29, 34):
        wanted = exactly(model)({value.name: frames[value.name][:, k - 29 : k + 1]})[output.name]
        np.testing.assert_array_equal(results[k][output.name], wanted)
