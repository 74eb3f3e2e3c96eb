"""States that are ring buffers: what a run writes and reads, against the model that moves its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.backends.c_kernels import written_over_at_best
from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.format import LoadedOnnx
from edgetune.frontend.onnx.streaming import InputStream, StepModel, step_model
from edgetune.frontend.tflite.format import FORMAT as TFLITE
from edgetune.frontend.tflite.format import LoadedTflite
from edgetune.graph.evaluate import evaluate_sequence
from edgetune.graph.memory.plan import plan
from edgetune.graph.program import Program
from edgetune.graph.states import with_states, with_states_overwritten
from edgetune.package.states import kept_states, state_bytes
from tests.examples import costly
from tests.frontend.onnx.streamed import Network, exactly, read
from tests.frontend.onnx.test_streaming_attention import conformer
from tests.frontend.onnx.test_streaming_chains import LAYERS, LEAST, Layer, chain, mixed
from tests.frontend.onnx.test_streaming_recurrent import padded
from tests.package_sample import generic_x86

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


def flattened(frames: int) -> onnx.ModelProto:
    """A layer that reads all rows of a window as one vector."""
    net = Network()
    rows = net.add("Relu", net.add("MatMul", net.input("x", (1, frames, 4)), net.weight(4, 8)))
    return net.proto(net.add("MatMul", net.add("Flatten", rows), net.weight(8 * frames, 3)))


def waiting(frames: int) -> onnx.ModelProto:
    """A connection around a convolution that looks ahead: it waits for the frames that this needs."""
    net = Network()
    x = net.add("Tanh", net.input("x", (1, 4, frames)))
    return net.proto(net.add("Add", x, net.conv(x, (4, 4), 5, pads=[2, 2])))


def stepped(build: Callable[[int], onnx.ModelProto], window: int, axis: int, hop: int) -> StepModel:
    return step_model(read(build(window)), {"x": InputStream(axis, hop)})


def programs(found: StepModel) -> tuple[Program, Program]:
    """With rings, and without."""
    model, pairs = LoadedOnnx(found.model), {state.name_in: state.name_out for state in found.states}
    return with_states(model.program(states=pairs), pairs), with_states(model.program(), pairs)


def feeds(program: Program, steps: int) -> list[Mapping[str, np.ndarray]]:
    draw = np.random.default_rng(3)
    return [{x.name: draw.standard_normal(x.shape).astype(x.dtype) for x in program.inputs} for _ in range(steps)]


def arena(program: Program) -> int:
    """Bytes of the workspace of its package."""
    program, in_place = with_states_overwritten(program, written_over_at_best(program, generic_x86()))
    return plan(program, {}, in_place).arena_bytes


def moved(program: Program) -> int:
    """Bytes that calls of its package write which only move elements."""
    program, _ = with_states_overwritten(program, written_over_at_best(program, generic_x86()))
    found = 0
    for call in program.calls:
        kernel = program.kernels[call.kernel]
        if set(kernel.sources) <= {"copy", "concatenate", "strided_slice", "transpose", "ring_read", "row_write"}:
            written = (param for param in kernel.params if param.role == "output")
            found += sum(int(np.prod(p.shape)) * np.dtype(p.dtype).itemsize for p in written)
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("build", "window", "axis", "hop", "rings"),
    [
        (dilated, 16, 2, 1, 2),
        (dilated, 16, 2, 2, 2),
        (strided, 16, 2, 2, 2),
        (strided, 16, 2, 4, 1),
        (mean, 27, 2, 1, 2),
        (attention, 32, 1, 1, 1),  # keys are transposed, which costs more than to move them along
        (attention, 32, 1, 4, 2),
        (waiting, 16, 2, 1, 1),
        (flattened, 12, 1, 1, 1),
        (padded, 8, 0, 1, 1),  # the row before the last one alone, for a recurrent layer
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


def test_a_kernel_reads_some_channels_of_a_ring_where_they_lie() -> None:
    net = Network()
    x, kept = net.input("x", (1, 1, 8)), net.input("kept", (1, 7, 8))
    joined = net.add("Concat", kept, x, axis=1)

    def cut(name: str, start: int, end: int, axis: int) -> str:
        return net.add("Slice", name, *(net.constant([one], "int64") for one in (start, end, axis)))

    half = cut(cut(joined, 4, 8, 2), 3, 8, 1)
    found = net.add("ReduceSum", net.add("Mul", half, net.weight(1, 5, 4)), net.constant([1], "int64"))
    following = cut(joined, 1, 8, 1)
    model, pairs = LoadedOnnx(read(net.proto(found, following))), {kept: following}
    ring, moving = with_states(model.program(states=pairs), pairs), with_states(model.program(), pairs)
    given = feeds(ring, STEPS)
    for one, wanted in zip(evaluate_sequence(ring, given), evaluate_sequence(moving, given), strict=True):
        np.testing.assert_array_equal(one[found], wanted[found])
    assert moved(ring) == 8 * 4, "the new row alone"


def assert_rings_are_right(build: Callable[[int], onnx.ModelProto], window: int, stream: InputStream) -> None:
    """With the first values of a step's states, over more steps than any ring has."""
    try:
        found = step_model(read(build(window)), {"x": stream})
    except UnsupportedOperator:
        return
    model, pairs = LoadedOnnx(found.model), {state.name_in: state.name_out for state in found.states}
    first = {state.name_in: state.first for state in found.states}
    made = (model.program(states=pairs), model.program())
    ring, moving = (with_states(program, pairs, first) for program in made)
    given = feeds(ring, 60)
    for one, wanted in zip(evaluate_sequence(ring, given), evaluate_sequence(moving, given), strict=True):
        for name, array in wanted.items():
            np.testing.assert_allclose(one[name], array, rtol=1e-5, atol=1e-5)


