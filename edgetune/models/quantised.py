"""Finds the integer weights of a quantised (QDQ) graph, which must reach the package as the integers they are."""

from __future__ import annotations

import numpy as np
import onnx

from edgetune.models.large_tensors import Weights, value_of

_SMALL = ("int8", "uint8", "int16", "uint16")


def kept_weights(proto: onnx.ModelProto, weights: Weights) -> dict[str, np.ndarray]:
    """Initializers of at most 16 bits with two axes or more that go through DequantizeLinear, by name.

    Constant folding would turn them into floats four times as large. `weights` are the arrays of stand-ins.
    """
    initializers = {i.name: i for i in proto.graph.initializer}
    kept: dict[str, np.ndarray] = {}
    for node in proto.graph.node:
        if node.op_type != "DequantizeLinear" or node.input[0] not in initializers:
            continue
        array = value_of(initializers[node.input[0]], weights)
        if array.ndim >= 2 and array.dtype.name in _SMALL:
            kept[node.input[0]] = array
    return kept
