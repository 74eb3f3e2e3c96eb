"""Einsum of frames: time may have a name in the result, be summed, or be behind "..."."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
import pytest

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.streaming import InputStream, step_model
from tests.frontend.onnx.streamed import Network, equals_window, read


def grouped(frames: int, *, equation: str, swaps: bool) -> onnx.ModelProto:
    """A linear layer in groups, as denoisers have it, between two convolutions along time."""
    net = Network()
    x = net.conv(net.input("x", (1, 6, frames)), (6, 6), 3, pads=[2, 0])
    x = net.add("Transpose", x, perm=[0, 2, 1])
    x = net.add("Reshape", x, net.constant([1, frames, 2, 3], "int64"))
    operands = [x, net.weight(2, 3, 4)]
    x = net.add("Einsum", *(operands[::-1] if swaps else operands), equation=equation)
    x = net.add("Reshape", x, net.constant([1, frames, 8], "int64"))
    return net.proto(net.conv(net.add("Transpose", x, perm=[0, 2, 1]), (8, 2), 3, pads=[2, 0]))


@pytest.mark.parametrize("hop", [1, 4])
@pytest.mark.parametrize(
    ("equation", "swaps"),
    [
        ("btgi,gih->btgh", False),
        ("gih, btgi -> btgh", True),
        ("...gi,gih->...gh", False),
        ("a...ci,cid->a...cd", False),
    ],
)
def test_layers_in_groups(equation: str, hop: int, *, swaps: bool) -> None:
    equals_window(partial(grouped, equation=equation, swaps=swaps), 20, {"x": InputStream(2, hop)})


def joined(frames: int, *, equation: str) -> onnx.ModelProto:
    """Two values of unequal latency."""
    net = Network()
    x = net.input("x", (1, 3, frames))
    left = net.conv(x, (3, 4), 3, pads=[1, 1])
    return net.proto(net.add("Relu", net.add("Einsum", left, net.conv(x, (3, 5), 1), equation=equation)))


@pytest.mark.parametrize("hop", [1, 2])
@pytest.mark.parametrize("equation", ["bct,bdt->btcd", "bct,bdt->dt"])
def test_products_of_the_same_frames(equation: str, hop: int) -> None:
    equals_window(partial(joined, equation=equation), 12, {"x": InputStream(2, hop)})


def implicit(frames: int) -> onnx.ModelProto:
    """The result has the names that stand once, in their order."""
    net = Network()
    return net.proto(net.add("Einsum", net.input("x", (frames, 3)), net.weight(3, 5), equation="zc,ca"))


def test_results_without_names() -> None:
    found = equals_window(implicit, 12, {"x": InputStream(0, 2)})
    assert [one.axis for one in found.by_output.values()] == [1]


def scaled(frames: int) -> onnx.ModelProto:
    net = Network()
    rows = np.repeat(np.arange(3)[None], frames, 0)
    return net.proto(net.add("Einsum", net.input("x", (1, 3, frames)), net.constant(rows), equation="bct,tc->bt"))


def test_constants_of_frames_are_the_same_in_each() -> None:
    equals_window(scaled, 12, {"x": InputStream(2, 2)})


def summed(frames: int, *, equation: str) -> onnx.ModelProto:
    net = Network()
    x = net.conv(net.input("x", (1, 3, frames)), (3, 4), 3)
    operands = [x, x] if "," in equation else [x]
    return net.proto(net.add("Einsum", *operands, equation=equation))


@pytest.mark.parametrize("equation", ["bct->bc", "bct,bdt->bcd", "bct,bcs->bts"])
def test_sums_along_time_read_the_window(equation: str) -> None:
    equals_window(partial(summed, equation=equation), 12, {"x": InputStream(2)})


def test_a_sum_behind_padding_is_refused_by_node() -> None:
    net = Network()
    x = net.conv(net.input("x", (1, 3, 12)), (3, 4), 3, pads=[2, 0])
    with pytest.raises(UnsupportedOperator, match=r"Einsum .*'einsum1'.* pads inside the window"):
        step_model(read(net.proto(net.add("Einsum", x, equation="bct->bc"))), {"x": InputStream(2)})
