"""The evaluator's replaced operators, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from edgetune.frontend.onnx.reference_evaluator import reference_evaluator


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
@pytest.mark.parametrize(
    ("window", "pads", "strides", "dilations"),
    [
        ((2, 2), (0, 0, 0, 0), (2, 2), (1, 1)),
        ((3, 2), (1, 0, 1, 1), (1, 1), (1, 1)),
        ((2, 3), (0, 1, 1, 0), (2, 1), (1, 1)),
        ((2, 2), (1, 1, 0, 1), (2, 3), (2, 1)),
    ],
)
def test_maximum_pools_pad_each_axis_by_its_own_extent(
    dtype: str, window: tuple[int, ...], pads: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    attributes = {"kernel_shape": window, "pads": pads, "strides": strides, "dilations": dilations}
    graph = helper.make_graph(
        [helper.make_node("MaxPool", ["x"], ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", kind, [2, 3, 9, 8])],
        [helper.make_tensor_value_info("y", kind, None)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    x = np.random.default_rng(0).integers(0, 90, (2, 3, 9, 8)).astype(dtype)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(reference_evaluator(proto).run(None, {"x": x})[0], session.run(None, {"x": x})[0])
