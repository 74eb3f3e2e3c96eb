"""Kernels of models go through the passes of expressions; what these make of them is a second candidate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.format import LoadedOnnx
from edgetune.frontend.onnx.interface_layout import import_channels_last
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.kernels import FREE_LAYOUTS
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from edgetune.pipeline.model_formats import read_model
from edgetune.rewrites.passes import PASSES, PASSES_OF_PARTS
from edgetune.schedule.default_algorithms import guessed_schedule
from edgetune.schedule.sketches.block_analysis import analyse_blocks
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
    found = cumulative(tmp_path)
    (other,) = found.divisions
    assert not other.divisions
    assert [kernel.name for kernel in other.kernels] == [kernel.name for kernel in found.kernels]
    assert len(analysed(other)) > len(analysed(found)), "windows of sums, and sums of windows"


def test_a_build_without_records_is_what_it_was(tmp_path: Path) -> None:
    """The passes are decided for a wide core: only a measurement puts what they make in the place of a kernel."""
    found = cumulative(tmp_path)
    model = read_model(tmp_path / "model.onnx")
    assert isinstance(model, LoadedOnnx)
    imported = to_program(import_channels_last(model.model, frozenset()))
    assert [kernel.workload for kernel in found.kernels] == [kernel.workload for kernel in imported.kernels]
    assert [kernel.scratch for kernel in found.kernels] == [kernel.scratch for kernel in imported.kernels]


def analysed(found: Program) -> list[str]:
    """The stages of all kernels."""
    parts = [analyse_blocks(kernel.function) for kernel in found.kernels]
    return [stage.name for part in parts if part for stage in part.stages]


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


def test_a_weight_that_is_read_at_several_places_keeps_its_layout(tmp_path: Path) -> None:
    """A sum that is written out reads several rows of its weight: TVM packs a tensor for one place alone."""
    weight = np.random.default_rng(0).standard_normal((8, 6, 1, 1)).astype("f4")
    found = program(tmp_path, [helper.make_node("Conv", ["x", "w"], ["y"])], {"x": (1, 6, 1, 1)}, w=weight)
    (other,) = found.divisions
    (kernel,) = [one for one in other.kernels if one.workload not in {same.workload for same in found.kernels}]
    assert FREE_LAYOUTS not in kernel.function.attrs
    assert guessed_schedule(kernel.function, load_target("generic-x86_64"), 0, ()).trace
