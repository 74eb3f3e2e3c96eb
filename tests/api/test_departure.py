"""A package that is wrong: the error says which layer departs first and by how much, or where the import does."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from edgetune import api
from edgetune.cli.main import cli
from edgetune.errors import PackageInvalid, SelfTestFailed, UsageError, WrongResult
from edgetune.frontend.model_format import Feed
from edgetune.frontend.onnx.inner_tensors import first_departure
from edgetune.frontend.onnx.reader import OnnxModel, read_onnx
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.package.golden import Golden
from edgetune.pipeline import self_test
from edgetune.pipeline.departure import Departure, described, judged_alone
from edgetune.verify.layers import LayerError, LayersRun, run_layers
from tests.api.test_self_test import settings_for, spoiled

_WIDTHS = (32, 24, 16, 8)
_OPERATORS = ("Sin", "Tanh", "Sigmoid")


def perceptron(path: Path) -> Path:
    """Three layers of different widths and activations, so that each has a kernel of its own."""
    random = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for number, (before, after) in enumerate(pairwise(_WIDTHS)):
        weight = (random.standard_normal((before, after)) / np.sqrt(before)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{number}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{number}"], [f"m{number}"], f"product_{number}"))
        last = "y" if number == 2 else f"s{number}"
        nodes.append(helper.make_node(_OPERATORS[number], [f"m{number}"], [last], f"activation_{number}"))
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, _WIDTHS[0]])]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, _WIDTHS[-1]])]
    graph = helper.make_graph(nodes, "perceptron", ends, results, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def in_kernel(operator: str, change: Callable[[str], str]) -> Callable[[str], str]:
    """Applies `change` to the definition of the kernel whose name ends with `operator`, and to no other."""

    def changed(text: str) -> str:
        begin = re.search(rf"^[^\n;]*__k_\w*{operator}\([^;]*?\)\n\{{", text, re.MULTILINE)
        assert begin is not None
        end = text.index("\n}\n", begin.end())
        return text[: begin.start()] + change(text[begin.start() : end]) + text[end:]

    return changed


def tenth_added(text: str) -> str:
    return f"{text}\n    output[3] += 0.1f;"


def trapped(text: str) -> str:
    return text.replace(")\n{\n", ")\n{\n    __builtin_trap();\n")


def written_untested(monkeypatch: pytest.MonkeyPatch, model: Path, board: str = "host") -> Path:
    with monkeypatch.context() as patch:
        patch.setattr(self_test.SelfTest, "__call__", lambda *_: None)
        api.build(settings_for(model, board), events=lambda _: None)
    return model.parent / "out"


@pytest.mark.long
@pytest.mark.parametrize("board", ["host", "generic-aarch64"])
def test_build_names_the_layer_that_departs_first(board: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = perceptron(tmp_path / "m.onnx")
    spoiled(monkeypatch, in_kernel("tanh", tenth_added))
    with pytest.raises(WrongResult) as caught:
        api.build(settings_for(model, board), events=lambda _: None)
    said = caught.value.message
    assert re.search(r"layer 1, product_1 .*, kernel matmul_tanh\w*, departs first", said)
    assert re.search(r"off by 0\.[01]\d+ of the largest magnitude, and 0\.0001 is allowed", said)
    assert "it has the default schedule, and `edgetune tune` may find one that is right; nothing is written" in said


@pytest.mark.long
def test_build_names_the_layer_in_which_a_run_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoiled(monkeypatch, in_kernel("sigmoid", trapped))
    with pytest.raises(SelfTestFailed, match=r"the run ends in layer 2, product_2 .* \(killed by signal \d+\)"):
        api.build(settings_for(perceptron(tmp_path / "m.onnx")), events=lambda _: None)


def wrong_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, Tanh is imported as 1.01 times its value."""
    from tvm import relax
    from tvm.relax.frontend.onnx.onnx_frontend import Tanh

    def converted(_: object, builder: relax.BlockBuilder, inputs: Any, *__: object) -> relax.Expr:
        right = builder.emit(relax.op.tanh(inputs[0]))
        return relax.op.multiply(right, relax.const(np.float32(1.01)))

    monkeypatch.setattr(Tanh, "_impl_v7", classmethod(converted))


@pytest.mark.long
def test_a_fault_of_the_import_is_not_blamed_on_a_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong_tanh(monkeypatch)
    with pytest.raises(WrongResult) as caught:
        api.build(settings_for(perceptron(tmp_path / "m.onnx")), events=lambda _: None)
    said = caught.value.message
    assert (
        "the imported model departs from onnxruntime at operator Tanh (node 'activation_1' of m): tensor 's1'" in said
    )
    assert re.search(r"off by 0\.0(1|099\d*) of its largest magnitude, and 0.0001 is allowed; no other schedule", said)
    assert "edgetune tune" not in said


def off_by_one_evaluator(model: OnnxModel, feed: Feed) -> dict[str, dict[str, np.ndarray]]:
    right = evaluate_model(model, [feed], "onnx.reference")[0]
    return {"onnxruntime": {name: value + 1 for name, value in right.items()}, "onnx.reference": right}


def test_an_error_that_passes_through_a_node_is_not_blamed_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = read_onnx(perceptron(tmp_path / "m.onnx"))
    feed = {"x": np.ones((1, _WIDTHS[0]), np.float32)}
    assert first_departure(model, feed, judged_alone) is None
    with monkeypatch.context() as patch:  # one evaluator is wrong, and the other one agrees with the import
        patch.setattr("edgetune.frontend.onnx.inner_tensors._by_all", off_by_one_evaluator)
        assert first_departure(model, feed, judged_alone) is None
    wrong_tanh(monkeypatch)
    found = first_departure(model, feed, judged_alone)
    assert found is not None
    assert found.tensor == "s1"  # and not m2 or y, which are off as well


