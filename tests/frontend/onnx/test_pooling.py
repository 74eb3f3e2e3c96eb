"""Pooling with auto_pad against ONNX Runtime: the reference evaluator counts SAME_LOWER down, unlike ONNX."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph.partition import to_program
from tests.interpreter import run_program


def _model(operator: str, extents: tuple[int, ...], strides: tuple[int, ...], **attributes: object) -> onnx.ModelProto:
    shape = [1, 2, *(-(-extent // stride) for extent, stride in zip(extents, strides, strict=True))]
    node = helper.make_node(operator, ["x"], ["y"], strides=strides, **attributes)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, *extents])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@pytest.mark.parametrize("auto_pad", ["SAME_LOWER", "SAME_UPPER"])
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(
    ("extents", "kernel", "strides"), [((7, 6), (3, 2), (2, 2)), ((5, 8), (2, 3), (3, 1)), ((7,), (2,), (2,))]
)
def test_as_many_results_as_strides_fit(
    operator: str, auto_pad: str, extents: tuple[int, ...], kernel: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, *extents)).astype("float32")
    proto = _model(operator, extents, strides, kernel_shape=kernel, auto_pad=auto_pad)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found = run_program(to_program(import_onnx(model_from_proto(proto, "0" * 64, "m", None, "m"))), {"x": x})["y"]
    np.testing.assert_allclose(found, session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
def test_dilations_with_auto_pad_are_refused(operator: str) -> None:
    proto = _model(operator, (6, 6), (2, 2), kernel_shape=(3, 3), dilations=(2, 1), auto_pad="SAME_LOWER")
    with pytest.raises(UnsupportedOperator, match="give different results; give pads"):
        import_onnx(model_from_proto(proto, "0" * 64, "m", None, "m"))
