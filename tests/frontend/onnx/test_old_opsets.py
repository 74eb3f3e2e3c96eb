"""Operators of opsets before those that exporters write today."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.partition import to_program
from tests.interpreter import run_program


def compare(text: str) -> None:
    """The values of the model in `text` are those of its reference."""
    model = model_from_proto(onnx.parser.parse_model(text), "0" * 64, "m", None, "m.onnx")
    program = to_program(import_onnx(model))
    draw = np.random.default_rng(4)
    feed = {spec.name: draw.standard_normal(spec.shape).astype("f4") for spec in program.inputs}
    found = run_program(program, feed)["y"]
    np.testing.assert_allclose(found, evaluate_model(model, [feed])[0]["y"], rtol=1e-5, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(("scales", "shape"), [("2.0, 2.0", "8, 10"), ("1.5, 1.5", "6, 7"), ("1.25, 1.7", "5, 8")])
@pytest.mark.parametrize("opset", [7, 9])
def test_upsample_takes_its_scales_from_where_its_opset_has_them(
    mode: str, scales: str, shape: str, opset: int
) -> None:
    attribute, given = (f", scales = [1.0, 1.0, {scales}]", "x") if opset < 9 else ("", "x, factors")
    compare(
        f"""
        <ir_version: 8, opset_import: ["": {opset}]>
        main (float[1, 2, 4, 5] x) => (float[1, 2, {shape}] y) <float[4] factors = {{1.0, 1.0, {scales}}}> {{
          y = Upsample <mode = "{mode}"{attribute}> ({given})
        }}
        """
    )


@pytest.mark.parametrize(("opset", "scales"), [(18, 4), (20, 4), (21, 8)])
@pytest.mark.parametrize("epsilon", ["0.00001", "0.1"])
def test_groups_are_scaled_by_group_before_opset_21_and_by_channel_since(opset: int, scales: int, epsilon: str) -> None:
    """ONNX's checker refuses the older operator as deprecated."""
    values = ", ".join(str(0.5 + n) for n in range(scales))
    compare(
        f"""
        <ir_version: 10, opset_import: ["": {opset}]>
        main (float[2, 8, 3, 5] x) => (float[2, 8, 3, 5] y) <float[{scales}] s = {{{values}}}> {{
          y = GroupNormalization <num_groups = 4, epsilon = {epsilon}> (x, s, s)
        }}
        """
    )
