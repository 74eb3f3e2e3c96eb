"""Quantised models are judged by the ONNX reference evaluator, and by no more than it agrees with itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune import api
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.events import Event
from edgetune.frontend.onnx.disagreement import disagreement
from edgetune.frontend.onnx.reader import read_onnx
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
    found = disagreement(model, feeds, evaluate_model(model, feeds))["y"]
    step = output_steps(model)["y"]
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
