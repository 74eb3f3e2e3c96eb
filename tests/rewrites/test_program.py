"""Kernels of models go through the passes of expressions; what they were is a second candidate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.program import Program
from edgetune.pipeline.model_formats import read_model
from edgetune.rewrites.passes import PASSES, PASSES_OF_PARTS
from edgetune.schedule.default_algorithms import predicted_cycles
from edgetune.target.target import load_target


def program(
    folder: Path, nodes: list[onnx.NodeProto], inputs: Mapping[str, tuple[int, ...]], **constants: np.ndarray
) -> Program:
    """The program of a model from its inputs to y."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    weights = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "model", ends, results, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    return read_model(folder / "model.onnx").program()


def cumulative(folder: Path) -> Program:
    """Running sums of rows."""
    return program(folder, [helper.make_node("CumSum", ["x", "axis"], ["y"])], {"x": (16, 100)}, axis=np.asarray(1))


def test_a_pass_of_expressions_reaches_a_model(tmp_path: Path) -> None:
    target, found = load_target("generic-aarch64"), cumulative(tmp_path)
    (before,) = found.divisions
    now, then = (sum(predicted_cycles(k.function, target) for k in one.kernels) for one in (found, before))
    assert now < 0.5 * then
    assert [kernel.name for kernel in found.kernels] == [kernel.name for kernel in before.kernels]
    assert found.kernels[-1].workload != before.kernels[-1].workload


def test_both_programs_compute_the_same(tmp_path: Path) -> None:
    found = cumulative(tmp_path)
    x = np.random.default_rng(0).standard_normal((16, 100)).astype("f4")
    for one in (found, *found.divisions):
        (results,) = evaluate_program(one, [{"x": x}])
        np.testing.assert_allclose(results["y"], np.cumsum(x, axis=1), rtol=1e-4, atol=1e-4)


def test_what_no_pass_changes_is_the_same_program(tmp_path: Path) -> None:
    found = program(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], {"x": (4, 64)})
    assert not found.divisions


def test_attention_keeps_its_stages(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "k"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]
    found = program(tmp_path, nodes, {"x": (2, 32, 16), "k": (2, 16, 32), "v": (2, 32, 16)})
    assert [kernel.name for kernel in found.kernels] == ["attention"]
    assert not found.divisions


def test_passes_have_names_and_reasons() -> None:
    passes = (*PASSES, *PASSES_OF_PARTS)
    assert len({one.name for one in passes}) == len(passes)
    assert all(one.reason.endswith(".") for one in passes)