@pytest.mark.long
def test_verify_says_the_layer_and_prints_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = perceptron(tmp_path / "m.onnx")
    with monkeypatch.context() as patch:
        spoiled(patch, in_kernel("tanh", tenth_added))
        package = written_untested(patch, model)
    done = CliRunner().invoke(cli, ["verify", str(package), "--per-layer"])
    assert isinstance(done.exception, WrongResult)
    assert "layer 1, product_1" in done.exception.message
    rows = [line.split() for line in done.stdout.splitlines() if "product_" in line]
    assert [row[-1] for row in rows] == ["no", "yes", "no"]
    alone, whole = (float(rows[2][number]) for number in (-4, -3))
    assert alone < 1e-5
    assert whole > 1e-3  # the last layer is right for what it reads, and passes the error on


@pytest.mark.long
def test_hostile_places_of_layers_are_refused_and_the_table_is_an_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = perceptron(tmp_path / "m.onnx")
    with monkeypatch.context() as patch:
        spoiled(patch, in_kernel("tanh", tenth_added))
        package = written_untested(patch, model)
    done = CliRunner().invoke(cli, ["verify", str(package), "--per-layer", "--json"])
    (table,) = [json.loads(line)["layers"] for line in done.stderr.splitlines() if '"layers"' in line]
    assert [layer["departs"] for layer in table] == [False, True, False]
    before = (package / "MANIFEST.json").read_text(encoding="utf-8")
    for change, said in (
        ({"offset": 10**15}, "has layer 1 write outside of its memory"),
        ({"tensor": "elsewhere"}, "has layer 1 write outside of its memory"),
        ({"bytes": 63}, "has layer 1 write other tensors than its kernel does"),
    ):
        manifest = json.loads(before)
        manifest["layers"][1]["written"][0] |= change
        (package / "MANIFEST.json").write_text(json.dumps(manifest), encoding="utf-8")
        done = CliRunner().invoke(cli, ["verify", str(package), "--per-layer"])
        assert said in str(done.exception)


@pytest.mark.long
def test_per_layer_of_a_right_package_on_an_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = written_untested(monkeypatch, perceptron(tmp_path / "m.onnx"), "generic-aarch64")
    done = CliRunner().invoke(cli, ["verify", str(package), "--per-layer", "--json"])
    report = json.loads(done.stdout)
    assert report["passed"]
    assert [(layer["index"], layer["departs"]) for layer in report["layers"]] == [(0, False), (1, False), (2, False)]
    assert all(0 <= layer["alone"] <= layer["allowed"] for layer in report["layers"])


@pytest.mark.long
def test_a_layer_that_amplifies_rounding_does_not_depart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sums times 1,000 are angles: one unit in the last place of a sum moves the sine by about 0.0005."""
    text = """
    <ir_version: 8, opset_import: ["": 17]>
    angles (float[1, 64] x) => (float[1, 64] y) <float[64, 64] w> {
        factor = Constant <value_float = 1000.0> ()
        sums = MatMul (x, w)
        angle = Mul (sums, factor)
        y = Sin (angle)
    }
    """
    model = onnx.parser.parse_model(text.replace("<float[64, 64] w>", ""))
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "m.onnx")
    package, told = written_untested(monkeypatch, tmp_path / "m.onnx"), list[LayerError]()
    with contextlib.suppress(WrongResult):
        api.verify(package, None, tmp_path / "m.onnx", per_layer=told.extend)
    assert [(error.alone > 1e-4, error.departs) for error in told] == [(True, False)]
    assert told[0].alone < told[0].allowed < 0.1


@pytest.mark.long
def test_per_layer_needs_the_model_and_this_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = perceptron(tmp_path / "m.onnx")
    package = written_untested(monkeypatch, model)
    monkeypatch.setattr("edgetune.pipeline.departure.get_args", lambda _: ())  # as if it made other kernels
    with pytest.raises(PackageInvalid, match=r"makes other kernels of m\.onnx than the package has: build it again"):
        api.verify(package, None, model, per_layer=lambda _: None)
    model.rename(tmp_path / "elsewhere")
    with pytest.raises(
        UsageError, match=r"m\.onnx, .* was not found, and its layers are compared with it: give --model"
    ):
        api.verify(package, None, per_layer=lambda _: None)
    manifest = json.loads((package / "MANIFEST.json").read_text(encoding="utf-8"))
    for layer in manifest["layers"]:
        del layer["written"]
    (package / "MANIFEST.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(PackageInvalid, match="does not say where its layers write"):
        run_layers(package, Golden({}, {}))


def test_where_all_layers_are_right_no_tuning_is_advised() -> None:
    error = LayerError(0, "one", "kernel", 0.0, 0.0, 1e-4, departs=False)
    assert described(Departure([error] * 3), WrongResult("off")) == (
        "each of the 3 layers is right for what it reads, so their rounding adds up to that; no other schedule changes "
        "that: please report it with the model"
    )
    assert described(Departure([error]), SelfTestFailed("hook")).startswith("each layer computes what it should")


@pytest.mark.long
def test_where_the_layers_cannot_be_read_the_first_error_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> LayersRun:
        raise SelfTestFailed("the run printed 0 of 3 layers: run it again")

    spoiled(monkeypatch, in_kernel("tanh", tenth_added))
    monkeypatch.setattr(self_test, "run_layers", refuse)
    with pytest.raises(WrongResult, match=r"is off by .* cannot be seen \(the run printed 0 of 3 layers"):
        api.build(settings_for(perceptron(tmp_path / "m.onnx")), events=lambda _: None)
