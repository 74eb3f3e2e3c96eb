"""Recurrent layers keep their states from step to step."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.onnx.streaming import InputStream, step_model
from edgetune.graph.partition import to_program
from tests.frontend.onnx.streamed import Network, Run, equals_window, exactly, feeds_of, in_runtime, read, stepped
from tests.interpreter import run_program

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FEATURES, HIDDEN = 4, 5


def cell(net: Network, operator: str, x: str, features: int, *more: str, **attributes: Any) -> str:
    gates = GATES[operator]
    weights = [
        net.weight(1, gates * HIDDEN, features),
        net.weight(1, gates * HIDDEN, HIDDEN),
        net.weight(1, 2 * gates * HIDDEN),
    ]
    return net.add(operator, x, *weights, *more, outputs=2, hidden_size=HIDDEN, **attributes)


def recurrent(frames: int, *, operator: str, first: bool = False) -> onnx.ModelProto:
    net = Network()
    x = net.input("x", (frames, 2, FEATURES))
    more = ["", *(net.weight(1, 2, HIDDEN) for _ in range(1 + (operator == "LSTM")))] if first else []
    y = cell(net, operator, x, FEATURES, *more, **({"linear_before_reset": 1} if operator == "GRU" else {}))
    y = net.add("Squeeze", y, net.constant([1], "int64"))
    return net.proto(net.add("MatMul", y, net.weight(HIDDEN, 3)))


@pytest.mark.parametrize("hop", [1, 4])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("operator", list(GATES))
def test_cells(operator: str, hop: int, *, first: bool) -> None:
    """A state begins as the model says, or with zeros."""
    found = equals_window(partial(recurrent, operator=operator, first=first), 12, {"x": InputStream(0, hop)})
    assert len(found.states) == (2 if operator == "LSTM" else 1)
    assert all(state.first.any() == first for state in found.states)


def batch_first(frames: int, *, operator: str) -> onnx.ModelProto:
    net = Network()
    y = cell(net, operator, net.input("x", (1, frames, FEATURES)), FEATURES, layout=1)
    return net.proto(net.add("Squeeze", y, net.constant([2], "int64")))


@pytest.mark.parametrize("operator", list(GATES))
def test_batch_first(operator: str) -> None:
    """ONNX Runtime does not run this layout."""
    equals_window(partial(batch_first, operator=operator), 6, {"x": InputStream(1)}, opened=exactly, steps=20)


def denoiser(frames: int, *, pads: tuple[int, int], operator: str = "GRU", last: str = "") -> onnx.ModelProto:
    """Convolutions, a recurrent layer, and gains for bands."""
    net = Network()
    x = net.input("x", (1, FEATURES, frames))
    x = net.add("Tanh", net.conv(x, (FEATURES, 6), 3, pads=list(pads)))
    x = net.add("Tanh", net.conv(x, (6, 6), 3, pads=list(pads)))
    x = net.add("Transpose", x, perm=[2, 0, 1])
    y = cell(net, operator, x, 6)
    if last == "state":
        return net.proto(
            net.add("Gemm", net.add("Squeeze", f"{y}_1", net.constant([0], "int64")), net.weight(HIDDEN, 3))
        )
    y = net.add("Squeeze", y, net.constant([1], "int64"))
    if last == "frame":
        y = net.add("Gather", y, net.constant(-1, "int64"), axis=0)
    return net.proto(net.add("Sigmoid", net.add("MatMul", y, net.weight(HIDDEN, 3))))


@pytest.mark.parametrize("hop", [1, 4])
@pytest.mark.parametrize("operator", ["GRU", "LSTM"])
@pytest.mark.parametrize("pads", [(2, 0), (1, 1), (0, 0)])
def test_convolutions_before_a_cell(pads: tuple[int, int], operator: str, hop: int) -> None:
    """Frames from before the reset do not change its state."""
    found = equals_window(partial(denoiser, pads=pads, operator=operator), 16, {"x": InputStream(2, hop)})
    assert found.latency_frames == -(-2 * (2 - pads[0]) // hop) * hop


@pytest.mark.parametrize("hop", [1, 4])
@pytest.mark.parametrize("last", ["state", "frame"])
def test_last_state(last: str, hop: int) -> None:
    build = partial(denoiser, pads=(2, 0), last=last)
    found = equals_window(build, 16, {"x": InputStream(2, hop)}, of_all_frames=True)
    assert found.latency_frames == 0


@pytest.mark.parametrize("last", ["state", "frame"])
def test_last_state_behind_convolutions_without_padding(last: str) -> None:
    build = partial(denoiser, pads=(0, 0), last=last)
    found = equals_window(build, 16, {"x": InputStream(2)}, of_all_frames=True)
    assert found.latency_frames == 4


def padded(frames: int) -> onnx.ModelProto:
    """Padding right before a cell, which then sees it first."""
    net = Network()
    x = net.input("x", (frames, 1, FEATURES))
    x = net.add("Pad", x, net.constant([2, 0, 0, 0, 0, 0], "int64"), net.constant(0.5))
    return net.proto(cell(net, "GRU", net.add("Neg", x), FEATURES))


def test_padding_before_a_cell() -> None:
    found = equals_window(padded, 8, {"x": InputStream(0)})
    assert np.unique(found.states[0].first).tolist() == [-0.5]


def across(frames: int) -> onnx.ModelProto:
    """A layer that goes along the bands of each frame, in both directions, with first states; then one along time."""
    net = Network()
    x = net.input("x", (frames, 7, FEATURES))
    weights = [net.weight(2, 3 * HIDDEN, FEATURES), net.weight(2, 3 * HIDDEN, HIDDEN), net.weight(2, 6 * HIDDEN)]
    first = net.constant(np.zeros((2, frames, HIDDEN)))
    y = net.add("Transpose", x, perm=[1, 0, 2])
    y = net.add("GRU", y, *weights, "", first, hidden_size=HIDDEN, direction="bidirectional")
    y = net.add("Reshape", net.add("Transpose", y, perm=[2, 0, 1, 3]), net.constant([frames, 7, 2 * HIDDEN], "int64"))
    return net.proto(cell(net, "LSTM", y, 2 * HIDDEN))


@pytest.mark.parametrize("hop", [1, 4])
def test_cells_across_frames(hop: int) -> None:
    found = equals_window(across, 8, {"x": InputStream(0, hop)})
    assert [state.first.shape for state in found.states] == [(1, 7, HIDDEN)] * 2


def exported(frames: int) -> onnx.ModelProto:
    """A first state whose shape the model computes, and two layers with their last states as outputs."""
    net = Network()
    x = net.add("Transpose", net.input("x", (1, FEATURES, frames)), perm=[2, 0, 1])
    batch = net.add("Gather", net.add("Shape", x), net.constant([1], "int64"), axis=0)
    shape = net.add("Concat", net.constant([1], "int64"), batch, net.constant([HIDDEN], "int64"), axis=0)
    first = net.add("Expand", net.constant(np.zeros((1, 1, 1))), shape)
    lower = cell(net, "GRU", x, FEATURES, "", first)
    upper = cell(net, "GRU", net.add("Squeeze", lower, net.constant([1], "int64")), HIDDEN, "", first)
    y = net.add("Reshape", net.add("Transpose", upper, perm=[0, 2, 1, 3]), net.constant([0, 0, -1], "int64"))
    return net.proto(y, net.add("Concat", f"{lower}_1", f"{upper}_1", axis=0))


@pytest.mark.parametrize("hop", [1, 4])
def test_layers_as_exporters_write_them(hop: int) -> None:
    found = equals_window(exported, 12, {"x": InputStream(2, hop)}, of_all_frames=True)
    assert [output.axis for output in found.by_output.values()] == [0, None]


def test_import() -> None:
    """The kernels' own importer takes a step with a mask, a counter and states."""

    def imported(model: OnnxModel) -> Run:
        program = to_program(import_onnx(model))
        return lambda feed: dict(run_program(program, dict(feed)))

    model = read(denoiser(8, pads=(1, 1)))
    found = step_model(model, {"x": InputStream(2)})
    frames = feeds_of(model, {"x": InputStream(2)}, 8)
    results = [
        stepped(found, {"x": InputStream(2)}, frames, 8, opened(found.model)) for opened in (imported, in_runtime)
    ]
    for found_now, wanted in zip(*results, strict=True):
        assert found_now.keys() == wanted.keys()
        for name, value in wanted.items():
            np.testing.assert_allclose(found_now[name], value, rtol=1e-4, atol=1e-5)


