"""Quantised models are judged by the ONNX reference evaluator, and by no more than it agrees with itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune import api
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.errors import ModelError
from edgetune.events import Event
from edgetune.frontend.onnx.disagreement import (
    Disagreement,
    carried_steps,
    disagreement,
    effect_of_rounding,
    evaluate_quantised,
)
from edgetune.frontend.onnx.reader import OnnxModel, read_onnx
from edgetune.frontend.onnx.reference import choose_evaluator, evaluate_model, output_steps
from edgetune.package.golden import OutputTolerance

SIDE, CHANNELS = 32, 512


def quantised(path: Path, gain: float) -> Path:
    """Two quantised 1x1 convolutions; the second multiplies every step of the first by `gain`."""
    random = np.random.default_rng(5)
    first = random.integers(-127, 128, (CHANNELS, CHANNELS, 1, 1), dtype=np.int8)
    second = np.zeros((CHANNELS, CHANNELS, 1, 1), np.int8)
    second[np.arange(CHANNELS), np.arange(CHANNELS)] = 100
    constants = {
        "x_scale": np.float32(0.0173),
        "w_scale": np.float32(0.0005),
        "h_scale": np.float32(0.0271),
        "g_scale": np.float32(gain / 100),
        "zero": np.int8(0),
        "w": first,
        "g": second,
        "b": random.standard_normal(CHANNELS).astype(np.float32),
    }
    chain = (("x", "x_scale", "xq", "xd"), ("h", "h_scale", "hq", "hd"), ("o", "h_scale", "oq", "y"))
    nodes = [
        helper.make_node("DequantizeLinear", [name, f"{name}_scale", "zero"], [f"{name}d"], name=f"{name}_real")
        for name in ("w", "g")
    ]
    for source, scale, integers, real in chain:
        if source == "h":
            nodes.append(helper.make_node("Conv", ["xd", "wd", "b"], ["h"], name="first"))
        if source == "o":
            nodes.append(helper.make_node("Conv", ["hd", "gd"], ["o"], name="second"))
        nodes.append(helper.make_node("QuantizeLinear", [source, scale, "zero"], [integers]))
        nodes.append(helper.make_node("DequantizeLinear", [integers, scale, "zero"], [real]))
    shape = [1, CHANNELS, SIDE, SIDE]
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_quantised_models_are_answered_by_the_reference_evaluator(tmp_path: Path) -> None:
    assert choose_evaluator(read_onnx(quantised(tmp_path / "q.onnx", 1.0), {})) == "onnx.reference"


@pytest.mark.long
@pytest.mark.parametrize(("gain", "steps"), [(1.0, 1), (3.0, 3)])
def test_the_references_differ_by_what_the_network_makes_of_one_step(tmp_path: Path, gain: float, steps: int) -> None:
    model = read_onnx(quantised(tmp_path / "q.onnx", gain), {})
    random = np.random.default_rng(3)
    feeds = [{"x": random.standard_normal((1, CHANNELS, SIDE, SIDE)).astype(np.float32)} for _ in range(3)]
    step = output_steps(model)["y"]
    found = disagreement(model, feeds, evaluate_model(model, feeds), {"y": step})["y"]
    assert round(found.largest / step) == steps
    assert 0 < found.share < 0.001
    tolerance = OutputTolerance.quantised(step, found.largest, found.share)
    assert tolerance.widened == (steps > 1)
    assert round(tolerance.absolute / step, 1) == pytest.approx(1.0 if steps == 1 else 1 + 1.5 * steps)


@pytest.mark.long
def test_what_the_references_cannot_agree_on_is_announced_and_stands_in_the_report(tmp_path: Path) -> None:
    path = quantised(tmp_path / "q.onnx", 3.0)
    flags = CommandLineFlags(model=path, board="host", out=tmp_path / "out", db=tmp_path / "records.db")
    events: list[Event] = []
    api.build(resolve_settings(flags, {}, tmp_path), events=events.append)
    said = [str(e.data["message"]) for e in events if "differ from one another by 3.0 steps" in str(e.data)]
    assert len(said) == 1
    report = (tmp_path / "out/REPORT.md").read_text(encoding="utf-8")
    assert "computed by onnx.reference" in report
    assert "may differ by more than one step" in report
    found = api.verify(tmp_path / "out", None, path)
    assert {o.against for o in found.outputs} == {"golden", "fresh"}
    for output in found.outputs:
        assert output.differing < 0.001
        assert "differ from one another by 3.0 steps" in output.note


def small(nodes: Sequence[onnx.NodeProto], constants: dict[str, Any], x: Sequence[int], y: Sequence[int]) -> OnnxModel:
    """A model of input x and float output y."""
    graph = helper.make_graph(
        list(nodes),
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    proto = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    return OnnxModel(proto, 17, "0" * 64, "small")


def feeds_of(shape: Sequence[int]) -> list[dict[str, np.ndarray]]:
    return [{"x": np.random.default_rng(case).standard_normal(shape).astype(np.float32)} for case in range(3)]


def one_axis() -> OnnxModel:
    """A QLinearConv of one axis with scales per channel, for which ONNX's evaluator returns four axes."""
    random = np.random.default_rng(1)
    constants = {
        "s": np.float32(0.03),
        "z": np.uint8(120),
        "w": random.integers(-100, 100, (5, 3, 3)).astype(np.int8),
        "ws": random.uniform(0.005, 0.02, 5).astype(np.float32),
        "wz": np.zeros(5, np.int8),
        "s2": np.float32(0.1),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("QLinearConv", ["q", "s", "z", "w", "ws", "wz", "s2", "z"], ["c"], pads=[1, 1]),
        helper.make_node("DequantizeLinear", ["c", "s2", "z"], ["y"]),
    ]
    return small(nodes, constants, [1, 3, 12], [1, 5, 12])