@pytest.mark.long
@costly(25)
@given(LAYERS, st.integers(1, 3), st.sampled_from(["", "Flatten", "GlobalAveragePool", "ReduceMax"]))
def test_chains_with_rings(layers: list[Layer], pace: int, last: str) -> None:
    extents = 40
    for layer in layers:
        extents = layer.extent(extents)
    if extents >= LEAST:
        build = partial(mixed, layers=layers, last=last) if last else partial(chain, layers=layers)
        assert_rings_are_right(build, 40, InputStream(2, pace * prod(layer.stride for layer in layers)))


@pytest.mark.long
@costly(10)
@given(st.integers(1, 12), st.integers(1, 5), st.sampled_from(["add", "slopes", "where"]))
def test_attention_with_rings(last: int, hop: int, kind: str) -> None:
    assert_rings_are_right(partial(conformer, last=last, kind=kind), 30, InputStream(1, hop))


@pytest.mark.parametrize("whole", [False, True])
def test_an_output_is_rows_of_a_ring(*, whole: bool) -> None:
    """A delay line, whose output is the oldest row, and the window itself as an output."""
    net = Network()
    x, kept = net.input("x", (1, 1, 4)), net.input("kept", (1, 5, 4))
    joined = net.add("Concat", kept, x, axis=1)
    bounds = {name: net.constant([name], "int64") for name in (0, 1, 6)}
    following = net.add("Slice", joined, bounds[1], bounds[6], bounds[1])
    oldest = joined if whole else net.add("Slice", joined, bounds[0], bounds[1], bounds[1])
    out = net.add("Identity", oldest)
    model, pairs = LoadedOnnx(read(net.proto(out, following))), {kept: following}
    ring, moving = with_states(model.program(states=pairs), pairs), with_states(model.program(), pairs)
    assert any(state.ring for state in ring.states)
    given = feeds(ring, STEPS)
    for one, wanted in zip(evaluate_sequence(ring, given), evaluate_sequence(moving, given), strict=True):
        np.testing.assert_array_equal(one[out], wanted[out])