def given(frames: int, *, operator: str, pads: tuple[int, int]) -> onnx.ModelProto:
    """States before the first frame are inputs; where no layer looks ahead, those after the last one are outputs."""
    net = Network()
    x = net.conv(net.input("x", (1, FEATURES, frames)), (FEATURES, FEATURES), 3, pads=list(pads))
    first = [net.input(name, (1, 1, HIDDEN)) for name in ("h0", "c0")[: 1 + (operator == "LSTM")]]
    x = net.add("Transpose", x, perm=[2, 0, 1])
    weights = [net.weight(1, HIDDEN * GATES[operator], features) for features in (FEATURES, HIDDEN)]
    y = net.add(operator, x, *weights, "", "", *first, outputs=1 + len(first), hidden_size=HIDDEN)
    last = [f"{y}_{number}" for number, _ in enumerate(first, 1)]
    return net.proto(y, *([] if pads[1] else last))


@pytest.mark.parametrize("hop", [1, 3])
@pytest.mark.parametrize("pads", [(2, 0), (1, 1)])
@pytest.mark.parametrize("operator", list(GATES))
def test_first_states_that_are_inputs(operator: str, pads: tuple[int, int], hop: int) -> None:
    """The first step after a reset reads them."""
    build = partial(given, operator=operator, pads=pads)
    equals_window(build, 15, {"x": InputStream(2, hop)}, of_all_frames=True, steps=15)
