"""Any chain of layers that look along time computes, step by step, what it computes of all frames at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

import onnx
from hypothesis import given
from hypothesis import strategies as st

from edgetune.frontend.onnx.streaming import InputStream
from tests.examples import costly
from tests.frontend.onnx.streamed import Network, equals_window

CHANNELS, LEAST = 2, 2
ROUNDING = 1e-5
"""Sums within a chain may be larger than its results."""


@dataclass(frozen=True)
class Layer:
    """A layer that slides, pads, or does neither."""

    kind: str
    kernel: int = 1
    dilation: int = 1
    stride: int = 1
    pads: tuple[int, int] = (0, 0)

    def extent(self, frames: int) -> int:
        whole = frames + sum(self.pads)
        return (whole - (self.kernel - 1) * self.dilation - 1) // self.stride + 1


@st.composite
def sliding(draw: st.DrawFn) -> Layer:
    kind = draw(st.sampled_from(["Conv", "Conv", "MaxPool", "AveragePool"]))
    kernel, stride = draw(st.integers(1, 4)), draw(st.sampled_from([1, 1, 1, 2]))
    dilation = draw(st.integers(1, 3)) if kind == "Conv" else 1
    most = (kernel - 1) * dilation + 1 if kind == "Conv" else kernel - 1
    pads = draw(st.integers(0, most)), draw(st.integers(0, most))
    return Layer(kind, kernel, dilation, stride, pads)


PLAIN = st.sampled_from([Layer("Tanh"), Layer("Transpose"), Layer("Residual"), Layer("Where")])
PADDING = st.builds(Layer, st.just("Pad"), pads=st.tuples(st.integers(-1, 4), st.integers(0, 2)))
LAYERS = st.lists(sliding() | sliding() | PADDING | PLAIN, min_size=1, max_size=5)


def chain(frames: int, *, layers: list[Layer]) -> onnx.ModelProto:
    net = Network()
    x, time = net.input("x", (1, CHANNELS, frames)), 2
    for layer in layers:
        if time == 1 and layer.kind not in {"Tanh", "Transpose"}:
            x, time = net.add("Transpose", x, perm=[0, 2, 1]), 2
        pads = list(layer.pads)
        if layer.kind == "Conv":
            rates = {"dilations": [layer.dilation], "strides": [layer.stride]}
            x = net.conv(x, (CHANNELS, CHANNELS), layer.kernel, pads=pads, **rates)
        elif layer.kind in {"MaxPool", "AveragePool"}:
            counts = {"count_include_pad": 1} if layer.kind == "AveragePool" else {}
            x = net.add(
                layer.kind, x, kernel_shape=[layer.kernel], strides=[layer.stride], pads=pads, outputs=1, **counts
            )
        elif layer.kind == "Pad":
            x = net.add("Pad", x, net.constant([0, 0, pads[0], 0, 0, pads[1]], "int64"), net.constant(0.25))
        elif layer.kind == "Tanh":
            x = net.add("Tanh", net.add("Add", x, net.constant(0.125)))
        elif layer.kind == "Transpose":
            x, time = net.add("Transpose", x, perm=[0, 2, 1]), 3 - time
        elif layer.kind == "Residual":
            x = net.add("Add", x, net.conv(x, (CHANNELS, CHANNELS), 3, pads=[1, 1]))
        elif layer.kind == "Where":
            x = net.add("Where", net.add("Greater", x, net.constant(0.0)), x, net.conv(x, (2, 2), 2, pads=[1, 0]))
    return net.proto(x)


@costly(60)
@given(LAYERS, st.integers(1, 3))
def test_chains(layers: list[Layer], pace: int) -> None:
    hop = pace * prod(layer.stride for layer in layers)
    extents = window = 96
    for layer in layers:
        extents = layer.extent(extents)
    if extents < LEAST:
        return
    steps = 240 // hop + 5
    equals_window(partial(chain, layers=layers), window, {"x": InputStream(2, hop)}, steps=steps, tolerance=ROUNDING)


UNPADDED = st.lists(
    st.builds(
        Layer,
        st.sampled_from(["Conv", "MaxPool", "AveragePool"]),
        st.integers(1, 4),
        stride=st.sampled_from([1, 1, 2]),
    )
    | st.sampled_from([Layer("Tanh"), Layer("Transpose")])
    | st.builds(Layer, st.just("Pad"), pads=st.tuples(st.integers(-2, 0), st.integers(-2, 0))),
    min_size=1,
    max_size=4,
)


def mixed(frames: int, *, layers: list[Layer], last: str) -> onnx.ModelProto:
    """A chain, and what reads all its frames together."""
    proto = chain(frames, layers=layers)
    net, graph = Network(), proto.graph
    net.nodes, net.weights, net.inputs = list(graph.node), list(graph.initializer), list(graph.input)
    return net.proto(net.add(last, graph.output[0].name))


@costly(40)
@given(UNPADDED, st.integers(1, 2), st.integers(12, 40), st.sampled_from(["Flatten", "GlobalAveragePool", "ReduceMax"]))
def test_windows(layers: list[Layer], pace: int, window: int, last: str) -> None:
    """Layers without padding, and one that reads the window: also where it begins between two frames."""
    hop = pace * prod(layer.stride for layer in layers)
    extents = window
    for layer in layers:
        extents = layer.extent(extents)
    if extents < LEAST or hop > window:
        return
    build, steps = partial(mixed, layers=layers, last=last), 3 * (60 // hop + 3)
    equals_window(build, window, {"x": InputStream(2, hop)}, steps=steps, tolerance=ROUNDING)