def tensor_scatter() -> tuple[onnx.ModelProto, dict[str, str]]:
    """A decoder step: keys and values of a run are written at its position, and all of them are read."""
    heads, rows, width = 2, 12, 8
    net = Network(opset=24)
    x = net.input("x", (1, 1, heads * width))
    position = net.input("pos", (1,), onnx.TensorProto.INT64)

    def projected() -> str:
        made = net.add("MatMul", x, net.weight(heads * width, heads * width))
        split = net.add("Reshape", made, net.constant([1, 1, heads, width], "int64"))
        return net.add("Transpose", split, perm=[0, 2, 1, 3])

    caches = [net.input(name, (1, heads, rows, width)) for name in ("keys", "values")]
    written = [net.add("TensorScatter", cache, projected(), position, axis=2) for cache in caches]
    scores = net.add("MatMul", projected(), net.add("Transpose", written[0], perm=[0, 1, 3, 2]))
    seen = net.add("LessOrEqual", net.constant(np.arange(rows), "int64"), position)
    scores = net.add("Where", seen, scores, net.constant(-1e9))
    found = net.add("MatMul", net.add("Softmax", scores, axis=-1), written[1])
    return net.proto(found, *written), dict(zip(caches, written, strict=True))


def scatter_nd() -> tuple[onnx.ModelProto, dict[str, str]]:
    """A cache of rows that one kernel computes: it writes them in place."""
    net = Network(opset=21)
    position = net.input("pos", (1, 1), onnx.TensorProto.INT64)
    new = net.add("Tanh", net.input("x", (1, 8)))
    written = net.add("ScatterND", net.input("cache", (12, 8)), position, new)
    means = net.add("ReduceMean", net.add("Mul", written, net.weight(12, 8)), net.constant([0], "int64"))
    return net.proto(means, written), {"cache": written}


@pytest.mark.long
@pytest.mark.parametrize(
    ("build", "bytes_of_copies"),
    [(tensor_scatter, 2 * 16 * 4), (scatter_nd, 0)],  # the rows of a cache with heads outside are strided
)
def test_a_cache_gets_its_row_in_place(
    build: Callable[[], tuple[onnx.ModelProto, dict[str, str]]], bytes_of_copies: int
) -> None:
    proto, pairs = build()
    model = LoadedOnnx(read(proto))
    cache, moving = with_states(model.program(states=pairs), pairs), with_states(model.program(), pairs)
    given = [{**feed, "pos": np.full_like(feed["pos"], n % 12)} for n, feed in enumerate(feeds(cache, STEPS))]
    for found, wanted in zip(evaluate_sequence(cache, given), evaluate_sequence(moving, given), strict=True):
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array)
    into = {call.arguments[-1] for call in cache.calls if call.numbers_of_rows}
    assert into == {state.buffer for state in cache.states}
    kernels = (cache.kernels[call.kernel] for call in cache.calls)
    assert sum(one.params[-1].elements.size * 4 for one in kernels if one.sources == ("copy",)) == bytes_of_copies


@pytest.mark.long
def test_wake_word() -> None:
    """Its rings and their positions take less than 4 KiB, and a step moves its 40 new numbers alone."""
    file = Path(__file__).parents[3] / "shared" / "models" / "mlperf_tiny" / "sww_int8.tflite"
    loaded = TFLITE.read(file).with_shapes({})
    assert isinstance(loaded, LoadedTflite)
    window = loaded.onnx.model
    (value,), (output,) = window.proto.graph.input, window.proto.graph.output
    ring, moving = programs(step_model(window, {value.name: InputStream(1)}))
    assert state_bytes(kept_states(ring)) == 4000
    assert moved(ring) == 40
    assert moved(moving) == 7_616
    assert (arena(ring), arena(moving)) == (640, 6_016)
    for length, compared in ((20, ()), (50, (29, 49))):  # the second sequence begins after a reset
        draw = np.random.default_rng(length)
        frames = draw.integers(-128, 128, (1, length, 1, 40)).astype("int8")
        given = [{value.name: frames[:, k : k + 1]} for k in range(length)]
        found = [one[output.name] for one in evaluate_sequence(ring, given)]
        np.testing.assert_array_equal(found, [one[output.name] for one in evaluate_sequence(moving, given)])
        for k in compared:
            wanted = exactly(window)({value.name: frames[:, k - 29 : k + 1]})[output.name]
            np.testing.assert_array_equal(found[k], wanted)
