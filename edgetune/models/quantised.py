"""Finds the integer weights of a quantised (QDQ) graph, which must reach the package as the integers they are."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

_SMALL = ("int8", "uint8", "int16", "uint16")


def kept_weights(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Initializers of at most 16 bits with two axes or more that go through DequantizeLinear, by name.

    Constant folding would turn them into floats four times as large.
    """
    initializers = {i.name: i for i in proto.graph.initializer}
    weights: dict[str, np.ndarray] = {}
    for node in proto.graph.node:
        if node.op_type != "DequantizeLinear" or node.input[0] not in initializers:
            continue
        array = numpy_helper.to_array(initializers[node.input[0]])
        if array.ndim >= 2 and array.dtype.name in _SMALL:
            weights[node.input[0]] = array
    return weights
