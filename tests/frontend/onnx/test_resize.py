"""Resize of tensors that are no images (N, C, ...), against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph.partition import to_program
from tests.interpreter import run_program


def _model(shape: tuple[int, ...], sizes: tuple[int, ...], mode: str) -> onnx.ModelProto:
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes)],
        [helper.make_tensor("sizes", TensorProto.INT64, [len(sizes)], sizes)],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@pytest.mark.parametrize(
    ("shape", "sizes", "mode"),
    [
        ((3, 5, 6), (3, 10, 12), "linear"),
        ((5, 6, 3), (10, 18, 3), "nearest"),
        ((5, 6), (10, 18), "linear"),
        ((2, 3, 4, 5), (4, 6, 4, 5), "nearest"),
        ((6,), (9,), "nearest"),
    ],
)
def test_all_axes_get_their_size(shape: tuple[int, ...], sizes: tuple[int, ...], mode: str) -> None:
    """The first two axes kept theirs, and fewer than three axes ended with an assertion of TVM."""
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    proto = _model(shape, sizes, mode)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found = run_program(to_program(import_onnx(model_from_proto(proto, "0" * 64, "m", None, "m"))), {"x": x})["y"]
    np.testing.assert_allclose(found, session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)
