"""Sample inputs: seeded values of sensible scale, valid as indices, and different enough that outputs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.graph.program import TensorSpec

_PATCH = 8
_PLANE_AXES = 2


def sample_inputs(model: OnnxModel, inputs: Sequence[TensorSpec], count: int, seed: int) -> list[dict[str, np.ndarray]]:
    """`count` feeds by input name.

    Floats have unit scale: coarse patches and some noise, because white noise alone looks the same to every network
    that pools. Integers that index a table stay within it, other integers within 0 to 7.
    """
    limits = _index_limits(model.proto.graph)
    return [
        {s.name: _values(np.random.default_rng([seed, case, i]), s, limits) for i, s in enumerate(inputs)}
        for case in range(count)
    ]


def _values(generator: np.random.Generator, spec: TensorSpec, limits: Mapping[str, int]) -> np.ndarray:
    if spec.dtype == "bool":
        return generator.integers(0, 2, spec.shape).astype(bool)
    if np.dtype(spec.dtype).kind in "iu":
        return generator.integers(0, limits.get(spec.name, 8), spec.shape).astype(spec.dtype)
    noise = generator.standard_normal(spec.shape)
    if len(spec.shape) > _PLANE_AXES and min(spec.shape[-_PLANE_AXES:]) > 1:
        *lead, height, width = spec.shape
        coarse = generator.standard_normal([*lead, -(-height // _PATCH), -(-width // _PATCH)])
        patches = np.kron(coarse, np.ones((_PATCH, _PATCH)))[..., :height, :width]
        noise = patches + 0.3 * noise
    return np.asarray(noise).astype(spec.dtype)


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
