"""What TVM throws in a pass, in partitioning or in the import is one sentence that names the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from edgetune.backends.c_kernels import print_c_kernels
from edgetune.cli.failure import exit_code_of
from edgetune.codegen import lower
from edgetune.errors import KernelFailed, UnsupportedOperator
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.graph import kernels, partition, passes
from edgetune.graph.partition import to_program
from edgetune.graph.tvm_errors import reason_of
from edgetune.pipeline import select
from edgetune.pipeline.select import choose
from edgetune.target.dialect import C
from edgetune.target.target import load_target
from tests.graph.test_program import model_of, random

_PASSES = ("DecomposeOpsForInference", "ConvertLayout", "LegalizeOps", "FoldConstant", "FuseOps", "FuseTIR")
_REASON = "Cannot find global var"


def network() -> OnnxModel:
    """Two branches behind a convolution; one of them has a Tanh."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["r"], name="left"),
        helper.make_node("Tanh", ["c"], ["t"], name="right"),
        helper.make_node("Softmax", ["t"], ["s"], name="spread", axis=-1),
        helper.make_node("MatMul", ["r", "s"], ["y"], name="joined"),
    ]
    return model_of(nodes, {"x": [1, 3, 5, 5]}, ["y"], {"w": random(np.random.default_rng(1), 4, 3, 1, 1)})


def throw() -> None:
    """A check of TVM fails in C++."""
    _ = tvm.IRModule()["absent"]


def _throws_at_tanh(module: tvm.IRModule, _context: object) -> tvm.IRModule:
    if "tanh" in module["main"].script():
        throw()
    return module


def _with_fault(original: Callable[..., Any]) -> Callable[..., Any]:
    fault = tvm.transform.module_pass(_throws_at_tanh, opt_level=0)
    return lambda *args, **named: tvm.transform.Sequential([fault, original(*args, **named)])


@pytest.mark.parametrize("name", _PASSES)
def test_a_pass_that_throws_names_the_node(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relax.transform, name, _with_fault(getattr(relax.transform, name)))
    with pytest.raises(UnsupportedOperator) as raised:
        to_program(import_onnx(network()))
    expected = rf"TVM refuses operator Tanh \(node 'right' of model\) \({_REASON}[^\n]*\); replace the operator, [^\n]*"
    assert raised.match(f"^{expected}$")
    assert exit_code_of(raised.value) == 5


def test_partitioning_names_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    original = kernels.plain_function

    def plain_function(function: Any, mask: tuple[bool, ...]) -> Any:
        if "softmax" in function.script():
            throw()
        return original(function, mask)

    monkeypatch.setattr(partition, "plain_function", plain_function)
    with pytest.raises(UnsupportedOperator, match=rf"TVM refuses operator \w+ \(node '\w+' of model\) \({_REASON}"):
        to_program(import_onnx(network()))


def test_the_import_names_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_frontend.Tanh, "_impl_v7", lambda *_: throw())
    with pytest.raises(UnsupportedOperator, match=rf"^operator Tanh \(node 'right' of model\) cannot .* \({_REASON}"):
        import_onnx(network())


def test_what_stands_for_a_node_goes_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_frontend.Sqrt, "_impl_v1", lambda *_: throw())
    model = model_of([helper.make_node("LpNormalization", ["x"], ["y"], name="unit")], {"x": [2, 3]}, ["y"], {})
    with pytest.raises(UnsupportedOperator, match=r"^operator Sqrt in LpNormalization \(node 'unit' of model\) cannot"):
        import_onnx(model)


def test_a_shape_that_depends_on_data_names_the_node() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Split", ["c"], ["a", "b"], name="halves", axis=1),
        helper.make_node("Unique", ["a"], ["y"], name="once", axis=1),
    ]
    weights = {"w": random(np.random.default_rng(1), 4, 3, 1, 1)}
    with pytest.raises(
        UnsupportedOperator, match=r"^operator Unique \(node 'once' of model\) has a result whose shape"
    ):
        to_program(import_onnx(model_of(nodes, {"x": [1, 3, 5, 5]}, ["y", "b"], weights)))


def test_a_fault_of_our_own_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(*_: object) -> None:
        raise ValueError("ours")

    monkeypatch.setattr(passes, "_simplify", rule)
    with pytest.raises(ValueError, match="ours"):
        to_program(import_onnx(network()))


def test_a_reason_has_the_name_of_the_operator() -> None:
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    with pytest.raises(Exception, match="conv2d") as raised:
        relax.BlockBuilder().normalize(relax.op.nn.conv2d(x, x))
    assert reason_of(raised.value).startswith("In nn.conv2d, ")


def _build(faulty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chooses schedules and prints kernels; TVM throws, or a schedule is wrong, at the step `faulty` of a kernel."""
    program, target = to_program(import_onnx(network())), load_target("generic-x86_64")
    if faulty == "choice":
        monkeypatch.setattr(select, "guessed_schedule", lambda *_, **__: throw())
    elif faulty != "schedule":
        monkeypatch.setattr(lower, faulty, lambda: tvm.transform.module_pass(lambda *_: throw(), opt_level=0))
    texts = [choice.trace for choice in choose(program, target, None, lambda _: None)]
    if faulty == "schedule":
        texts = ['[[["Nothing"]], []]'] * len(texts)
    print_c_kernels(program, texts, target, "net", lambda _: None, 1, C)


@pytest.mark.parametrize(
    ("faulty", "end"),
    [
        ("schedule", r"a recorded schedule does not fit its kernel \(.*\): delete the record or tune again"),
        ("_to_vectors", rf"TVM cannot lower it \(.*{_REASON}.*\): replace the operator, simplify .* or report this"),
        ("choice", rf"TVM cannot lower it \(.*{_REASON}.*\): replace the operator, simplify .* or report this"),
    ],
)
def test_a_kernel_that_cannot_be_built_is_named_with_its_layer(
    faulty: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a sentence of TVM without either, or a traceback."""
    with pytest.raises(KernelFailed, match=rf"^kernel [\w.]+ \(layer '\w+ \(\w+\)'\): {end}$"):
        _build(faulty, monkeypatch)
