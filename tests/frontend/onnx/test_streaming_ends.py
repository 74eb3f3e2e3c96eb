"""Both ends of a window: what pads after its last frame, and layers with a stride that begin between two frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx
import pytest

from edgetune.config.input_stream import InputStream
from edgetune.errors import EdgetuneError, UnsupportedOperator
from edgetune.frontend.onnx.streaming import OutputFrames, step_model
from tests.frontend.onnx.streamed import Network, read, stepped_model

Layers = Callable[[Network, str], str]
FRAMES = 12


def cut(net: Network, x: str, start: int, end: int) -> str:
    """Without some of the first and last frames."""
    return net.add("Slice", x, *(net.constant([one], "int64") for one in (start, -end if end else FRAMES * 9, 2)))


def last(net: Network, x: str) -> str:
    return net.add("Gather", x, net.constant(-1, "int64"), axis=2)


def built(layers: Layers, frames: int = FRAMES) -> onnx.ModelProto:
    net = Network()
    return net.proto(layers(net, net.input("x", (1, 4, frames))))


def compared(layers: Layers, streams: Mapping[str, InputStream], frames: int = FRAMES) -> OutputFrames:
    """Compares with all windows, as a build does."""
    model = read(built(layers, frames))
    stepped = stepped_model(model, streams)
    feeds = stepped.sample_inputs([one for one in stepped.inputs if one.name in streams], 25, 1)
    states = {state.name_in: state.name_out for state in stepped.states()}
    first = {state.name_in: state.first for state in stepped.states()}
    _, reference = stepped.sequence_outputs(feeds, first, states, stepped.program, lambda _: None)
    assert "window by window" in reference
    (output,) = stepped.found.by_output.values()
    return output


def padded(net: Network, x: str) -> str:
    return net.add("Pad", x, net.constant([0, 0, 0, 0, 0, 1], "int64"), net.constant(0.5))


def convolved(net: Network, x: str) -> str:
    return net.conv(x, (4, 4), 3, pads=[1, 1])


def pooled(net: Network, x: str) -> str:
    return net.add("MaxPool", x, kernel_shape=[2], pads=[0, 1])


def spread(net: Network, x: str) -> str:
    return net.add("ConvTranspose", x, net.weight(4, 4, 3), pads=[1, 1])


@pytest.mark.parametrize("layer", [padded, convolved, pooled, spread])
def test_padding_in_place_of_frames_of_the_step(layer: Layers) -> None:
    """The window lacks its last frame from a layer on, and pads; the step has this frame there."""
    model = read(built(lambda net, x: last(net, layer(net, cut(net, x, 1, 1)))))
    with pytest.raises(UnsupportedOperator, match="needs frames of its window that depend on padding after"):
        step_model(model, {"x": InputStream(2)})


@pytest.mark.parametrize("layer", [padded, convolved, pooled, spread])
def test_frames_before_the_padding(layer: Layers) -> None:
    compared(lambda net, x: last(net, cut(net, layer(net, x), 0, 1)), {"x": InputStream(2)})


@pytest.mark.parametrize("layer", [padded, convolved])
def test_frames_that_the_window_pads_are_not_compared(layer: Layers) -> None:
    output = compared(lambda net, x: layer(net, cut(net, x, 1, 1)), {"x": InputStream(2)})
    assert output.touched_after == 1


def spread_after_stride(net: Network, x: str) -> str:
    pooled = net.add("MaxPool", cut(net, x, 1, 0), kernel_shape=[3], strides=[2])
    return net.add("ConvTranspose", pooled, net.weight(4, 4, 2), strides=[2])


def test_a_stride_between_frames_before_a_longer_value() -> None:
    """A ConvTranspose makes a whole number of frames of a window that begins between two ones of the pooling."""
    stream = {"x": InputStream(2, 2)}
    assert compared(lambda net, x: last(net, spread_after_stride(net, x)), stream, 15).axis is None
    net = Network()
    x = net.input("x", (1, 4, 15))
    with pytest.raises(EdgetuneError, match="choose a HOP that divides the window"):
        step_model(read(net.proto(last(net, spread_after_stride(net, x)), net.add("Relu", x))), stream)
    assert compared(spread_after_stride, stream, 15).touched == 12
