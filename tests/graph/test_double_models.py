"""Models in double: passes over the graph keep its type, and its precision."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from scipy.special import erf

from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.program import Program
from edgetune.pipeline.compile_input import imported
from edgetune.pipeline.model_formats import read_model
from edgetune.target.target import load_target


def program(folder: Path, nodes: list[onnx.NodeProto], x: np.ndarray, **constants: np.ndarray) -> Program:
    """A model of x whose result is y."""
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    ends = [helper.make_tensor_value_info(name, kind, list(x.shape)) for name in "xy"]
    graph = helper.make_graph(nodes, "model", ends[:1], ends[1:], tensors)
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
    return imported(read_model(path), load_target("host"))


def result(of: Program, x: np.ndarray) -> np.ndarray:
    (outputs,) = evaluate_program(of, [{"x": x}])
    return outputs["y"]


@pytest.mark.parametrize("divisor", [np.array(4.0), np.array([4.0, 2.0, 0.5, -8.0])], ids=["one", "each"])
def test_a_division_by_powers_of_two(divisor: np.ndarray, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4))
    made = program(tmp_path, [helper.make_node("Div", ["x", "c"], ["y"])], x, c=divisor)
    np.testing.assert_array_equal(result(made, x), x / divisor)


def test_gelu_has_no_constant_in_single_precision(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4))
    nodes = [helper.make_node("Div", ["x", "c"], ["d"]), helper.make_node("Erf", ["d"], ["y"])]
    made = program(tmp_path, nodes, x, c=np.array(sqrt(2.0)))
    np.testing.assert_allclose(result(made, x), erf(x / sqrt(2.0)), rtol=1e-14)


@pytest.mark.parametrize(("kind", "least"), [(np.float32, 2.0**-149), (np.float64, 2.0**-1074)])
def test_zero_divided_by_the_smallest_number_is_zero(kind: type[np.floating], least: float, tmp_path: Path) -> None:
    """Its reciprocal is infinite, although it is a power of two."""
    x = np.array([0.0, 1.0], kind)
    made = program(tmp_path, [helper.make_node("Div", ["x", "c"], ["y"])], x, c=np.array(least, kind))
    np.testing.assert_array_equal(result(made, x), [0.0, np.inf])
