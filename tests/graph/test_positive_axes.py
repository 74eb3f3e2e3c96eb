"""No pass of TVM sees an axis that counts from the end; the meaning stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

from edgetune.graph.passes import positive_axes
from tests.graph.test_program import assert_same, model_of, random

SHAPE = (2, 1, 3, 1)
_INDICES = relax.const(np.zeros(2, "int64"))
Make = Callable[[relax.Var], relax.Expr]
# Each with attributes that count from the end, and the same ones counted from the start.
OPERATORS: dict[str, tuple[Make, Make]] = {
    "squeeze": (lambda x: relax.op.squeeze(x, [-1, -3]), lambda x: relax.op.squeeze(x, [3, 1])),
    "concat": (lambda x: relax.op.concat([x, x], -2), lambda x: relax.op.concat([x, x], 2)),
    "softmax": (lambda x: relax.op.nn.softmax(x, -2), lambda x: relax.op.nn.softmax(x, 2)),
    "sum": (lambda x: relax.op.sum(x, [0, -1]), lambda x: relax.op.sum(x, [0, 3])),
    "split": (lambda x: relax.op.split(x, 2, -4), lambda x: relax.op.split(x, 2, 0)),
    "topk": (lambda x: relax.op.topk(x, 2, -2), lambda x: relax.op.topk(x, 2, 2)),
    "take": (lambda x: relax.op.take(x, _INDICES, -2), lambda x: relax.op.take(x, _INDICES, 2)),
    "expand_dims": (lambda x: relax.op.expand_dims(x, [-1]), lambda x: relax.op.expand_dims(x, [4])),
    "stack": (lambda x: relax.op.stack([x, x], -5), lambda x: relax.op.stack([x, x], 0)),
}


def module_of(make: Make) -> tvm.IRModule:
    """A module whose `main` has one operator."""
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(make(x)))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("name", OPERATORS)
def test_an_axis_counts_from_the_start(name: str) -> None:
    from_the_end, from_the_start = map(module_of, OPERATORS[name])
    tvm.ir.assert_structural_equal(positive_axes(from_the_end), from_the_start)
    tvm.ir.assert_structural_equal(positive_axes(from_the_start), module_of(OPERATORS[name][1]))
    tvm.ir.assert_structural_equal(from_the_end, module_of(OPERATORS[name][0]))  # the argument stays


def test_attributes_without_axes_stay() -> None:
    """Squeeze of all axes of size 1."""
    tvm.ir.assert_structural_equal(positive_axes(module_of(relax.op.squeeze)), module_of(relax.op.squeeze))


@pytest.mark.parametrize("before", ["Conv", "GlobalAveragePool"])
@pytest.mark.parametrize("axes", [[-1], [-1, -2], [2], [3, -2]])
def test_squeeze_after_a_convolution(before: str, axes: list[int]) -> None:
    """TVM's ConvertLayout ended in std::bad_alloc."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"])]
    if before == "GlobalAveragePool":
        nodes.append(helper.make_node("GlobalAveragePool", ["c"], ["p"]))
    nodes.append(helper.make_node("Squeeze", [nodes[-1].output[0], "axes"], ["y"]))
    weights = {"w": random(np.random.default_rng(1), 4, 3, 3, 3), "axes": np.array(axes)}
    assert_same(model_of(nodes, {"x": [1, 3, 3, 3]}, ["y"], weights))
