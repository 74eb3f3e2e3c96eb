"""Loops are repeated while they are imported."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph.partition import to_program
from tests.interpreter import run_program

LOOP = """
<ir_version: 8, opset_import: ["": 17]>
main (float[2] x) => (float[2] y) <int64 n = {{3}}, bool holds = {{1}}> {{
  y = Loop (n, {condition}, x) <body = doubled (int64 i, bool going, float[2] v) => (bool on, float[2] w) {{
    on = Identity (going)
    w = Add (v, v)
  }}>
}}
"""


@pytest.mark.parametrize("condition", ["", "holds"])
def test_a_condition_that_is_left_out_is_true_in_the_body_too(condition: str) -> None:
    proto = onnx.parser.parse_model(LOOP.format(condition=condition))
    model = model_from_proto(proto, "0" * 64, "m", None, "m.onnx")
    result = run_program(to_program(import_onnx(model)), {"x": np.array([1, -2.5], "f4")})["y"]
    np.testing.assert_array_equal(result, np.array([8, -20], "f4"))
