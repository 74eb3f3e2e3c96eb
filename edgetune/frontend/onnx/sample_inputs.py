"""Sample inputs of an ONNX model: seeded values, valid as indices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.sample_values import sample_values
from edgetune.graph.program import TensorSpec


def sample_inputs(model: OnnxModel, inputs: Sequence[TensorSpec], count: int, seed: int) -> list[dict[str, np.ndarray]]:
    """`count` feeds by input name, as `sample_values` makes them; integers that index a table stay within it."""
    return sample_values(inputs, count, seed, _index_limits(model.proto.graph))


def _index_limits(graph: onnx.GraphProto) -> dict[str, int]:
    """Number of rows of the smallest table that each input indexes, directly or through a Cast."""
    shapes = {i.name: tuple(i.dims) for i in graph.initializer}
    source = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Cast"}
    limits: dict[str, int] = {}
    for node in graph.node:
        if node.op_type != "Gather" or node.input[0] not in shapes or not shapes[node.input[0]]:
            continue
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        index = source.get(node.input[1], node.input[1])
        rows = shapes[node.input[0]][axis]
        limits[index] = min(rows, limits.get(index, rows))
    return limits
