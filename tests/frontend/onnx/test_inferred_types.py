"""Types of what decompositions write are known, also where ONNX does not allow its operator that type."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgetune.frontend.onnx.importer import _has_converter, import_onnx
from edgetune.frontend.onnx.inferred_types import inferred_types
from edgetune.frontend.onnx.inline import simplify
from edgetune.frontend.onnx.node_values import static_shape
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph.partition import to_program
from tests.conformance.chain import Chain
from tests.conformance.chains import load_chain
from tests.conformance.chains_quantised import QUANTISED
from tests.interpreter import run_program


def _inferred(node: onnx.NodeProto, opset: int, *inputs: tuple[int, tuple[int, ...]]) -> tuple[int, tuple[int, ...]]:
    types = {
        name: helper.make_tensor_type_proto(element, shape)
        for name, (element, shape) in zip(node.input, inputs, strict=True)
    }
    opsets = [helper.make_opsetid("", opset)]
    schema = onnx.defs.get_schema(node.op_type, opset)
    found = inferred_types(node, schema, types, {}, opsets, 8)
    shape = static_shape(node.output[0], found)
    assert shape is not None
    return found[node.output[0]].tensor_type.elem_type, shape


def test_a_convolution_of_int32_has_the_shape_of_one_of_floats() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    operands = [(TensorProto.INT32, (1, 4, 6, 6)), (TensorProto.INT32, (8, 4, 3, 3))]
    assert _inferred(node, 13, *operands) == (TensorProto.INT32, (1, 8, 6, 6))


def test_only_what_has_the_type_of_the_operands_gets_it() -> None:
    node = helper.make_node("Equal", ["a", "b"], ["y"])
    operands = [(TensorProto.FLOAT, (2, 3)), (TensorProto.FLOAT, (3,))]
    assert _inferred(node, 7, *operands) == (TensorProto.BOOL, (2, 3))


def test_an_operand_of_unknown_type_gives_nothing() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    types = {"x": helper.make_tensor_type_proto(TensorProto.FLOAT, (1, 4, 6, 6))}
    assert inferred_types(node, onnx.defs.get_schema("Conv", 13), types, {}, [helper.make_opsetid("", 13)], 8) == {}


def test_an_operator_without_a_rule_has_the_types_of_its_body() -> None:
    node = helper.make_node("MeanVarianceNormalization", ["x"], ["y"], axes=[0, -2])
    assert _inferred(node, 18, (TensorProto.FLOAT, (2, 3, 4))) == (TensorProto.FLOAT, (2, 3, 4))


@pytest.mark.parametrize("chain", QUANTISED, ids=lambda chain: chain.key)
def test_everything_in_a_quantised_chain_has_a_type(chain: Chain) -> None:
    case = load_chain(chain.key)
    proto, _ = simplify(onnx.shape_inference.infer_shapes(case.model), _has_converter)
    graph = proto.graph
    known = {value.name for value in (*graph.input, *graph.value_info, *graph.initializer, *graph.output)}
    assert {name for node in graph.node for name in node.output} <= known


@pytest.mark.parametrize("element", ["uint8", "int8", "uint16", "int16", "int32", "int64"])
def test_floats_that_do_not_fit_are_cast_as_numpy_casts_them(element: str) -> None:
    """ONNX leaves it open; NumPy and ONNX Runtime agree while the value fits an int32."""
    x = np.array([-70000.7, -300.5, -1.5, -0.4, 0, 1.6, 127.5, 128, 200, 255.9, 256, 300, 70000], "float32")
    with np.errstate(invalid="ignore"):
        expected = x.astype("int32").astype(element)
    np.testing.assert_array_equal(_cast(x, element), expected)


def _cast(x: np.ndarray, element: str) -> np.ndarray:
    to = helper.np_dtype_to_tensor_dtype(np.dtype(element))
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=to)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", to, x.shape)],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model = model_from_proto(proto, "0" * 64, "model", None, "model.onnx")
    return run_program(to_program(import_onnx(model)), {"x": x})["y"]
