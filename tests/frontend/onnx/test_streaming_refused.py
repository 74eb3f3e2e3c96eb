"""What has no step is refused by node, all nodes at once, with what to do."""

from __future__ import annotations

import re
from collections.abc import Callable

import onnx
import pytest
from onnx import TensorProto, helper

from edgetune.errors import EdgetuneError, ModelError, UnsupportedOperator
from edgetune.frontend.onnx.streaming import InputStream, step_model
from tests.frontend.onnx.streamed import Network, read

FRAMES = 12
Layers = Callable[[Network, str], str]


def built(layers: Layers) -> onnx.ModelProto:
    net = Network()
    return net.proto(layers(net, net.input("x", (1, 4, FRAMES))))


def bidirectional(net: Network, x: str) -> str:
    weights = [net.weight(2, 9, 4), net.weight(2, 9, 3)]
    x = net.add("Transpose", x, perm=[2, 0, 1])
    return net.add("GRU", x, *weights, hidden_size=3, direction="bidirectional")


def resized(net: Network, x: str) -> str:
    return net.add("Resize", x, "", net.constant([1, 1, 2]), mode="nearest")


def padded_window(net: Network, x: str) -> str:
    x = net.conv(x, (4, 2), 3, pads=[2, 0])
    return net.add("Gemm", net.add("Flatten", x), net.weight(2 * FRAMES, 3))


def padded_mean(net: Network, x: str) -> str:
    return net.add("GlobalAveragePool", net.conv(x, (4, 2), 3, pads=[2, 0]))


def recurrent_mean(net: Network, x: str) -> str:
    x = net.add("Transpose", x, perm=[2, 0, 1])
    y = net.add("RNN", x, net.weight(1, 3, 4), net.weight(1, 3, 3), hidden_size=3)
    return net.add("ReduceMean", y, axes=[0])


def mean_of_whole_padded_window(net: Network, x: str) -> str:
    x = net.add("AveragePool", net.conv(x, (4, 2), 3, pads=[2, 0]), kernel_shape=[FRAMES], strides=[FRAMES])
    return net.add("Flatten", x)


def last_of_late(net: Network, x: str) -> str:
    x = net.conv(x, (4, 2), 3, pads=[1, 1])
    return net.add("Gather", x, net.constant(FRAMES - 1, "int64"), axis=2)


def uncounted(net: Network, x: str) -> str:
    return net.add("AveragePool", x, kernel_shape=[3], pads=[2, 0])


def reflected(net: Network, x: str) -> str:
    return net.add("Pad", x, net.constant([0, 0, 2, 0, 0, 0], "int64"), mode="reflect")


def placed(net: Network, x: str) -> str:
    return net.add("Add", x, net.weight(1, 4, FRAMES))


def strided(net: Network, x: str) -> str:
    return net.conv(x, (4, 2), 2, strides=[2])


def uneven(net: Network, x: str) -> str:
    y = net.add("Resize", x, "", net.constant([1, 1, 2]), mode="nearest")
    z = net.add("CumSum", x, net.constant(2, "int64"))
    return net.add("Concat", net.add("Relu", y), z, axis=2)


