"""What the integers of a quantised model's inputs and outputs stand for, as the operators beside them say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx

from edgetune.frontend.onnx.large_tensors import value_of
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.graph.program import LinearQuantisation

_READ = {
    "DequantizeLinear": {0: (1, 2)},
    "QLinearConv": {0: (1, 2)},
    "QLinearMatMul": {0: (1, 2), 3: (4, 5)},
}
"""Operators that read quantised tensors: at which inputs, and which inputs are the scale and the zero point."""

_MADE = {"QuantizeLinear": (1, 2), "QLinearConv": (6, 7), "QLinearMatMul": (6, 7)}
"""Operators that make them, and which inputs are the scale and the zero point."""


def interface_quantisation(model: OnnxModel) -> Mapping[str, LinearQuantisation]:
    """The quantisation of inputs and outputs by name, where it is one constant, the same for all that read a tensor."""
    graph = model.proto.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}

    def constant(name: str) -> np.ndarray | None:
        return value_of(constants[name], model.weights) if name in constants else None

    wanted = {value.name for value in (*graph.input, *graph.output)} - constants.keys()
    found: dict[str, set[LinearQuantisation | None]] = {}
    for node in graph.node:
        for position, name in enumerate(node.input):
            if name in wanted:
                places = _READ.get(node.op_type, {}).get(position)
                found.setdefault(name, set()).add(_of(node, places, constant))
        for name in node.output:
            if name in wanted:
                found.setdefault(name, set()).add(_of(node, _MADE.get(node.op_type), constant))
    known = {name: next(iter(ways)) for name, ways in found.items() if len(ways) == 1}
    return {name: one for name, one in known.items() if one is not None}


def _of(
    node: onnx.NodeProto, places: tuple[int, int] | None, constant: Callable[[str], np.ndarray | None]
) -> LinearQuantisation | None:
    if places is None:
        return None
    scale = constant(node.input[places[0]])
    given = places[1] < len(node.input) and node.input[places[1]] != ""
    zero_point = constant(node.input[places[1]]) if given else np.zeros(1, np.int8)
    if scale is None or zero_point is None or scale.size != 1 or zero_point.size != 1:
        return None
    return LinearQuantisation(float(np.float32(scale.reshape(-1)[0])), int(zero_point.reshape(-1)[0]))
