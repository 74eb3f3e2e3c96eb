"""Tensor expressions from Python: a whole task that becomes a package, and an operator that a model may use."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import te

import edgetune
from edgetune.cli.main import run
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.errors import UnsupportedOperator, UsageError
from edgetune.frontend.onnx import custom
from edgetune.frontend.onnx.converters import OWN_CONVERTERS
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.graph.partition import to_program
from edgetune.package.golden import OutputTolerance
from edgetune.pipeline.compile_input import load
from edgetune.records import RecordFilter, RecordStore
from tests.interpreter import run_program


def squared_product(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, 24), name="k")
    product = te.compute((4, 32), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="product")
    return te.compute((4, 32), lambda i, j: product[i, j] * product[i, j], name="squared")


@pytest.mark.parametrize("trials", [-3, "8", 2.0, True, None])
def test_trials_are_a_number(trials: object, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give a whole number of at least 0"):
        edgetune.tune(squared_product, {"x": ((4, 24), "float32")}, trials=trials, out=tmp_path)  # type: ignore[arg-type]


@pytest.mark.long
def test_an_expression_is_tuned_and_becomes_a_package_that_passes_its_own_test(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((32, 24)).astype("f4")
    result = edgetune.tune(
        squared_product,
        {"x": ((4, 24), "float32")},
        constants={"w": weights},
        name="squares",
        trials=4,
        db=tmp_path / "records.db",
        out=tmp_path / "squares",
    )
    with RecordStore.open(tmp_path / "records.db") as store:
        correct = store.list(RecordFilter(status="ok"))  # on a noisy machine all may be refused
        assert result.build.measured_kernels == bool(correct)
    done = subprocess.run(
        ["make", "-s", "-C", tmp_path / "squares", "selftest"], capture_output=True, text=True, check=True
    )
    assert done.stdout.rstrip().endswith("PASS")


def swish_model(operator: str) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], domain="com.example", beta=2.0)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 5])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_a_registered_operator_is_imported_with_its_attributes() -> None:
    def scaled_sine(x: te.Tensor, beta: float) -> te.Tensor:
        return te.compute(x.shape, lambda *i: te.sin(x(*i)) * beta)

    edgetune.register_operator("ScaledSine", scaled_sine)
    model = model_from_proto(swish_model("ScaledSine"), "0" * 64, "m", None, "m.onnx")
    x = np.linspace(-3, 3, 15, dtype="f4").reshape(3, 5)
    result = run_program(to_program(import_onnx(model)), {"x": x})
    np.testing.assert_allclose(result["y"], 2 * np.sin(x), rtol=1e-5, atol=1e-6)


@pytest.mark.long
def test_the_documented_script_makes_a_package_that_verifies_with_and_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = (Path(__file__).parents[2] / "docs" / "operators.md").read_text(encoding="utf-8")
    (tmp_path / "with_sine.py").write_text(told.partition("```python\n")[2].partition("```")[0], encoding="utf-8")
    onnx.save(swish_model("ScaledSine"), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)

    def script(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "with_sine.py", *arguments], capture_output=True, text=True, check=True)

    built = script("build", "model.onnx", "--board", "host", "-o", "sine")
    assert "no evaluator of ONNX knows ScaledSine" in built.stderr
    done = subprocess.run(["make", "-s", "-C", "sine", "selftest"], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("PASS")
    report = json.loads(script("verify", "sine", "--json").stdout)
    assert (report["reference"], report["fresh_cases"]) == ("tvm.llvm", 2)

    monkeypatch.setattr(custom, "_registered", set[str]())
    monkeypatch.delitem(OWN_CONVERTERS, "ScaledSine", raising=False)
    assert run(["verify", "sine", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["fresh_cases"] == 0
    assert "only the golden vectors are compared: operator com.example::ScaledSine" in said.err
    assert run(["verify", "sine", "--model", "model.onnx"]) == 5
    assert "docs/operators.md" in capsys.readouterr().err


def test_a_quantised_model_with_a_registered_operator_is_answered_by_its_program(tmp_path: Path) -> None:
    edgetune.register_operator("Twice", lambda x: te.compute(x.shape, lambda *i: x(*i) + x(*i)))
    graph = helper.make_graph(
        [
            helper.make_node("Twice", ["x"], ["t"], domain="com.example"),
            helper.make_node("QuantizeLinear", ["t", "scale", "zero"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 5])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [3, 5])],
        [numpy_helper.from_array(np.array(0.1, "f4"), "scale"), numpy_helper.from_array(np.array(0, "i1"), "zero")],
    )
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "m.onnx")
    subject = load(resolve_settings(CommandLineFlags(model=tmp_path / "m.onnx", board="host"), {}, tmp_path))
    assert subject.reference == "tvm.llvm"
    assert subject.tolerances == {"y": OutputTolerance.quantised(1.0)}
    for golden in subject.goldens:
        expected = np.clip(np.round(golden.inputs["x"] * 2 / np.float32(0.1)), -128, 127)
        assert np.abs(golden.outputs["y"] - expected).max() <= 1


def test_a_registered_operator_is_found_in_nested_graphs_too() -> None:
    inner = helper.make_graph([helper.make_node("Inner", [], ["b"], domain="com.example")], "i", [], [])
    proto = onnx.ModelProto()
    proto.graph.node.append(helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner))
    edgetune.register_operator("Inner", lambda x: x)
    assert custom.registered_in(OnnxModel(proto, 17, "0" * 64, "m")) == ("Inner",)


@pytest.mark.parametrize("name", ["Relu", "LSTM", "GroupNormalization"])
def test_an_operator_that_exists_is_not_registered_again(name: str) -> None:
    with pytest.raises(UsageError, match=rf"^operator {name} exists already; register the expression under another"):
        edgetune.register_operator(name, lambda x: x)


@pytest.fixture
def unregistered() -> Iterator[None]:
    """Leaves no operator `Custom` behind."""
    yield
    custom._registered.discard("Custom")
    OWN_CONVERTERS.pop("Custom", None)


@pytest.mark.usefixtures("unregistered")
def test_an_operator_of_ones_own_is_registered_once_with_a_function() -> None:
    unusable: Any = 3
    with pytest.raises(UsageError, match=r"not 3$"):
        edgetune.register_operator(unusable, lambda x: x)
    with pytest.raises(UsageError, match=r"^operator Custom is registered with 3, which cannot be called: give a func"):
        edgetune.register_operator("Custom", unusable)
    edgetune.register_operator("Custom", lambda x: x)
    with pytest.raises(UsageError, match=r"^operator Custom is registered already: register it once"):
        edgetune.register_operator("Custom", lambda x: x)


def custom_model(inputs: int = 1, outputs: int = 1, **attributes: object) -> OnnxModel:
    """A node of the operator `Custom`, named n."""
    given, made = ([f"{letter}{i}" for i in range(n)] for letter, n in (("x", inputs), ("y", outputs)))
    graph = helper.make_graph(
        [helper.make_node("Custom", given, made, "n", domain="com.example", **attributes)],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in given],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in made],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    return model_from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8), "0" * 64, "m", None, "m")


@pytest.mark.usefixtures("unregistered")
def test_attributes_of_text_reach_the_expression_as_text() -> None:
    seen: list[object] = []

    def scaled(x: te.Tensor, kind: str, kinds: list[str], factor: float = 2.0) -> te.Tensor:
        seen.extend([kind, kinds])
        return te.compute(x.shape, lambda i: x[i] * factor)

    edgetune.register_operator("Custom", scaled)
    program = to_program(import_onnx(custom_model(kind="loud", kinds=["a", "ö"])))
    x = np.arange(4, dtype="f4")
    np.testing.assert_array_equal(run_program(program, {"x0": x})["y0"], 2 * x)
    assert seen[:2] == ["loud", ["a", "ö"]]


def _same(x: te.Tensor, beta: float) -> te.Tensor:
    return te.compute(x.shape, lambda i: x[i] * beta)


def _fails(_: te.Tensor) -> te.Tensor:
    raise KeyError("boo")


@pytest.mark.usefixtures("unregistered")
@pytest.mark.parametrize(
    ("expression", "model", "words"),
    [
        (_same, {}, r"Custom\(x: .*, beta: .*\): it has 1 input and no attribute 'beta'; give the node that attribute"),
        (_same, {"beta": 1.0, "gamma": 2.0}, "has the attribute 'gamma'; give the expression a parameter of that name"),
        (_same, {"beta": 1.0, "inputs": 2}, "has 2 inputs; give the expression a parameter for each input"),
        (
            _fails,
            {},
            r"its expression Custom raised KeyError\('boo'\) at .*test_expressions\.py, line \d+; correct the",
        ),
        (lambda _: 3, {}, r"its expression Custom returned int; return a te\.Tensor, or a list of them"),
        (lambda x: [x, None], {}, "its expression Custom returned NoneType"),
        (lambda x: _same(x, 2.0), {"outputs": 2}, "has 2 outputs, and its expression Custom returned 1"),
    ],
)
def test_a_node_that_does_not_fit_its_expression_says_how(
    expression: Callable[..., Any], model: dict[str, Any], words: str
) -> None:
    edgetune.register_operator("Custom", expression)
    with pytest.raises(
        UnsupportedOperator, match=rf"^operator com\.example::Custom \(node 'n' of m\) .*{words}[^\n]*$"
    ):
        import_onnx(custom_model(**model))
