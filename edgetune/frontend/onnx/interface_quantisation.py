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

    Tensors of the same values in another shape have one quantisation. One that operators read with other parameters
    than it is made with, or than others read it, has none.
    """
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {
        node.output[0]: attribute.t
        for node in graph.node
        if node.op_type == "Constant" and node.output
        for attribute in node.attribute
        if attribute.name == "value"
    }
    alike = _same_values(graph)
    ways: dict[str, set[TensorQuantisation | None]] = {}
    stated: set[str] = set()
    for node in graph.node:
        for name, places in _stated(node):
            stated.add(name)
            ways.setdefault(alike.get(name, name), set()).add(_quantisation(node, places, constants, weights))
    found = {name: next(iter(of)) for name, of in ways.items() if len(of) == 1}
    known: dict[str, TensorQuantisation] = {}
    for name in (*alike, *stated):
        one = found.get(alike.get(name, name))
        if one is not None and (one.axis is None or name in stated):
            known[name] = one
    return known


def _same_values(graph: onnx.GraphProto) -> dict[str, str]:
    """For each tensor, the first one that has the same elements, where operators only move elements between them.

    A node stands after those that it reads, so what it reads has its first one already.
    """
    first: dict[str, str] = {}
    for node in graph.node:
        if node.op_type in _SAME_VALUES and node.input and node.output:
            source = node.input[0]
            first[node.output[0]] = first.setdefault(source, source)
    return first


def _stated(node: onnx.NodeProto) -> Iterator[tuple[str, tuple[int, int]]]:
    """The tensors of which an operator says what they stand for, and the inputs that say it."""
    for position, places in _READ.get(node.op_type, {}).items():
        yield node.input[position], places
    if node.op_type in _MADE and node.output:
        yield node.output[0], _MADE[node.op_type]


def _quantisation(
    node: onnx.NodeProto, places: tuple[int, int], constants: Mapping[str, onnx.TensorProto], weights: Weights
) -> TensorQuantisation | None:
    scale, zero = (node.input[place] if place < len(node.input) else "" for place in places)
    if scale not in constants or (zero and zero not in constants):
        return None
    scales = value_of(constants[scale], weights).astype(np.float64)
    points = value_of(constants[zero], weights).astype(np.int64) if zero else np.zeros(scales.shape, np.int64)
    axis = next((a.i for a in node.attribute if a.name == "axis"), 1) if scales.size > 1 else None
    return TensorQuantisation(tuple(map(float, scales.ravel())), tuple(map(int, points.ravel())), axis)
