"""An operator is its domain and its name: another vendor's operator of a known name is not the known one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.domains import opset_of
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.partition import to_program
from tests.interpreter import run_program


def model_of(operator: str, domain: str) -> OnnxModel:
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], name="n", domain=domain)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 3])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    return model_from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8), "0" * 64, "m", None, "m.onnx")


# Known by TVM's converter, by one of our own, by a decomposition, by its shape alone, and as control flow.
@pytest.mark.parametrize("operator", ["Relu", "Elu", "Det", "EyeLike", "If"])
@pytest.mark.parametrize("domain", ["com.microsoft", "com.example"])
def test_an_operator_of_another_domain_is_not_onnx_s_of_that_name(operator: str, domain: str) -> None:
    with pytest.raises(UnsupportedOperator, match=f"operator {domain}::{operator} "):
        import_onnx(model_of(operator, domain))


@pytest.mark.parametrize("operator", ["FastGelu", "Gelu"])
def test_operators_of_onnx_runtime_that_are_known_stay_known(operator: str) -> None:
    model = model_of(operator, "com.microsoft")
    x = np.linspace(-2, 2, 9, dtype="f4").reshape(3, 3)
    expected = evaluate_model(model, [{"x": x}])[0]["y"]
    result = run_program(to_program(import_onnx(model)), {"x": x})["y"]
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("imports", "opset"),
    [
        ([("com.example", 3), ("", 11)], 11),
        ([("ai.onnx", 9)], 9),
        ([("com.example", 3)], onnx.defs.onnx_opset_version()),
    ],
)
def test_the_opset_is_that_of_the_operators_of_onnx(imports: list[tuple[str, int]], opset: int) -> None:
    proto = onnx.ModelProto(opset_import=[helper.make_opsetid(*entry) for entry in imports])
    assert opset_of(proto) == opset