def test_an_evaluator_that_returns_another_shape_is_not_the_reference() -> None:
    feeds = feeds_of([1, 3, 12])
    answers, evaluator, said = evaluate_quantised(one_axis(), feeds)
    assert evaluator == "onnxruntime"
    assert answers[0]["y"].shape == (1, 5, 12)
    assert said == [
        "onnx.reference gives output 'y' the shape (1, 5, 5, 12), the model declares (1, 5, 12): it is left out"
    ]
    found = disagreement(one_axis(), feeds, answers, {"y": 0.1})["y"]
    assert found.largest <= 0.1001
    assert found.share < 0.1


def test_the_exact_integers_are_the_reference_where_no_other_evaluator_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetune.frontend.onnx.disagreement.is_installed", lambda: False)
    feeds = feeds_of([1, 3, 12])
    answers, evaluator, _ = evaluate_quantised(one_axis(), feeds)
    assert evaluator == "exact integers"
    wanted = evaluate_model(one_axis(), feeds, "onnxruntime")
    assert all(np.max(np.abs(a["y"] - b["y"])) <= 0.1001 for a, b in zip(answers, wanted, strict=True))


def test_two_evaluators_outvote_one_that_is_far_from_both(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    given, feeds = small(nodes, {"s": np.float32(0.1), "z": np.int8(0)}, [50], [50]), feeds_of([50])
    right = evaluate_model(given, feeds, "onnxruntime")

    def wrong(_model: OnnxModel, _feeds: Sequence[Any], evaluator: str) -> list[dict[str, np.ndarray]]:
        return [{"y": a["y"] * np.float32(2.0 if evaluator == "onnx.reference" else 1.0)} for a in right]

    monkeypatch.setattr("edgetune.frontend.onnx.disagreement.evaluate_model", wrong)
    answers, evaluator, said = evaluate_quantised(given, feeds)
    assert evaluator == "onnxruntime"
    assert np.array_equal(answers[0]["y"], right[0]["y"])
    (one,) = said
    assert one.startswith("onnx.reference differs by 100 % of the largest element from onnxruntime and exact integers")


def test_an_evaluator_that_cannot_run_a_model_leaves_it_to_the_next() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("QLinearAdd", ["q", "s", "z", "q", "s", "z", "t", "z"], ["a"], domain="com.microsoft"),
        helper.make_node("DequantizeLinear", ["a", "t", "z"], ["y"]),
    ]
    constants = {"s": np.float32(0.1), "t": np.float32(0.2), "z": np.int8(0)}
    given, feeds = small(nodes, constants, [50], [50]), feeds_of([50])
    answers, evaluator, (said,) = evaluate_quantised(given, feeds)
    assert evaluator == "onnxruntime"
    assert said.startswith("onnx.reference cannot run small (")
    assert said.endswith("the reference is onnxruntime")
    found = disagreement(given, feeds, answers, {"y": 0.2})["y"]
    assert found == Disagreement(0.0, 0.0)


