"""Models with loops: recurrent layers of all forms, and models written as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
HEAD = '<ir_version: 9, opset_import: ["" : 17]>'


def model_of(proto: onnx.ModelProto) -> OnnxModel:
    """A model as the reader gives it."""
    return model_from_proto(proto, "0" * 64, "m", None, "m.onnx")


def parsed(text: str, **weights: np.ndarray) -> OnnxModel:
    """The model that ONNX's own notation says, without its head; `weights` are more initializers."""
    proto = onnx.parser.parse_model(HEAD + text)
    proto.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    return model_of(proto)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Small numbers, which no sum of them takes to where activations are flat."""
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) / 2, "f4")


@dataclass
class Recurrent:
    """A recurrent layer; what `Y`, `Y_h` and `Y_c` are called, "" for those that are not used.

    `lengths` of the sequences are constants. With `initial`, the first states are inputs of the model.
    """

    operator: str = "LSTM"
    name: str = "rnn"
    steps: int = 5
    batch: int = 1
    features: int = 3
    units: int = 4
    direction: str = "forward"
    layout: int = 0
    lengths: tuple[int, ...] = ()
    initial: bool = False
    bias: bool = True
    peepholes: bool = False
    outputs: tuple[str, ...] = ("y",)
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def directions(self) -> int:
        """2 where it is bidirectional."""
        return 2 if self.direction == "bidirectional" else 1

    @property
    def shapes(self) -> dict[str, list[int]]:
        """The shapes of its input, its output and a state."""
        batch, steps, ways, units = self.batch, self.steps, self.directions, self.units
        if self.layout:
            return {
                "x": [batch, steps, self.features],
                "y": [batch, steps, ways, units],
                "state": [batch, ways, units],
            }
        return {"x": [steps, batch, self.features], "y": [steps, ways, batch, units], "state": [ways, batch, units]}

    def parts(self, x: str) -> tuple[onnx.NodeProto, dict[str, np.ndarray], dict[str, list[int]]]:
        """Its node, which reads `x`, its constants, and its inputs beside `x` with their shapes."""
        rows, ways = GATES[self.operator] * self.units, self.directions
        seed = sum(map(ord, self.name))
        weights = {
            "w": numbers(ways, rows, self.features, seed=seed),
            "r": numbers(ways, rows, self.units, seed=seed + 1),
        }
        if self.bias:
            weights["b"] = numbers(ways, 2 * rows, seed=seed + 2)
        if self.lengths:
            weights["lengths"] = np.array(self.lengths, "i4")
        if self.peepholes:
            weights["p"] = numbers(ways, 3 * self.units, seed=seed + 3)
        states = ["h", "c"] if self.operator == "LSTM" else ["h"]
        given = {f"{self.name}_{state}": self.shapes["state"] for state in states if self.initial}
        named = {key: f"{self.name}_{key}" for key in (*weights, *(states if self.initial else []))}
        order = ["w", "r", "b", "lengths", *states, *(["p"] if self.operator == "LSTM" else [])]
        node = helper.make_node(
            self.operator,
            [x, *(named.get(key, "") for key in order)],
            list(self.outputs),
            name=self.name,
            hidden_size=self.units,
            direction=self.direction,
            layout=self.layout,
            **self.attributes,
        )
        return node, {named[key]: value for key, value in weights.items()}, given


def recurrent(*layers: Recurrent, behind: Sequence[onnx.NodeProto] = (), **behind_them: list[int]) -> OnnxModel:
    """A model of layers beside each other, each with an input of its own, and nodes `behind` them.

    `behind_them` are the outputs of the model with their shapes; by default, those of the layers.
    """
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, np.ndarray] = {}
    ends: tuple[dict[str, list[int]], dict[str, list[int]]] = ({}, {})
    for layer in layers:
        node, weights, given = layer.parts(f"{layer.name}_x")
        nodes.append(node)
        constants |= weights
        ends[0].update({f"{layer.name}_x": layer.shapes["x"], **given})
        for number, output in enumerate(layer.outputs):
            if output:
                ends[1][output] = layer.shapes["state" if number else "y"]
    given_ends = (ends[0], behind_them or ends[1])
    infos = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in side.items()]
        for side in given_ends
    ]
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph([*nodes, *behind], "g", *infos, initializers)
    return model_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
