"""Runs a step model step by step, and compares it with the window model that it was made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.double import evaluate_exactly
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.frontend.onnx.streams import StepModel, Stream, step_model

STEPS = 50
Run = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


class Network:
    """A model in the making, with the same weights whatever its shapes."""

    def __init__(self, opset: int = 17) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.opset = opset
        self._draw = np.random.default_rng(3)

    def input(self, name: str, shape: Sequence[int], kind: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, value: Any, dtype: str = "float32") -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, *shape: int) -> str:
        fan = max(1, int(np.prod(shape[1:])))
        return self.constant(self._draw.standard_normal(shape) / np.sqrt(fan))

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        name = f"{operator.lower()}{len(self.nodes)}"
        made = [name, *(f"{name}_{number}" for number in range(1, outputs))]
        self.nodes.append(helper.make_node(operator, inputs, made, name=name, **attributes))
        return name

    def conv(self, x: str, channels: tuple[int, int], *kernel: int, **attributes: Any) -> str:
        group = attributes.get("group", 1)
        weights = [self.weight(channels[1], channels[0] // group, *kernel), self.weight(channels[1])]
        return self.add("Conv", x, *weights, **attributes)

    def proto(self, *outputs: str) -> onnx.ModelProto:
        results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "network", self.inputs, results, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)


def read(proto: onnx.ModelProto) -> OnnxModel:
    return model_from_proto(proto, "0" * 64, "m", None, "m.onnx")


def in_runtime(model: OnnxModel) -> Run:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.proto.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feed: dict(zip(names, session.run(names, dict(feed)), strict=True))


def exactly(model: OnnxModel) -> Run:
    return lambda feed: evaluate_exactly(model, [feed])[0]


def feeds_of(model: OnnxModel, streams: Mapping[str, Stream], steps: int) -> dict[str, np.ndarray]:
    """Random frames of all inputs that are streams, for so many steps."""
    draw, found = np.random.default_rng(5), {}
    for value in model.proto.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if value.name in streams:
            shape[streams[value.name].axis] = streams[value.name].hop * steps
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
        whole = draw.integers(-100, 100, shape) if dtype.kind == "i" else draw.standard_normal(shape)
        found[value.name] = whole.astype(dtype)
    return found


def part(frames: np.ndarray, axis: int, start: int, end: int) -> np.ndarray:
    return frames[(slice(None),) * axis + (slice(start, end),)]


def stepped(
    found: StepModel, streams: Mapping[str, Stream], frames: Mapping[str, np.ndarray], steps: int, run: Run
) -> list[dict[str, np.ndarray]]:
    """The outputs of all steps since a reset."""
    states, outputs = {state.input: state.first for state in found.states}, []
    for k in range(steps):
        feed = {
            name: part(value, streams[name].axis, k * streams[name].hop, (k + 1) * streams[name].hop)
            if name in streams
            else value
            for name, value in frames.items()
        }
        outputs.append(run({**feed, **states}))
        states = {state.input: outputs[-1][state.output] for state in found.states}
    return outputs


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    if found.dtype.kind in "iu":
        np.testing.assert_array_equal(found, wanted)
    else:
        largest = float(np.abs(wanted).max(initial=1e-3))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * largest)


def equals_window(
    build: Callable[[int], onnx.ModelProto],
    window: int,
    streams: Mapping[str, Stream],
    *,
    opened: Callable[[OnnxModel], Run] = in_runtime,
    of_all_frames: bool = False,
    steps: int = STEPS,
) -> StepModel:
    """Compares after a reset, and after another one. `build` makes the model of a window of so many frames.

    Outputs without a time axis are compared with the window model run on the last window, or on all frames.
    """
    model = read(build(window))
    found = step_model(model, streams)
    frames = feeds_of(model, streams, steps)
    run = opened(found.model)
    stepped(found, streams, frames, 3, run)
    again = {name: np.roll(value, 1, streams[name].axis) if name in streams else value for name, value in frames.items()}
    reset = steps * 2 // 5
    for given, number in ((frames, reset), (again, steps - reset)):
        results = stepped(found, streams, given, number, run)
        compared = [_compare(build, window, found, streams, given, results, opened, name, of_all_frames=of_all_frames)
                    for name in found.by_output]  # fmt: skip
        assert all(compared)
    return found


def _compare(
    build: Callable[[int], onnx.ModelProto],
    window: int,
    found: StepModel,
    streams: Mapping[str, Stream],
    frames: Mapping[str, np.ndarray],
    results: Sequence[dict[str, np.ndarray]],
    opened: Callable[[OnnxModel], Run],
    name: str,
    *,
    of_all_frames: bool,
) -> int:
    """How many results of the output `name` were compared."""
    output, count = found.by_output[name], len(results)
    hop = next(iter(streams.values())).hop
    if output.axis is not None:
        given = {n: part(v, streams[n].axis, 0, streams[n].hop * count) for n, v in frames.items() if n in streams}
        wanted = opened(read(build(hop * count)))({**frames, **given})[name]
        whole = np.concatenate([result[name] for result in results], output.axis)
        first, end = max(0, output.latency), whole.shape[output.axis]
        start = first - output.latency
        close(part(whole, output.axis, first, end), part(wanted, output.axis, start, start + end - first))
        return end - first
    compared = 0
    run = opened(read(build(window)))
    for k in range(output.settled, count):
        now = (k + 1) * hop
        if of_all_frames:
            if k % 5:
                continue
            run = opened(read(build(now)))
        given = {
            n: part(v, streams[n].axis, 0 if of_all_frames else now - window, now)
            for n, v in frames.items()
            if n in streams
        }
        close(results[k][name], run({**frames, **given})[name])
        compared += 1
    return compared