@pytest.mark.parametrize(
    ("layers", "sentence"),
    [
        (bidirectional, "GRU.*'gru1'.* is bidirectional, so its first result needs the last frame"),
        (resized, "Resize.*'resize0'.* changes the number of frames"),
        (padded_window, "Flatten.*'flatten1'.* pads inside the window"),
        (padded_mean, "GlobalAveragePool.* pads inside the window"),
        (recurrent_mean, "ReduceMean.* keeps a state"),
        (mean_of_whole_padded_window, "AveragePool.*'averagepool1'.* pads inside the window"),
        (last_of_late, "Gather.* needs the last frames"),
        (uncounted, "AveragePool.* count_include_pad"),
        (reflected, "Pad.* 'reflect'"),
        (placed, "Add.*reads 'w0', which is not the same for all frames"),
        (strided, "Conv.* advances by 2 frames.* the 1 that a step has here; choose a HOP 2 times as large"),
        (uneven, "Resize.*'resize0'.*; .*CumSum.*'cumsum1'"),
    ],
)
def test_refused(layers: Layers, sentence: str) -> None:
    with pytest.raises(UnsupportedOperator) as refused:
        step_model(read(built(layers)), {"x": InputStream(2)})
    assert re.search(sentence, refused.value.message)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    ("streams", "sentence"),
    [
        ({"y": InputStream(2)}, "--stream names the input 'y', but m has the inputs x: give --stream NAME:AXIS"),
        ({"x": InputStream(3)}, "--stream names axis 3 of input 'x'"),
        ({"x": InputStream(-4)}, "--stream names axis -4 of input 'x'"),
        ({"x": InputStream(0)}, "axis 0 of input 'x', which has one element"),
        ({"x": InputStream(2, 0)}, "give --stream x:2=HOP with a HOP of 1 to 12"),
        ({"x": InputStream(2, 13)}, "give --stream x:2=HOP with a HOP of 1 to 12"),
        ({}, "name one of x"),
    ],
)
def test_streams_that_a_model_has_not(streams: dict[str, InputStream], sentence: str) -> None:
    model = read(built(lambda net, x: net.add("Relu", x)))
    with pytest.raises(ModelError, match=re.escape(sentence)):
        step_model(model, streams)


def test_windows_between_frames_of_an_output() -> None:
    net = Network()
    x = net.conv(net.input("x", (1, 4, 13)), (4, 2), 3, strides=[2])
    y = net.add("Flatten", x)
    with pytest.raises(EdgetuneError, match="choose a HOP that divides the window"):
        step_model(read(net.proto(x, y)), {"x": InputStream(2, 2)})


def test_streams_of_unequal_pace() -> None:
    net = Network()
    x, y = net.input("x", (1, 4, 12)), net.input("y", (1, 4, 18))
    cut = net.add("Slice", y, *(net.constant([one], "int64") for one in (6, 18, 2)))
    with pytest.raises(UnsupportedOperator, match="unequal frames"):
        step_model(read(net.proto(net.add("Add", x, cut))), {"x": InputStream(2, 2), "y": InputStream(2, 3)})


def test_streams_whose_windows_are_unequally_long() -> None:
    net = Network()
    means = [net.add("ReduceMean", net.input(name, (1, 4, frames)), axes=[2]) for name, frames in (("x", 12), ("y", 6))]
    model = read(net.proto(net.add("Concat", *means, axis=1)))
    with pytest.raises(ModelError, match="window of input 'x' of m is 6 steps long, and that of 'y' 3; choose a HOP"):
        step_model(model, {"x": InputStream(2, 2), "y": InputStream(2, 2)})
    step_model(model, {"x": InputStream(2, 2), "y": InputStream(2)})


def test_inputs_of_frames_that_are_no_streams() -> None:
    net = Network()
    x, y = net.input("x", (1, 4, 12)), net.add("Relu", net.input("y", (1, 4, 12)))
    with pytest.raises(UnsupportedOperator, match=r"Add .*reads 'relu0', .* made of inputs that are no streams; make"):
        step_model(read(net.proto(net.add("Add", x, y))), {"x": InputStream(2)})


def test_operators_of_other_domains() -> None:
    """They may have the name of one that has a rule."""
    net = Network()
    proto = net.proto(net.add("Relu", net.input("x", (1, 4, 12)), domain="com.example"))
    proto.opset_import.append(helper.make_opsetid("com.example", 1))
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("relu0", TensorProto.FLOAT, (1, 4, 12)))
    with pytest.raises(UnsupportedOperator, match=r"com\.example::Relu .* has no form"):
        step_model(read(proto), {"x": InputStream(2)})