def tail(*operators: onnx.NodeProto, rows: int = 200) -> OnnxModel:
    """A quantised tensor of 16 numbers a row, and operators behind it that make y of its real values d."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
    ]
    weight = np.linspace(-1, 1, 16 * 3, dtype=np.float32).reshape(16, 3)
    shape = [rows, 3] if operators[-1].op_type != "ArgMax" else [rows, 1]
    given = small([*nodes, *operators], {"s": np.float32(0.1), "z": np.int8(0), "w": weight}, [rows, 16], shape)
    if operators[-1].op_type == "ArgMax":
        given.proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    return given


def test_a_step_is_carried_through_a_float_tail() -> None:
    given = tail(helper.make_node("MatMul", ["d", "w"], ["y"]))
    step = carried_steps(given, feeds_of([200, 16]))["y"]
    weight = numpy_helper.to_array(given.proto.graph.initializer[2])
    most = 0.1 * float(np.abs(weight).sum(axis=0).max())
    assert 0.3 * most < step.size <= most * 1.001
    assert step.behind == 1
    assert step == carried_steps(given, feeds_of([200, 16]))["y"]  # seeded


def test_a_step_that_only_moves_has_the_size_of_the_scale() -> None:
    given = tail(helper.make_node("Slice", ["d", "from", "to", "axis"], ["y"]))
    for name, value in (("from", 0), ("to", 3), ("axis", 1)):
        given.proto.graph.initializer.append(numpy_helper.from_array(np.array([value]), name))
    assert carried_steps(given, feeds_of([200, 16]))["y"].size == pytest.approx(0.1, rel=1e-4)


def test_the_place_of_a_maximum_may_differ_in_as_many_elements_as_a_step_moves() -> None:
    operators = [helper.make_node("MatMul", ["d", "w"], ["m"]), helper.make_node("ArgMax", ["m"], ["y"], axis=1)]
    step = carried_steps(tail(*operators), feeds_of([200, 16]))["y"]
    assert step.size in {1.0, 2.0}
    assert 0.0 < step.share < 0.2
    found = OutputTolerance.quantised(step.size).carried("int64", step.behind, step.share)
    assert found.absolute == pytest.approx(step.size, rel=1e-2)
    assert found.share == 1.5 * step.share


def test_outputs_that_are_quantised_themselves_have_no_carried_step() -> None:
    assert carried_steps(one_axis(), feeds_of([1, 3, 12])) == {}


def test_rounding_says_nothing_of_outputs_behind_quantised_tensors() -> None:
    assert effect_of_rounding(tail(helper.make_node("MatMul", ["d", "w"], ["y"])), feeds_of([200, 16]), []) == {}


def test_rounding_of_floats_behind_quantised_weights_is_found() -> None:
    weight = np.random.default_rng(2).integers(-127, 128, (16, 3)).astype(np.int8)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"]),
        helper.make_node("MatMul", ["x", "d"], ["m"]),
        helper.make_node("Exp", ["m"], ["y"]),
    ]
    given = small(nodes, {"s": np.float32(0.01), "z": np.int8(0), "w": weight}, [9, 16], [9, 3])
    feeds = feeds_of([9, 16])
    found = effect_of_rounding(given, feeds, evaluate_model(given, feeds))["y"]
    assert 2.0**-24 < found.largest < 2.0**-19


def test_large_models_have_one_run_for_each_case(monkeypatch: pytest.MonkeyPatch) -> None:
    given = small([helper.make_node("Sin", ["x"], ["y"])], {}, [50], [50])
    counted: list[int] = []

    def count(model: OnnxModel, feeds: Sequence[Any], evaluator: Any = None) -> list[dict[str, np.ndarray]]:
        counted.append(len(feeds))
        return evaluate_model(model, feeds, evaluator)

    monkeypatch.setattr("edgetune.frontend.onnx.disagreement.evaluate_model", count)
    feeds = feeds_of([50])
    answers = evaluate_model(given, feeds)
    effect_of_rounding(given, feeds, answers)
    monkeypatch.setattr("edgetune.frontend.onnx.disagreement._MANY_ELEMENTS", 100)
    effect_of_rounding(given, feeds, answers)
    effect_of_rounding(given, feeds[:1], answers[:1])
    assert counted == [3, 3, 3, 1, 1, 1, 1]


def test_the_evaluator_that_runs_what_is_moved_runs_the_model_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    given, feeds = small([helper.make_node("Sin", ["x"], ["y"])], {}, [50], [50]), feeds_of([50])

    def refused(model: OnnxModel, feeds: Sequence[Any], evaluator: Any = None) -> list[dict[str, np.ndarray]]:
        if evaluator == "onnxruntime" and model is not given:
            raise ModelError("onnxruntime cannot run what is moved")
        return evaluate_model(model, feeds, evaluator)

    monkeypatch.setattr("edgetune.frontend.onnx.disagreement.evaluate_model", refused)
    far = [{"y": answer["y"] + 1} for answer in evaluate_model(given, feeds)]
    assert effect_of_rounding(given, feeds, far)["y"].largest < 2.0**-21
