"""A model of one step computes, step by step, what the model of a window computes at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgetune.frontend.onnx.reader import read_onnx
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.frontend.onnx.streaming import InputStream, step_model
from tests.frontend.onnx.streamed import Network, equals_window, read, stepped_model

FEATURES = 4


def dilated(frames: int, *, left: int, right: int) -> onnx.ModelProto:
    """Six convolutions of 3 frames with dilations of 1 to 32; `left` and `right` are shares of their padding."""
    net = Network()
    x = net.input("x", (1, FEATURES, frames))
    for level in range(6):
        rate = 2**level
        pads = [rate * left, rate * right]
        y = net.add("Relu", net.conv(x, (FEATURES, FEATURES), 3, dilations=[rate], pads=pads))
        x = net.add("Add", x, y)
    return net.proto(x)


@pytest.mark.parametrize("hop", [1, 4])
def test_causal_dilated_convolutions(hop: int) -> None:
    found = equals_window(partial(dilated, left=2, right=0), 128, {"x": InputStream(2, hop)})
    assert found.latency_frames == 0
    assert found.state_bytes == 4 * FEATURES * 2 * 63


@pytest.mark.parametrize("hop", [1, 4])
def test_padding_on_both_sides_delays(hop: int) -> None:
    found = equals_window(partial(dilated, left=1, right=1), 64, {"x": InputStream(2, hop)}, steps=200 // hop)
    assert [output.latency for output in found.by_output.values()] == [63]
    assert found.latency_frames == -(-63 // hop) * hop


def flattened(frames: int, *, stride: int = 1, kernel: int = 3) -> onnx.ModelProto:
    net = Network()
    x = net.input("x", (1, FEATURES, frames))
    y = net.add("Relu", net.conv(x, (FEATURES, 3), kernel, strides=[stride]))
    y = net.add("Relu", net.conv(y, (3, 2), kernel))
    rows = (frames - kernel) // stride + 1 - kernel + 1
    return net.proto(net.add("Gemm", net.add("Flatten", y), net.weight(2 * rows, 5)))


@pytest.mark.parametrize(
    ("window", "stride", "hop"), [(12, 1, 1), (12, 1, 4), (13, 1, 4), (12, 2, 2), (13, 2, 2), (14, 2, 4), (8, 1, 8)]
)
def test_convolutions_into_a_matrix_product(window: int, stride: int, hop: int) -> None:
    """Also windows that begin between two frames of the first layer, as they are counted from the reset."""
    found = equals_window(partial(flattened, stride=stride), window, {"x": InputStream(2, hop)}, steps=45)
    assert found.by_output["gemm5"].axis is None


def encoder(frames: int, *, pads: tuple[int, int] = (2, 0)) -> onnx.ModelProto:
    net = Network()
    x = net.input("x", (1, 2, frames))
    for channels in ((2, 4), (4, 6)):
        x = net.add("Relu", net.conv(x, channels, 3, strides=[2], pads=list(pads)))
    return net.proto(x)


@pytest.mark.parametrize("pads", [(2, 0), (1, 0), (1, 1), (0, 0), (3, 0), (5, 1)])
def test_strides(pads: tuple[int, int]) -> None:
    found = equals_window(partial(encoder, pads=pads), 32, {"x": InputStream(2, 4)})
    assert found.by_output["relu3"].frames == 1


def keyword(frames: int, *, pool: int = 25) -> onnx.ModelProto:
    """Time on the third axis, frequency on the fourth one."""
    net = Network()
    x = net.input("x", (1, 1, frames, 10))
    x = net.add("Pad", x, net.constant([0, 0, 9, 1, 0, 0, 0, 1], "int64"))
    x = net.add("Relu", net.conv(x, (1, 8), 10, 4, strides=[1, 2]))
    for _ in range(2):
        x = net.add("Pad", x, net.constant([0, 0, 2, 1, 0, 0, 0, 1], "int64"))
        x = net.add("Relu", net.conv(x, (8, 8), 3, 3, group=8))
        x = net.add("Relu", net.conv(x, (8, 8), 1, 1))
    x = net.add("AveragePool", x, kernel_shape=[pool, 5])
    x = net.add("Transpose", x, perm=[0, 2, 1, 3])
    x = net.add("Reshape", x, net.constant([1, -1, 8], "int64"))
    return net.proto(net.add("Softmax", net.add("MatMul", x, net.weight(8, 4))))


@pytest.mark.parametrize("hop", [1, 4])
def test_separable_convolutions_with_a_mean_of_the_last_frames(hop: int) -> None:
    equals_window(keyword, 49, {"x": InputStream(2, hop)}, steps=80)
    costs = stepped_model(read(keyword(49)), {"x": InputStream(2, hop)}).stream()
    assert costs.step_macs * 10 < costs.window_macs * hop


def residual(frames: int, *, crops: bool) -> onnx.ModelProto:
    """Branches of unequal latency: padded on both sides, or without padding and cropped."""
    net = Network()
    x = net.input("x", (1, FEATURES, frames))
    for kernel in (3, 5):
        half = kernel // 2
        y = net.conv(x, (FEATURES, FEATURES), kernel, pads=[0, 0] if crops else [half, half])
        if crops:
            bounds = [net.constant([one], "int64") for one in (half, -half, 2)]
            x = net.add("Slice", x, *bounds)
        x = net.add("Tanh", net.add("Add", y, x))
    return net.proto(x)


@pytest.mark.parametrize("hop", [1, 4])
@pytest.mark.parametrize("crops", [False, True])
def test_branches_of_unequal_latency(hop: int, *, crops: bool) -> None:
    found = equals_window(partial(residual, crops=crops), 40, {"x": InputStream(2, hop)})
    assert found.by_output["tanh5" if not crops else "tanh7"].latency == (6 if crops else 3)


def branched(frames: int, *, mixes: bool) -> onnx.ModelProto:
    """Layers read one value, each with another number of frames before it; one reads a later value too."""
    net = Network()
    x = net.add("Tanh", net.input("x", (1, 2, frames)))
    y = net.conv(x, (2, 2), 3, pads=[1, 1])
    parts = [net.add("Add", x, y), *(net.conv(x, (2, 2), 3, dilations=[d], pads=[2 * d, 0]) for d in (1, 4, 2))]
    parts.append(net.add("MaxPool", x, kernel_shape=[3], pads=[2, 0]))
    if mixes:
        parts = [net.add("Concat", net.conv(x, (2, 2), 3), net.conv(x, (2, 2), 2), axis=2), net.add("ReduceMean", x)]
        return net.proto(*parts)
    return net.proto(net.add("Concat", *parts, axis=1))


@pytest.mark.parametrize("hop", [1, 4])
@pytest.mark.parametrize("mixes", [False, True])
def test_branches_share_a_state(hop: int, *, mixes: bool) -> None:
    found = equals_window(partial(branched, mixes=mixes), 16, {"x": InputStream(2, hop)})
    of_input = [state.first.shape[2] for state in found.states if state.name_in.startswith("tanh0")]
    assert sorted(of_input) == ([16 - hop] if mixes else [2, 8])


def two_inputs(frames: int) -> onnx.ModelProto:
    net = Network()
    x, y = net.input("x", (1, 3, frames)), net.input("y", (1, frames, 3))
    z = net.input("z", (1, 3, 1))
    x = net.conv(x, (3, 3), 3, pads=[1, 1])
    y = net.add("Transpose", net.add("Sigmoid", y), perm=[0, 2, 1])
    both = net.add("Concat", x, net.add("Mul", y, z), axis=1)
    return net.proto(net.conv(both, (6, 2), 2, pads=[1, 0]))


@pytest.mark.parametrize("hop", [1, 4])
def test_two_streams(hop: int) -> None:
    """And an input that is none."""
    found = equals_window(two_inputs, 20, {"x": InputStream(2, hop), "y": InputStream(1, hop)})
    assert [state.first.shape for state in found.states] == [(1, 3, 2), (1, 3, 1), (), (1, 6, 1)]


def last_frame(frames: int, *, gathers: bool) -> onnx.ModelProto:
    net = Network()
    x = net.input("x", (1, FEATURES, frames))
    x = net.add("Relu", net.conv(x, (FEATURES, 3), 3, pads=[2, 0]))
    x = net.add("Relu", net.conv(x, (3, 3), 3, pads=[2, 0]))
    if gathers:
        x = net.add("Gather", x, net.constant(-1, "int64"), axis=2)
    else:
        x = net.add("Slice", x, *(net.constant([one], "int64") for one in (-1, 2**62, 2)))
        x = net.add("Squeeze", x, net.constant([2], "int64"))
    return net.proto(net.add("Gemm", x, net.weight(3, 5)))


@pytest.mark.parametrize("hop", [1, 4])
@pytest.mark.parametrize("gathers", [False, True])
def test_last_frame(hop: int, *, gathers: bool) -> None:
    """It counts at once: frames before the reset are padding, as they are for the window."""
    found = equals_window(partial(last_frame, gathers=gathers), 20, {"x": InputStream(2, hop)}, of_all_frames=True)
    assert found.latency_frames == 0


def squeezed(frames: int) -> onnx.ModelProto:
    """A gate that depends on the mean of the window."""
    net = Network()
    x = net.input("x", (1, FEATURES, frames))
    x = net.conv(x, (FEATURES, 3), 3)
    gate = net.add("Sigmoid", net.add("ReduceMean", x, axes=[2], keepdims=1))
    y = net.add("Mul", x, gate)
    return net.proto(net.add("GlobalMaxPool", y))


@pytest.mark.parametrize("hop", [1, 3])
def test_what_joins_a_window_reads_a_window(hop: int) -> None:
    equals_window(squeezed, 12, {"x": InputStream(2, hop)})


def attention(frames: int) -> onnx.ModelProto:
    net = Network()
    x = net.input("x", (1, frames, 4))
    query, key, value = (net.add("MatMul", x, net.weight(4, 4)) for _ in range(3))
    scores = net.add("MatMul", query, net.add("Transpose", key, perm=[0, 2, 1]))
    return net.proto(net.add("MatMul", net.add("Softmax", scores, axis=-1), value))


def test_products_along_time_read_the_window() -> None:
    found = equals_window(attention, 6, {"x": InputStream(1)})
    assert len(found.states) == 3


def shaped(frames: int) -> onnx.ModelProto:
    """Shapes that the model computes, as exporters write them."""
    net = Network()
    x = net.input("x", (2, 3, frames))
    extents = net.add("Shape", x)
    batch = net.add("Slice", extents, net.constant([0], "int64"), net.constant([1], "int64"))
    rest = net.constant([3, 1, -1], "int64")
    x = net.add("Reshape", x, net.add("Concat", batch, rest, axis=0))
    x = net.conv(x, (3, 4), 1, 3)
    zeros = net.add("ConstantOfShape", net.add("Shape", x))
    return net.proto(net.add("Squeeze", net.add("Concat", x, zeros, axis=1), net.constant([2], "int64")))


def test_shapes_that_a_model_computes() -> None:
    equals_window(shaped, 16, {"x": InputStream(2, 2)})


def old(frames: int) -> onnx.ModelProto:
    """Axes as attributes, and a Softmax of all axes from one on."""
    net = Network(opset=11)
    x = net.input("x", (1, 2, frames))
    x = net.add("Unsqueeze", net.conv(x, (2, 4), 3, pads=[2, 0]), axes=[3])
    x = net.add("Squeeze", net.add("Transpose", x, perm=[0, 2, 1, 3]), axes=[3])
    return net.proto(net.add("Softmax", x, axis=2))


def test_old_opset() -> None:
    equals_window(old, 16, {"x": InputStream(2, 2)})


def test_large_tensors_stay_outside(tmp_path: Path) -> None:
    net = Network()
    x = net.conv(net.input("x", (1, 64, 9)), (64, 128), 3)
    onnx.save(net.proto(x), tmp_path / "m.onnx", save_as_external_data=True, size_threshold=1024)
    model = read_onnx(tmp_path / "m.onnx")
    found = step_model(model, {"x": InputStream(2)})
    assert list(found.model.weights) == list(model.weights) == ["w0"]
    frames = np.random.default_rng(1).standard_normal((1, 64, 3)).astype("f4")
    feed = {"x": frames[..., 2:], found.states[0].name_in: frames[..., :2]}
    wanted = evaluate_model(model, [{"x": np.pad(frames, [(0, 0), (0, 0), (0, 6)])}])[0]["conv0"]
    result = evaluate_model(found.model, [feed])[0]
    np.testing.assert_allclose(result["conv0"], wanted[..., :1], rtol=1e-4, atol=1e-5)
