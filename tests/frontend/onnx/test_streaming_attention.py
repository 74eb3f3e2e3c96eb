"""Attention over the last frames: keys and values of the frames before are states, and a mask says how many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
import pytest

from edgetune.config.input_stream import InputStream
from tests.frontend.onnx.streamed import Network, equals_window, read, stepped_model

HEADS, WIDTH = 2, 8
FEATURES = HEADS * WIDTH


def distances(frames: int) -> np.ndarray:
    return np.arange(frames)[:, None] - np.arange(frames)


def attention(net: Network, x: str, frames: int, mask: str, kind: str) -> str:
    """Several heads over `x` of shape [1, frames, FEATURES]; `mask` is added, or says what is kept."""

    def projected(order: list[int]) -> str:
        flat = net.add("MatMul", x, net.weight(FEATURES, FEATURES))
        return net.add(
            "Transpose", net.add("Reshape", flat, net.constant([1, frames, HEADS, WIDTH], "int64")), perm=order
        )

    queries, keys, values = projected([0, 2, 1, 3]), projected([0, 2, 3, 1]), projected([0, 2, 1, 3])
    scores = net.add("Mul", net.add("MatMul", queries, keys), net.constant(WIDTH**-0.5))
    if kind == "where":
        scores = net.add("Where", mask, scores, net.constant(-np.inf))
    elif kind != "none":
        scores = net.add("Add", scores, mask)
    summed = net.add("MatMul", net.add("Softmax", scores, axis=-1), values)
    turned = net.add("Transpose", summed, perm=[0, 2, 1, 3])
    return net.add("Reshape", turned, net.constant([1, frames, FEATURES], "int64"))


def conformer(frames: int, *, last: int, kind: str = "add") -> onnx.ModelProto:
    """A block of a causal Conformer: attention over the `last` frames, a depthwise convolution, a normalisation."""
    net = Network()
    x = net.input("x", [1, frames, FEATURES])
    far = distances(frames)
    inside = (far >= 0) & (far < last)
    masks: dict[str, Callable[[], str]] = {
        "add": lambda: net.constant(np.where(inside, 0.0, -np.inf)),
        "slopes": lambda: net.constant(np.where(inside, -far * np.array([0.1, 0.3])[:, None, None], -1e9)),
        "where": lambda: net.constant(inside, "bool"),
        "ahead": lambda: net.constant(np.where(far >= -1, 0.0, -np.inf)),
        "uneven": lambda: net.constant(np.where(inside, 0.1 * np.arange(frames), -np.inf)),
        "none": lambda: "",
    }
    y = net.add("Add", x, attention(net, x, frames, masks[kind](), kind))
    turned = net.add("Transpose", y, perm=[0, 2, 1])
    convolved = net.conv(turned, (FEATURES, FEATURES), 5, pads=[4, 0], group=FEATURES)
    gated = net.conv(net.add("Mul", convolved, net.add("Sigmoid", convolved)), (FEATURES, FEATURES), 1)
    y = net.add("Add", y, net.add("Transpose", gated, perm=[0, 2, 1]))
    return net.proto(net.add("LayerNormalization", y, net.weight(FEATURES), net.weight(FEATURES), axis=-1))


@pytest.mark.long
@pytest.mark.parametrize("hop", [1, 4])
@pytest.mark.parametrize("kind", ["add", "slopes", "where"])
def test_masks_that_leave_the_last_frames(kind: str, hop: int) -> None:
    equals_window(partial(conformer, last=8, kind=kind), 64, {"x": InputStream(1, hop)})


def test_a_block_whose_attention_sees_32_frames() -> None:
    build = partial(conformer, last=32)
    found = equals_window(build, 64, {"x": InputStream(1)}, steps=100)
    costs = stepped_model(read(build(64)), {"x": InputStream(1)}).stream()
    products = 3 * FEATURES**2 + 2 * 32 * FEATURES + 5 * FEATURES + FEATURES**2
    assert products <= costs.step_macs <= 1.01 * products
    rows = 31 * 2 * FEATURES + 4 * FEATURES
    assert found.state_bytes == 4 * (rows + 1), "keys and values of 31 frames, rows of the convolution, a counter"
    assert found.latency_frames == 0


def test_two_blocks_one_after_the_other() -> None:
    def build(frames: int) -> onnx.ModelProto:
        net = Network()
        far = distances(frames)
        mask = net.constant(np.where((far >= 0) & (far < 6), 0.0, -np.inf))
        y = attention(net, net.input("x", [1, frames, FEATURES]), frames, mask, "add")
        return net.proto(attention(net, y, frames, mask, "add"))

    equals_window(build, 32, {"x": InputStream(1)})


@pytest.mark.parametrize("kind", ["ahead", "uneven", "none"])
def test_other_masks_need_the_whole_window(kind: str) -> None:
    """Each step computes all frames of the window: no frame keeps what it saw before."""
    found = equals_window(partial(conformer, last=8, kind=kind), 16, {"x": InputStream(1)}, steps=40)
    (output,) = found.by_output.values()
    assert output.axis is None
