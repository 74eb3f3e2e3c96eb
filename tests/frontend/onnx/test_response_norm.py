"""LRN against ONNX's definition: any rank, sizes that are even, powers that roots make and others."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph.partition import to_program
from tests.interpreter import run_program

ALPHA, BIAS = 0.5, 1.25


def by_definition(x: np.ndarray, size: int, beta: float) -> np.ndarray:
    """From channel c - floor((size - 1) / 2) to c + ceil((size - 1) / 2), as far as there are channels."""
    wide = x.astype(np.float64)
    squares = np.stack(
        [
            (wide[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] ** 2).sum(1, keepdims=True)
            for c in range(x.shape[1])
        ],
        axis=1,
    ).reshape(x.shape)
    return np.asarray(wide / (BIAS + ALPHA / size * squares) ** beta)


@pytest.mark.parametrize(
    ("shape", "size", "beta"),
    [
        ((2, 7, 3, 4), 5, 0.75),
        ((2, 7, 3, 4), 4, 0.6),
        ((1, 1, 3, 3), 2, 0.75),
        ((2, 6, 5), 2, 0.75),
        ((3, 5), 3, 0.6),
        ((1, 4, 2, 3, 2), 1, 0.75),
        ((2, 4, 3, 0), 3, 0.75),
    ],
)
def test_it_is_what_onnx_defines(shape: tuple[int, ...], size: int, beta: float) -> None:
    """An even size gave one channel too many: two of one, and a refusal of others."""
    node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=ALPHA, beta=beta, bias=BIAS)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    graph = helper.make_graph([node], "g", [x], [y])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    feed = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    program = to_program(import_onnx(model_from_proto(proto, "0" * 64, "model", None, "model.onnx")))
    found = run_program(program, {"x": feed})["y"]
    assert found.shape == shape
    np.testing.assert_allclose(found, by_definition(feed, size, beta), rtol=2e-6)
