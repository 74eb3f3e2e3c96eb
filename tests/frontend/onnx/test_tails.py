"""Small probabilities and other tails: right to the last places down to the smallest normal number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgetune.graph.evaluate import evaluate_program
from edgetune.target.target import load_target
from tests.codegen_run import wide_target
from tests.model_in_c import outputs_in_c, program_of, source_of

_SMALLEST = 2.0**-126
_TARGETS = {"wide": wide_target(256), "generic-armv7": load_target("generic-armv7")}
Exact = Callable[[np.ndarray], np.ndarray]


def _one_node(operator: str, shape: tuple[int, ...]) -> onnx.ModelProto:
    return _nodes([helper.make_node(operator, ["x"], ["y"])], shape)


def _nodes(nodes: list[onnx.NodeProto], shape: tuple[int, ...]) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def _units(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Errors in ULP where the exact result is a normal number; elsewhere the error is the smallest of them at most."""
    with np.errstate(under="ignore"):
        error = np.abs(found.astype(np.float64) - exact)
        normal = np.abs(exact) >= _SMALLEST
        assert (error[~normal] <= _SMALLEST).all()
        units: np.ndarray = np.where(normal, error / np.spacing(np.abs(exact).astype(np.float32)), 0)
        return units


def _softplus(x: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    return result


def _values() -> np.ndarray:
    far = np.linspace(-110, 110, 4001)
    near = np.geomspace(2.0**-126, 1, 1000)
    return np.resize(np.concatenate([far, near, -near]), 6400).astype(np.float32)


FUNCTIONS: dict[str, tuple[Exact, float]] = {
    "Sigmoid": (lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))), 3.0),
    "Tanh": (np.tanh, 2.5),
    "Softplus": (_softplus, 5.0),
    "Mish": (lambda x: x * np.tanh(_softplus(x)), 8.0),
}


@pytest.mark.long
@pytest.mark.parametrize("board", _TARGETS)
@pytest.mark.parametrize("operator", FUNCTIONS)
def test_tails_are_right_to_the_last_places(operator: str, board: str, tmp_path: Path) -> None:
    exact, bound = FUNCTIONS[operator]
    x = _values()
    if operator == "Mish":
        x = np.where(x < -87, -x, x)  # softplus(x), which is multiplied by x, is no normal number
    found = outputs_in_c(program_of(_one_node(operator, x.shape)), {"x": x}, _TARGETS[board], tmp_path)["y"]
    assert _units(found, exact(x.astype(np.float64))).max() <= bound


@pytest.mark.long
@pytest.mark.parametrize("board", _TARGETS)
def test_small_probabilities_of_a_softmax_are_right(board: str, tmp_path: Path) -> None:
    """The difference from the largest element is rounded to float32 first."""
    generator = np.random.default_rng(0)
    rows = [generator.uniform(low, low + 100, (100, 16)) for low in (-90, -45, 0, 900)]
    x = np.concatenate(rows).astype(np.float32)
    found = outputs_in_c(program_of(_one_node("Softmax", x.shape)), {"x": x}, _TARGETS[board], tmp_path)["y"]
    below = x.max(1, keepdims=True).astype(np.float64) - x
    powers = np.exp(-below)
    units = _units(found, powers / powers.sum(1, keepdims=True))
    assert (units <= 4 + below).all()


@pytest.mark.long
def test_a_logarithm_of_one_more_is_one_function() -> None:
    """As in a softplus that an exporter wrote out."""
    nodes = [helper.make_node("Exp", ["x"], ["e"])]
    nodes += [helper.make_node("Constant", [], ["one"], value_float=1.0)]
    nodes += [helper.make_node("Add", ["one", "e"], ["s"]), helper.make_node("Log", ["s"], ["y"])]
    for proto in (_nodes(nodes, (40, 64)), _one_node("Softplus", (40, 64)), _one_node("Mish", (40, 64))):
        (kernel,) = program_of(proto).kernels
        snippets = source_of(kernel, wide_target(256)).preamble
        assert any(name.startswith("log1p") for name in snippets)
        assert not any(name.startswith("log:") for name in snippets)


@pytest.mark.parametrize("operator", FUNCTIONS)
def test_the_reference_has_these_tails(operator: str) -> None:
    """TVM's own tanh gives 0 for small numbers, and candidates were compared with that."""
    exact, bound = FUNCTIONS[operator]
    x = np.array([[-80, -20, -1e-6, 1e-30, 1e-6, 20]], np.float32)
    (found,) = evaluate_program(program_of(_one_node(operator, x.shape)), [{"x": x}])
    assert _units(found["y"], exact(x.astype(np.float64))).max() <= bound
