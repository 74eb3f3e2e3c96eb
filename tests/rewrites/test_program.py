"""Kernels of models and of expressions in other forms: which a target gets, and that all compute the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.kernels import FREE_LAYOUTS
from edgetune.graph.memory.live_ranges import live_bytes
from edgetune.graph.program import Kernel, Program
from edgetune.pipeline.model_formats import read_model
from edgetune.rewrites.kernel_forms import Form, forms_of, whole_part
from edgetune.rewrites.passes import PASSES, PASSES_OF_PARTS
from edgetune.rewrites.program import by_memory, decided, for_target, in_forms
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import estimated_instructions, guessed_schedule
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.schedule.sketches.spaces import core_of
from edgetune.target.core import Core
from edgetune.target.costs import MARGINS
from edgetune.target.target import Target, load_target
from edgetune.tvm_types import PrimFunc


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
    found = decided(cumulative(tmp_path))
    assert any(len(analysed(other)) > len(analysed(found)) for other in found.divisions), "windows, and their sums"
    assert not any(other.divisions for other in found.divisions)


def test_the_first_form_of_a_model_is_what_the_partition_made(tmp_path: Path) -> None:
    """A formula for a wide core does not replace it."""
    plain = cumulative(tmp_path)
    found = decided(plain)
    assert [kernel.workload for kernel in found.kernels] == [kernel.workload for kernel in plain.kernels]
    assert [kernel.scratch for kernel in found.kernels] == [kernel.scratch for kernel in plain.kernels]


@pytest.mark.parametrize("board", ["qemu-aarch64", "generic-x86_64", "generic-riscv64"])
def test_a_target_gets_the_form_of_least_estimated_instructions(board: str, tmp_path: Path) -> None:
    target = load_target(board)
    plain = cumulative(tmp_path)
    estimates = {
        form.workloads: sum(estimate(part.function, target) for part in form.parts)
        for form in forms_of(plain.kernels[0], [core_of(plain.kernels[0].function, target)])
    }
    chosen = for_target(plain, target)
    own = estimates[tuple(kernel.workload for kernel in chosen.kernels)]
    assert own <= min(estimates.values()) / MARGINS.gain_of_estimate + 100
    assert own <= estimates[(plain.kernels[0].workload,)] + 100


@pytest.mark.parametrize("board", ["mps2-an500", "generic-riscv64", "generic-armv7", "rpi4", "generic-x86_64"])
def test_every_kernel_has_a_form_on_every_board(board: str, tmp_path: Path) -> None:
    """Cores without vectors, and with few registers, have formulas that find no tile."""
    weight = np.random.default_rng(1).standard_normal((24, 12)).astype("f4")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=0),
        helper.make_node("ReduceMax", ["p"], ["y"], keepdims=0),
    ]
    plain = program(tmp_path, nodes, {"x": (13, 24)}, w=weight)
    x = np.random.default_rng(0).standard_normal((13, 24)).astype("f4")
    (wanted,) = evaluate_program(plain, [{"x": x}])
    chosen = for_target(plain, load_target(board))
    for one in (chosen, *chosen.divisions):
        (results,) = evaluate_program(one, [{"x": x}])
        np.testing.assert_allclose(results["y"], wanted["y"], rtol=1e-4, atol=1e-6)


def test_a_form_that_needs_more_memory_is_only_measured(tmp_path: Path) -> None:
    """And not even that on a board that says how much it has."""
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=-1)]
    plain = program(tmp_path, nodes, {"x": (2048, 6)})
    most = max(live_bytes(plain))
    grown = 0
    for number, kernel in enumerate(plain.kernels):
        ranked = forms_of(kernel, [Core(4, 32, 1 << 15)])
        for scarce in (False, True):
            kept = by_memory(plain, number, ranked[::-1], scarce=scarce)
            alone = [form if n != number else kept[0] for n, form in enumerate(map(only, plain.kernels))]
            assert max(live_bytes(in_forms(plain, alone))) <= most
            assert scarce or len(kept) == len(ranked)
            grown += len(ranked) - len(kept)
    assert grown, "no form of these kernels needs more memory: the test shows nothing"


def only(kernel: Kernel) -> Form:
    """A kernel as it is."""
    return Form((whole_part(kernel),))


def estimate(function: PrimFunc, target: Target) -> float:
    """Instructions of a function under its default schedule."""
    return estimated_instructions(function, guessed_schedule(function, target, 1 << 14, FORMS).trace, target)


def analysed(found: Program) -> list[str]:
    """The stages of all kernels."""
    parts = [analyse_blocks(kernel.function) for kernel in found.kernels]
    return [stage.name for part in parts if part for stage in part.stages]


def all_forms(plain: Program, target: Target) -> Iterator[Program]:
    """The program with each form of its only kernel."""
    (kernel,) = plain.kernels
    for form in forms_of(kernel, [core_of(kernel.function, target)]):
        yield in_forms(plain, [form])


def test_all_forms_compute_the_same(tmp_path: Path) -> None:
    plain = cumulative(tmp_path)
    x = np.random.default_rng(0).standard_normal((16, 100)).astype("f4")
    made = list(all_forms(plain, load_target("qemu-aarch64")))
    assert len(made) > 1
    for one in made:
        (results,) = evaluate_program(one, [{"x": x}])
        np.testing.assert_allclose(results["y"], np.cumsum(x, axis=1), rtol=1e-4, atol=1e-4)


def test_what_no_pass_changes_is_the_same_program(tmp_path: Path) -> None:
    found = program(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], {"x": (4, 64)})
    assert not decided(found).divisions


def test_attention_keeps_its_stages(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "k"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]
    found = decided(program(tmp_path, nodes, {"x": (2, 32, 16), "k": (2, 16, 32), "v": (2, 32, 16)}))
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
    same = {one.workload for one in found.kernels}
    others = [part for form in forms_of(found.kernels[0]) for part in form.parts if form.workloads[0] not in same]
    assert others
    for part in others:
        assert not part.function.attrs[FREE_LAYOUTS]
        assert guessed_schedule(part.function, load_target("generic-x86_64"), 0, ()).trace


def test_a_product_in_a_model_is_divided_and_still_right(tmp_path: Path) -> None:
    """What follows the product in other rows becomes a kernel of its own; its calls stand where the one call stood."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("Add", ["p", "x"], ["y"]),
    ]
    weight = np.random.default_rng(1).standard_normal((48, 48)).astype("f4")
    plain = program(tmp_path, nodes, {"x": (32, 48)}, w=weight)
    x = np.random.default_rng(0).standard_normal((32, 48)).astype("f4")
    (wanted,) = evaluate_program(plain, [{"x": x}])
    for turn in range(3):
        forms = [forms_of(kernel, [Core(4, 32, 1 << 15)]) for kernel in plain.kernels]
        made = in_forms(plain, [ranked[min(turn, len(ranked) - 1)] for ranked in forms])
        (results,) = evaluate_program(made, [{"x": x}])
        np.testing.assert_allclose(results["y"], wanted["y"], rtol=1e-4, atol=1e-5)
        assert [buffer.id for buffer in made.buffers] == list(range(len(made.buffers)))
