"""Layers that are seldom alone: transposed convolutions, ways to pad, resizing of other axes."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
import pytest

from edgetune.frontend.onnx.streaming import InputStream
from tests.frontend.onnx.streamed import Network, equals_window


def upsampled(frames: int, *, kernel: int, pads: tuple[int, int], inner: tuple[int, int]) -> onnx.ModelProto:
    """Down and up again, and a connection that skips both."""
    net = Network()
    x = net.input("x", (1, 2, frames))
    y = net.add("Tanh", net.conv(x, (2, 3), 3, strides=[2], pads=list(inner)))
    y = net.add("ConvTranspose", y, net.weight(3, 2, kernel), net.weight(2), strides=[2], pads=list(pads))
    return net.proto(net.add("Add", net.conv(x, (2, 2), 1), net.add("Tanh", y)))


@pytest.mark.parametrize(
    ("kernel", "pads", "inner"),
    [(2, (0, 0), (2, 0)), (2, (0, 0), (1, 0)), (4, (1, 1), (1, 0)), (4, (0, 2), (2, 0)), (3, (0, 1), (1, 1))],
)
@pytest.mark.parametrize("hop", [2, 4])
def test_transposed_convolutions(hop: int, kernel: int, pads: tuple[int, int], inner: tuple[int, int]) -> None:
    build = partial(upsampled, kernel=kernel, pads=pads, inner=inner)
    equals_window(build, 16, {"x": InputStream(2, hop)})


def overlapping(frames: int, *, kernel: int, stride: int) -> onnx.ModelProto:
    net = Network()
    x = net.input("x", (1, 2, frames))
    added = [max(0, stride - kernel)]
    return net.proto(net.add("ConvTranspose", x, net.weight(2, 1, kernel), strides=[stride], output_padding=added))


@pytest.mark.parametrize(("kernel", "stride"), [(16, 8), (8, 8), (5, 3), (2, 3), (1, 1), (3, 1)])
def test_frames_that_overlap(kernel: int, stride: int) -> None:
    found = equals_window(partial(overlapping, kernel=kernel, stride=stride), 8, {"x": InputStream(2)})
    assert found.by_output["convtranspose0"].frames == stride


def chomped(frames: int, *, kind: str) -> onnx.ModelProto:
    """Causal padding as exporters write it: cut off behind, put before, or of both axes one by one."""
    net = Network()
    x = net.input("x", (1, 2, frames, 5))
    if kind == "cut":
        x = net.conv(x, (2, 3), 3, 3, pads=[2, 1, 2, 1])
        x = net.add("Slice", x, *(net.constant([one], "int64") for one in (0, frames, 2)))
    elif kind == "put":
        rows = net.constant(np.full((1, 2, 2, 5), np.arange(5)))
        x = net.conv(net.add("Neg", net.add("Concat", rows, x, axis=2)), (2, 3), 3, 3)
    else:
        x = net.add("Pad", x, net.constant([0, 0, 2, 0, 0, 0, 0, 0], "int64"))
        x = net.conv(net.add("Pad", x, net.constant([0, 0, 0, 1, 0, 0, 0, 1], "int64")), (2, 3), 3, 3)
    return net.proto(net.add("Relu", x))


@pytest.mark.parametrize("kind", ["cut", "put", "one by one"])
def test_ways_to_pad(kind: str) -> None:
    found = equals_window(partial(chomped, kind=kind), 9, {"x": InputStream(2, 2)})
    assert found.latency_frames == 0
    assert found.state_bytes == 2 * 2 * (7 if kind == "one by one" else 5) * 4


def widened(frames: int, *, by_sizes: bool) -> onnx.ModelProto:
    """More bands for each frame."""
    net = Network()
    x = net.conv(net.input("x", (1, 2, frames, 5)), (2, 3), 3, 3, pads=[2, 1, 0, 1])
    if by_sizes:
        return net.proto(net.add("Resize", x, "", "", net.constant([1, 3, frames, 11], "int64"), mode="linear"))
    return net.proto(net.add("Resize", x, "", net.constant([1, 1, 1, 2]), mode="nearest"))


@pytest.mark.parametrize("by_sizes", [False, True])
def test_resize_across_frames(*, by_sizes: bool) -> None:
    equals_window(partial(widened, by_sizes=by_sizes), 9, {"x": InputStream(2, 2)})


def single(frames: int) -> onnx.ModelProto:
    """A pool whose stride is the window, with padding of its own."""
    net = Network()
    x = net.conv(net.input("x", (1, 2, frames)), (2, 3), 3)
    x = net.add("AveragePool", x, kernel_shape=[frames], strides=[frames], pads=[1, 1])
    return net.proto(net.add("Flatten", x))


@pytest.mark.parametrize("hop", [1, 3])
def test_stride_of_a_window(hop: int) -> None:
    equals_window(single, 12, {"x": InputStream(2, hop)})
