"""Operators that move integers, or compute them again from what they are dequantised to: the results stay the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program


def _node(operator: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(","), [output], **attributes)


def _model(
    nodes: Sequence[onnx.NodeProto], feeds: Mapping[str, np.ndarray], constants: Mapping[str, object]
) -> tuple[OnnxModel, Program]:
    ends = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    result = helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)
    graph = helper.make_graph(list(nodes), "moved", ends, [result], stored)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    proto = onnx.shape_inference.infer_shapes(proto)
    model = model_from_proto(proto, "0" * 64, "model", None, "model.onnx")
    return model, to_program(import_onnx(model))


_BYTES = np.arange(-100, 92, 12, dtype="int8").reshape(2, 8)
_WIDE = [_node("Cast", "x", "i", to=TensorProto.INT32), _node("Cast", "c", "f", to=TensorProto.FLOAT)]
_SCALE = {"s": np.float32(0.1)}
_ONES = np.ones((1, 1, 1), "float32")

_CASES: Mapping[str, tuple[Sequence[onnx.NodeProto], Mapping[str, Any], Mapping[str, object]]] = {
    "quantised again, with a zero point that is computed": (
        [_WIDE[0], _node("Cast", "z", "p", to=TensorProto.INT32), _node("Sub", "i,p", "c"), _WIDE[1],
         _node("Mul", "f,s", "d"), _node("QuantizeLinear", "d,s,n", "y")],
        {"x": _BYTES, "z": np.int8(50)}, {**_SCALE, "n": np.int8(0)},
    ),
    "picked, with a zero point of more axes": (
        [_WIDE[0], _node("Sub", "i,z", "c"), _WIDE[1], _node("Mul", "f,s", "d"), _node("Gather", "d,n", "y", axis=1)],
        {"x": _BYTES}, {**_SCALE, "z": np.array([[[3]]], "int32"), "n": np.array([1])},
    ),
    "a product of floats whose scale has more axes": (
        [_node("DequantizeLinear", "x,s,n", "d"), _node("DequantizeLinear", "w,s,n", "v"), _node("MatMul", "d,v", "m"),
         _node("Mul", "m,t", "y")],
        {"x": _BYTES},
        {**_SCALE, "n": np.int8(0), "w": np.arange(-64, 64, 2, dtype="int8").reshape(8, 8), "t": _ONES},
    ),
    "a computed zero point beyond the type": (
        [_WIDE[0], _node("Sub", "i,z", "c"), _WIDE[1], _node("Mul", "f,s", "d"),
         _node("DequantizeLinear", "w,s,n", "v"), _node("MatMul", "d,v", "y")],
        {"x": np.full((2, 1200), -128, "int8"), "z": np.array(30000, "int32")},
        {**_SCALE, "n": np.int8(0), "w": np.full((1200, 8), 120, "int8")},
    ),
    "pooled": (
        [_node("DequantizeLinear", "x,s,n", "d"), _node("MaxPool", "d", "m", kernel_shape=[3, 3], pads=[1] * 4),
         _node("QuantizeLinear", "m,s,n", "y")],
        {"x": np.arange(-128, 64, dtype="int8").reshape(1, 3, 8, 8)}, {**_SCALE, "n": np.int8(7)},
    ),
    "of no axes": (
        [_node("DequantizeLinear", "x,s,n", "d"), _node("Reshape", "d,shape", "r"), _node("Add", "r,s", "y")],
        {"x": np.array([9], "int8")}, {**_SCALE, "n": np.int8(7), "shape": np.zeros(0, "int64")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(_CASES))
def test_moved_integers_give_the_results_of_the_model(name: str) -> None:
    nodes, feeds, constants = _CASES[name]
    arrays = {key: np.asarray(value) for key, value in feeds.items()}
    model, program = _model(nodes, arrays, constants)
    (found,), (wanted,) = evaluate_program(program, [arrays]), evaluate_model(model, [arrays])
    assert found["y"].shape == wanted["y"].shape
    np.testing.assert_allclose(found["y"], wanted["y"], rtol=1e-5, atol=1e-5)


def test_pooling_of_integers_is_of_bytes() -> None:
    nodes, feeds, constants = _CASES["pooled"]
    _, program = _model(nodes, {"x": np.asarray(feeds["x"])}, constants)
    types = {param.dtype for kernel in program.kernels for param in kernel.params}
    assert types == {"int8"}
