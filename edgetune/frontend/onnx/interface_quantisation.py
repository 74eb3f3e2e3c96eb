"""What the integers of a quantised model's tensors stand for, as the operators that read or make them say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import helper

from edgetune.frontend.model_facts import TensorQuantisation
from edgetune.frontend.onnx.large_tensors import Weights, value_of
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.graph.program import LinearQuantisation

_READ = {
    "DequantizeLinear": {0: (1, 2)},
    "QLinearConv": {0: (1, 2)},
    "QLinearMatMul": {0: (1, 2), 3: (4, 5)},
    "QuantizeLinear": {0: (1, 2)},
}
"""At which inputs operators read tensors of a scale and a zero point, and which inputs these are."""

_MADE = {"DequantizeLinear": (1, 2), "QLinearConv": (6, 7), "QLinearMatMul": (6, 7), "QuantizeLinear": (1, 2)}
"""Operators that make such tensors, and which inputs are the scale and the zero point."""

_SAME_VALUES = frozenset({"Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice"})


def interface_quantisation(model: OnnxModel) -> Mapping[str, LinearQuantisation]:
    """The quantisation of inputs and outputs that are integers, by name, where one scale is known."""
    graph = model.proto.graph
    known = quantisations(graph, model.weights)
    found: dict[str, LinearQuantisation] = {}
    for value in (*graph.input, *graph.output):
        one, kind = known.get(value.name), value.type.tensor_type.elem_type
        if one is not None and one.axis is None and helper.tensor_dtype_to_np_dtype(kind).kind in "iu":
            found[value.name] = LinearQuantisation(float(np.float32(one.scales[0])), one.zero_points[0])
    return found


def quantisations(graph: onnx.GraphProto, weights: Weights) -> Mapping[str, TensorQuantisation]:
    """The quantisation of integers, and of the floats that they are made of or become, with constant parameters.

    Also of tensors that become one of these without a change of values. One that operators read with other parameters
    than it is made with, or than others read it, has none.
    """
    constants = {tensor.name: value_of(tensor, weights) for tensor in graph.initializer}
    constants |= {
        node.output[0]: onnx.numpy_helper.to_array(attribute.t)
        for node in graph.node
        if node.op_type == "Constant" and node.output
        for attribute in node.attribute
        if attribute.name == "value"
    }
    ways: dict[str, set[TensorQuantisation | None]] = {}
    for node in graph.node:
        for name, places in _stated(node):
            ways.setdefault(name, set()).add(_quantisation(node, places, constants))
    found = {name: next(iter(of)) for name, of in ways.items() if len(of) == 1}
    known = {name: one for name, one in found.items() if one is not None}
    for node in [*graph.node, *reversed(graph.node)]:
        if node.op_type in _SAME_VALUES and node.input and node.output:
            for name, other in ((node.input[0], node.output[0]), (node.output[0], node.input[0])):
                if name in known and known[name].axis is None and other not in ways:
                    known.setdefault(other, known[name])
    return known


def _stated(node: onnx.NodeProto) -> Iterator[tuple[str, tuple[int, int]]]:
    """The tensors of which an operator says what they stand for, and the inputs that say it."""
    for position, places in _READ.get(node.op_type, {}).items():
        yield node.input[position], places
    if node.op_type in _MADE and node.output:
        yield node.output[0], _MADE[node.op_type]


def _quantisation(
    node: onnx.NodeProto, places: tuple[int, int], constants: Mapping[str, np.ndarray]
) -> TensorQuantisation | None:
    scale, zero = (node.input[place] if place < len(node.input) else "" for place in places)
    if scale not in constants or (zero and zero not in constants):
        return None
    scales = constants[scale].astype(np.float64)
    points = constants[zero].astype(np.int64) if zero else np.zeros(scales.shape, np.int64)
    axis = next((a.i for a in node.attribute if a.name == "axis"), 1) if scales.size > 1 else None
    return TensorQuantisation(tuple(map(float, scales.ravel())), tuple(map(int, points.ravel())), axis)
