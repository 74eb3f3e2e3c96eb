"""Models that pass a state from call to call, and what they compute step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.model_format import Model

FEATURES, HIDDEN = 4, 8
STATE = (1, 1, HIDDEN)
Shapes = Mapping[str, Sequence[int]]


def gru(path: Path, frames: int = 1) -> Path:
    """A GRU and a layer on top: x and h0 give y and hn."""
    weights = {"w": (1, 3 * HIDDEN, FEATURES), "r": (1, 3 * HIDDEN, HIDDEN), "b": (1, 6 * HIDDEN), "o": (HIDDEN, 3)}
    nodes = [
        helper.make_node("GRU", ["x", "w", "r", "b", "", "h0"], ["all", "hn"], hidden_size=HIDDEN, name="gru"),
        helper.make_node("MatMul", ["all", "o"], ["y"], name="top"),
    ]
    ends = {"x": (frames, 1, FEATURES), "h0": STATE}, {"y": (frames, 1, 1, 3), "hn": STATE}
    return written(path, nodes, *ends, weights)


def cell(path: Path) -> Path:
    """A plain recurrent cell: one kernel reads all of the old state for each element of the new one."""
    nodes = [
        helper.make_node("MatMul", ["h0", "r"], ["a"]),
        helper.make_node("Add", ["a", "x"], ["s"]),
        helper.make_node("Tanh", ["s"], ["hn"]),
        helper.make_node("MatMul", ["hn", "o"], ["y"]),
    ]
    ends = {"x": (1, HIDDEN), "h0": (1, HIDDEN)}, {"y": (1, 3), "hn": (1, HIDDEN)}
    return written(path, nodes, *ends, {"r": (HIDDEN, HIDDEN), "o": (HIDDEN, 3)})


def average(path: Path) -> Path:
    """A running average: each element of the state depends on itself alone."""
    nodes = [
        helper.make_node("Mul", ["h0", "w"], ["a"]),
        helper.make_node("Add", ["a", "x"], ["hn"]),
        helper.make_node("ReduceSum", ["hn"], ["y"]),
    ]
    return written(path, nodes, {"x": (1, 64), "h0": (1, 64)}, {"y": (1, 1), "hn": (1, 64)}, {"w": (64,)})


def swap(path: Path) -> Path:
    """Two states that change places: each is read after the other could be written."""
    nodes = [
        helper.make_node("Add", ["a", "x"], ["y"]),
        helper.make_node("Identity", ["b"], ["a_next"]),
        helper.make_node("Relu", ["y"], ["b_next"]),
    ]
    one = dict.fromkeys(("x", "a", "b"), (2, 3))
    return written(path, nodes, one, dict.fromkeys(("y", "a_next", "b_next"), (2, 3)), {})


def delay(path: Path, kept: int = 2) -> Path:
    """A convolution over a stream: the state is the last frames, of which the oldest leaves in each run."""
    starts = {"from": [1], "to": [kept + 1], "axis": [2]}
    nodes = [
        helper.make_node("Concat", ["cache", "x"], ["all"], axis=2),
        helper.make_node("Conv", ["all", "w"], ["y"]),
        helper.make_node("Slice", ["all", *starts], ["next"]),
    ]
    numbers = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in starts.items()]
    ends = {"x": (1, 3, 1), "cache": (1, 3, kept)}, {"y": (1, 2, 1), "next": (1, 3, kept)}
    return written(path, nodes, *ends, {"w": (2, 3, kept + 1)}, numbers)


def written(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Shapes,
    outputs: Shapes,
    weights: Shapes,
    numbers: Sequence[onnx.TensorProto] = (),
) -> Path:
    """The file of a model of floats with random `weights`, and other initializers `numbers`."""
    draw = np.random.default_rng(7)
    stored = [
        numpy_helper.from_array((0.6 * draw.standard_normal(tuple(shape))).astype("f4"), name)
        for name, shape in weights.items()
    ]
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in side.items()]
        for side in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, path.stem, *ends, [*stored, *numbers])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


PAIRS = {
    "gru": {"h0": "hn"},
    "cell": {"h0": "hn"},
    "average": {"h0": "hn"},
    "swap": {"a": "a_next", "b": "b_next"},
    "delay": {"cache": "next"},
}
"""The states of each model, by the name of its function."""


def step_by_step(
    model: Model, feeds: Sequence[Mapping[str, np.ndarray]], pairs: Mapping[str, str]
) -> list[dict[str, np.ndarray]]:
    """The outputs of the original model for `feeds`, each with the states that the one before gave; zero at first."""
    shapes = {spec.name: spec.shape for spec in model.inputs}
    kept = {name: np.zeros(shapes[name], np.float32) for name in pairs}
    found: list[dict[str, np.ndarray]] = []
    for feed in feeds:
        outputs, _ = model.reference_outputs([{**feed, **kept}], model.program, lambda _: None)
        kept = {name_in: outputs[0][name_out] for name_in, name_out in pairs.items()}
        found.append({name: array for name, array in outputs[0].items() if name not in pairs.values()})
    return found
