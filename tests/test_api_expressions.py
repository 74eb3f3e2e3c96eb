"""Tensor expressions from Python: a whole task that becomes a package, and an operator that a model may use."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tvm import te

import edgetune
from edgetune.errors import UsageError
from edgetune.graph.partition import to_program
from edgetune.models.importer import import_onnx
from edgetune.models.onnx_file import model_from_proto
from tests.interpreter import run_program


def squared_product(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, 24), name="k")
    product = te.compute((4, 32), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="product")
    return te.compute((4, 32), lambda i, j: product[i, j] * product[i, j], name="squared")


def test_an_expression_is_tuned_and_becomes_a_package_that_passes_its_own_test(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((32, 24)).astype("f4")
    result = edgetune.tune(
        squared_product,
        {"x": ((4, 24), "float32")},
        constants={"w": weights},
        name="squares",
        trials=4,
        db=tmp_path / "records.db",
        out=tmp_path / "squares",
    )
    assert result.build.measured_kernels == 1
    done = subprocess.run(
        ["make", "-s", "-C", tmp_path / "squares", "selftest"], capture_output=True, text=True, check=True
    )
    assert done.stdout.rstrip().endswith("PASS")


def swish_model(operator: str) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], domain="com.example", beta=2.0)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 5])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_a_registered_operator_is_imported_with_its_attributes() -> None:
    def scaled_sine(x: te.Tensor, beta: float) -> te.Tensor:
        return te.compute(x.shape, lambda *i: te.sin(x(*i)) * beta)

    edgetune.register_operator("ScaledSine", scaled_sine)
    model = model_from_proto(swish_model("ScaledSine"), "0" * 64, "m", None, "m.onnx")
    x = np.linspace(-3, 3, 15, dtype="f4").reshape(3, 5)
    result = run_program(to_program(import_onnx(model)), {"x": x})
    np.testing.assert_allclose(result["y"], 2 * np.sin(x), rtol=1e-5, atol=1e-6)


def test_an_operator_that_exists_is_not_registered_again() -> None:
    with pytest.raises(UsageError, match="Relu"):
        edgetune.register_operator("Relu", lambda x: x)
