"""Runs a step model step by step, and compares it with the window model that it was made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.double import evaluate_exactly
from edgetune.frontend.onnx.format import LoadedOnnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.frontend.onnx.streaming import InputStream, OutputFrames, StepModel, step_model
from edgetune.frontend.onnx.streaming.stepped_model import SteppedModel

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


def feeds_of(model: OnnxModel, streams: Mapping[str, InputStream], steps: int) -> dict[str, np.ndarray]:
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
    found: StepModel, streams: Mapping[str, InputStream], frames: Mapping[str, np.ndarray], steps: int, run: Run
) -> list[dict[str, np.ndarray]]:
    """The outputs of all steps since a reset."""
    states, outputs = {state.name_in: state.first for state in found.states}, []
    for k in range(steps):
        feed = _part_of(frames, streams, k * hop_of(streams), (k + 1) * hop_of(streams))
        outputs.append(run({**feed, **states}))
        states = {state.name_in: outputs[-1][state.name_out] for state in found.states}
    return outputs


def close(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    assert found.shape == wanted.shape
    if found.dtype.kind in "iu":
        np.testing.assert_array_equal(found, wanted)
    else:
        largest = float(np.abs(wanted).max(initial=1e-3))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * largest)


def equals_window(
    build: Callable[[int], onnx.ModelProto],
    window: int,
    streams: Mapping[str, InputStream],
    *,
    opened: Callable[[OnnxModel], Run] = in_runtime,
    of_all_frames: bool = False,
    steps: int = STEPS,
    tolerance: float = 1e-6,
) -> StepModel:
    """Compares after a reset, and after another one. `build` makes the model of a window of so many frames.

    Results differ by at most `tolerance` of the largest one. Outputs without a time axis are compared with the window
    model run on the last window, or on all frames.
    """
    model = read(build(window))
    found = step_model(model, streams)
    frames = feeds_of(model, streams, steps)
    run = opened(found.model)
    stepped(found, streams, frames, 3, run)
    again = {
        name: np.roll(value, 1, streams[name].axis) if name in streams else value for name, value in frames.items()
    }
    reset = steps * 2 // 5
    for given, number in ((frames, reset), (again, steps - reset)):
        results = stepped(found, streams, given, number, run)
        now = [_part_of(given, streams, 0, (k + 1) * hop_of(streams)) for k in range(number)]
        for name, output in found.by_output.items():
            if output.axis is not None:
                wanted = opened(read(build(hop_of(streams) * number)))(now[-1])[name]
                _compare_frames(
                    output, np.concatenate([result[name] for result in results], output.axis), wanted, tolerance
                )
                continue
            of_window = opened(model)
            steps_compared = range(output.settled, number, 5 if of_all_frames else 1)
            assert steps_compared
            wanted_all = []
            for k in steps_compared:
                end = (k + 1) * hop_of(streams)
                last = now[k] if of_all_frames else _part_of(given, streams, end - window, end)
                compared = opened(read(build(end))) if of_all_frames else of_window
                wanted_all.append(compared(last)[name])
            close(np.stack([results[k][name] for k in steps_compared]), np.stack(wanted_all), tolerance)
    return found


def stepped_model(model: OnnxModel, streams: Mapping[str, InputStream]) -> SteppedModel:
    """The model of a step beside that of the window, as a build has them."""
    return SteppedModel(LoadedOnnx(model), model, streams, "0" * 64)


def hop_of(streams: Mapping[str, InputStream]) -> int:
    """The hop, which is the same for all streams here."""
    return next(iter(streams.values())).hop


def _part_of(
    frames: Mapping[str, np.ndarray], streams: Mapping[str, InputStream], start: int, end: int
) -> dict[str, np.ndarray]:
    """These frames of all streams, and what is no stream."""
    return {
        name: part(value, streams[name].axis, start, end) if name in streams else value
        for name, value in frames.items()
    }


def _compare_frames(output: OutputFrames, found: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    assert output.axis is not None
    first, end = max(0, output.latency), found.shape[output.axis]
    start = first - output.latency
    assert end > first
    close(part(found, output.axis, first, end), part(wanted, output.axis, start, start + end - first), tolerance)
