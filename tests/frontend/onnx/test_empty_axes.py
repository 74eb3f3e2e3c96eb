"""Axes of extent 0: the cache of a decoder before its first step, sums of nothing, and results without elements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from edgetune.cli.options import InputShape
from edgetune.errors import ModelError
from edgetune.frontend.onnx.format import StoredOnnx
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxFile, OnnxModel, model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.partition import to_program
from edgetune.pipeline.fresh_inputs import model_of
from tests.interpreter import run_program

EMPTY_ATTENTION = """(float[1, 2, 3, 8] q, float[1, 2, 0, 8] k) => (float[1, 2, 3, 8] y) {
  t = Transpose <perm = [0, 1, 3, 2]> (k)
  s = MatMul (q, t)
  p = Softmax <axis = -1> (s)
  y = MatMul (p, k)
}"""
CACHE = """(float[1, T, 4] past, float[1, 2, 4] x) => (float[1, N, 4] y, float[1, 2, M] z) {
  y = Concat <axis = 1> (past, x)
  t = Transpose <perm = [0, 2, 1]> (y)
  z = MatMul (x, t)
}"""
GRAPHS = {
    "attention over nothing": EMPTY_ATTENTION,
    "a shape with 0": """(float[2, 0, 3] x) => (float[0, 6] y) <int64[2] s = {0, 6}> {
      y = Reshape <allowzero = 1> (x, s)
    }""",
    "spread to nothing": "(float[2, 1] x) => (float[2, 0] y) <int64[2] s = {2, 0}> { y = Expand (x, s) }",
    "a sum of nothing": """(float[2, 0, 3] x, float[2, 3] z) => (float[2, 3] y) <int64[1] a = {1}> {
      s = ReduceSum <keepdims = 0> (x, a)
      y = Add (s, z)
    }""",
    "a product over nothing": "(float[2, 0] x, float[0, 3] w) => (float[2, 3] y) { y = MatMul (x, w) }",
    "an empty part": """(float[2, 4] x) => (float[2, 0] y, float[2, 4] z) <int64[2] s = {0, 4}> {
      y, p = Split <axis = 1> (x, s)
      z = Relu (p)
    }""",
}


def read(graph: str, shapes: dict[str, tuple[int, ...]] | None = None) -> OnnxModel:
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> main {graph}')
    return model_from_proto(proto, "0" * 64, "m", shapes, "m.onnx")


def assert_right(model: OnnxModel) -> None:
    program = to_program(import_onnx(model))
    draw = np.random.default_rng(3)
    feed = {spec.name: draw.standard_normal(spec.shape).astype("f4") for spec in program.inputs}
    found = run_program(program, feed)
    for name, wanted in evaluate_model(model, [feed])[0].items():
        assert found[name].shape == wanted.shape
        np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", GRAPHS)
def test_axes_of_no_elements_compute_what_the_reference_does(name: str) -> None:
    assert_right(read(GRAPHS[name]))


@pytest.mark.parametrize("length", [0, 3])
def test_one_model_has_an_empty_and_a_filled_cache(length: int) -> None:
    assert_right(read(CACHE, {"past": (1, length, 4)}))


def test_what_has_no_elements_needs_no_kernel() -> None:
    """Only the product with nothing is left, which is zero, and constant."""
    model = read(EMPTY_ATTENTION)
    assert [call.label for call in to_program(import_onnx(model)).calls if "matmul" in call.label] == []


def test_a_package_with_an_empty_input_gives_its_shapes_back(tmp_path: Path) -> None:
    """As `verify` reads the model again with the shapes of the package."""
    model = read(CACHE, {"past": (1, 0, 4)})
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> main {CACHE}')
    stored = StoredOnnx(OnnxFile(tmp_path / "m.onnx", proto, "0" * 64, {}))
    again = model_of(stored, to_program(import_onnx(model)).inputs)
    assert {tensor.name: tensor.shape for tensor in again.inputs} == {"past": (1, 0, 4), "x": (1, 2, 4)}


def test_the_shape_of_a_scalar_is_given_as_none() -> None:
    model = read("(float s, float[2] x) => (float[2] y) { y = Mul (s, x) }", {"s": (), "x": (2,)})
    assert_right(model)
    with pytest.raises(ModelError, match=r"--shape s=1 contradicts m\.onnx, where its shape is empty"):
        read("(float s) => (float y) { y = Neg (s) }", {"s": (1,)})


def test_a_negative_extent_is_refused() -> None:
    with pytest.raises(ModelError, match="--shape past has a negative extent"):
        read(CACHE, {"past": (1, -1, 4)})


@pytest.mark.parametrize(("text", "shape"), [("s=", ()), ("cache=1,0,8", (1, 0, 8)), ("a=b=4", (4,))])
def test_a_command_line_gives_scalars_and_empty_axes(text: str, shape: tuple[int, ...]) -> None:
    assert InputShape().convert(text, None, None)[1] == shape
