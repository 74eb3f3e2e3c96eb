"""The evaluator's replaced operators, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
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


SCAN = """
<ir_version: 9, opset_import: ["": 17]>
main (float[{x}] x, float[3] s, float[4,3] z) => (float[3] last, float[{a}] a, float[{b}] b) {{
  last, a, b = Scan <
    num_scan_inputs = 2, scan_input_axes = [{axis}, 0], scan_input_directions = [{backwards}, {forwards}],
    scan_output_axes = [{axis}, {other}], scan_output_directions = [{reverse}, 0],
    body = g (float[3] p, float[3] e, float[3] f) => (float[3] q, float[3] r, float[2,3] u) {{
      t = Mul (p, e)
      q = Add (t, s)
      r = Sub (q, f)
      two = Constant <value_ints = [2, 3]> ()
      u = Expand (r, two)
    }}
  > (s, x, z)
}}
"""


@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize(
    ("axis", "x", "other", "b"), [(0, "4,3", 1, "2,4,3"), (1, "3,4", -1, "2,3,4"), (-1, "3,4", 0, "4,2,3")]
)
def test_a_scan_has_axes_and_directions(axis: int, x: str, other: int, b: str, backwards: int, reverse: int) -> None:
    ends = {"axis": axis, "x": x, "a": x, "other": other, "b": b}
    directions = {"backwards": backwards, "forwards": 1 - backwards, "reverse": reverse}
    proto = onnx.parser.parse_model(SCAN.format(**ends, **directions))
    draw = np.random.default_rng(0)
    shapes = {"x": [int(extent) for extent in x.split(",")], "s": [3], "z": [4, 3]}
    feed = {name: draw.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    pairs = zip(reference_evaluator(proto).run(None, feed), session.run(None, feed), strict=True)
    for found, wanted in pairs:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
