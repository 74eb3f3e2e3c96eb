"""Indices out of range never reach memory outside a tensor; those in range are untouched."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from tests.interpreter import run_program

DATA = np.arange(12, dtype="float32").reshape(3, 4)
UPDATES = -np.ones((2, 4), "float32")


def program_of(node: onnx.NodeProto, indices: list[int], updates: list[int] | None) -> tuple[OnnxModel, Program]:
    inputs = [
        helper.make_tensor_value_info("data", TensorProto.FLOAT, [3, 4]),
        helper.make_tensor_value_info("indices", TensorProto.INT64, indices),
    ]
    if updates:
        inputs.append(helper.make_tensor_value_info("updates", TensorProto.FLOAT, updates))
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = model_from_proto(proto, "0" * 64, "model", None, "model.onnx")
    return model, to_program(import_onnx(model))


CASES = {
    "Gather": (np.array([2, -1, 0]), np.array([3, -9, 1 << 40]), None),
    "GatherElements": (np.array([[0, 2, 1, -1]]), np.array([[9, -9, 1 << 40, 0]]), None),
    "GatherND": (np.array([[0, 3], [-1, 2]]), np.array([[7, 0], [0, -99]]), None),
    "ScatterElements": (
        np.array([[0, -1, 1, 1], [1, 0, -1, 0]]),
        np.array([[9, -9, 5, 0], [1, 1, 1 << 40, 1]]),
        UPDATES,
    ),
    "ScatterND": (np.array([[0], [-1]]), np.array([[99], [-99]]), UPDATES),
    "ReverseSequence": (np.array([1, 3, 2, 3]), np.array([9, 4, 1000, -9]), None),
}


@pytest.mark.parametrize("operator", CASES)
def test_right_indices_mean_what_they_meant_and_wrong_ones_stay_inside(operator: str) -> None:
    right, wrong, updates = CASES[operator]
    names = ["data", "indices", *(["updates"] if updates is not None else [])]
    node = helper.make_node(operator, names, ["y"])
    model, program = program_of(node, list(right.shape), None if updates is None else list(updates.shape))
    feed = {"data": DATA, "indices": right.astype("int64")} | ({} if updates is None else {"updates": updates})
    expected = evaluate_model(model, [feed])[0]["y"]
    np.testing.assert_array_equal(run_program(program, feed)["y"], expected)
    outside = run_program(program, feed | {"indices": wrong.astype("int64")})["y"]
    assert set(outside.ravel()) <= set(DATA.ravel()) | set(UPDATES.ravel())
