"""States that are ring buffers: what a run writes and reads, against the model that moves its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest

from edgetune.frontend.onnx.format import LoadedOnnx
from edgetune.frontend.onnx.streaming import InputStream, StepModel, step_model
from edgetune.graph.evaluate import evaluate_sequence
from edgetune.graph.program import Program
from edgetune.graph.states import with_states
from tests.frontend.onnx.streamed import Network, read

STEPS = 23


def dilated(frames: int) -> onnx.ModelProto:
    """Causal convolutions, one of each channel alone, the second one dilated."""
    net = Network()
    x = net.add("Relu", net.conv(net.input("x", (1, 6, frames)), (6, 8), 3, pads=[2, 0]))
    return net.proto(net.conv(x, (8, 8), 3, dilations=[2], pads=[4, 0], group=8))


def strided(frames: int) -> onnx.ModelProto:
    """A convolution that skips every other frame, and one behind it."""
    net = Network()
    x = net.add("Relu", net.conv(net.input("x", (1, 4, frames)), (4, 6), 4, strides=[2], pads=[2, 0]))
    return net.proto(net.conv(x, (6, 5), 5, pads=[4, 0]))


def mean(frames: int) -> onnx.ModelProto:
    """The mean over the frames of a window, behind a convolution."""
    net = Network()
    x = net.conv(net.input("x", (1, 4, frames)), (4, 6), 3)
    return net.proto(net.add("ReduceMean", x, axes=[2], keepdims=0))


def attention(frames: int) -> onnx.ModelProto:
    """The last frame attends to all of a window."""
    net = Network()
    x = net.input("x", (1, frames, 8))
    last = net.add("Slice", x, *(net.constant([one], "int64") for one in (-1, frames, 1)))
    q, k, v = (net.add("MatMul", one, net.weight(8, 8)) for one in (last, x, x))
    scores = net.add("Softmax", net.add("MatMul", q, net.add("Transpose", k, perm=[0, 2, 1])), axis=-1)
    return net.proto(net.add("MatMul", scores, v))


def waiting(frames: int) -> onnx.ModelProto:
    """A connection around a convolution that looks ahead: it waits for the frames that this needs."""
    net = Network()
    x = net.add("Tanh", net.input("x", (1, 4, frames)))
    return net.proto(net.add("Add", x, net.conv(x, (4, 4), 5, pads=[2, 2])))


def stepped(build: Callable[[int], onnx.ModelProto], window: int, axis: int, hop: int) -> StepModel:
    return step_model(read(build(window)), {"x": InputStream(axis, hop)})


def programs(found: StepModel) -> tuple[Program, Program]:
    """With rings, and without."""
    model, pairs = LoadedOnnx(found.model), {state.input: state.output for state in found.states}
    return with_states(model.program(states=pairs), pairs), with_states(model.program(), pairs)


def feeds(program: Program, steps: int) -> list[Mapping[str, np.ndarray]]:
    draw = np.random.default_rng(3)
    return [{x.name: draw.standard_normal(x.shape).astype(x.dtype) for x in program.inputs} for _ in range(steps)]


def moved(program: Program) -> int:
    """Bytes that calls write which only move elements."""
    found = 0
    for call in program.calls:
        kernel = program.kernels[call.kernel]
        if set(kernel.sources) <= {"copy", "concatenate", "strided_slice", "transpose", "ring_read", "row_write"}:
            written = (param for param in kernel.params if param.role == "output")
            found += sum(int(np.prod(p.shape)) * np.dtype(p.dtype).itemsize for p in written)
    return found


@pytest.mark.parametrize(
    ("build", "window", "axis", "hop", "rings"),
    [
        (dilated, 16, 2, 1, 2),
        (dilated, 16, 2, 2, 2),
        (dilated, 16, 2, 4, 1),
        (strided, 16, 2, 2, 2),
        (strided, 16, 2, 4, 1),
        (mean, 27, 2, 1, 2),
        (attention, 32, 1, 1, 2),
        (attention, 32, 1, 4, 2),
        (waiting, 16, 2, 1, 1),
    ],
)
def test_rings_compute_what_moved_rows_do(
    build: Callable[[int], onnx.ModelProto], window: int, axis: int, hop: int, rings: int
) -> None:
    ring, moving = programs(stepped(build, window, axis, hop))
    assert sum(state.ring is not None for state in ring.states) == rings
    given = feeds(ring, STEPS)
    for found, wanted in zip(evaluate_sequence(ring, given), evaluate_sequence(moving, given), strict=True):
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array)
    assert moved(ring) < moved(moving)
