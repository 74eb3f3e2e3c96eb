"""The count of what quantised models give up: elements that differ, and bytes of weights beside the model's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.quantised_models import Counted, counted, main

CHANNELS, TERMS = 5, 7


def quantised(path: Path) -> Path:
    """A product of bytes, quantised again."""
    generator = np.random.default_rng(0)
    stored = {
        "w": generator.integers(-127, 128, (TERMS, CHANNELS), "int8"),
        "xs": np.float32(0.1),
        "ws": np.float32(0.02),
        "ys": np.float32(0.3),
        "xz": np.int8(3),
        "wz": np.int8(0),
        "yz": np.int8(-2),
    }
    operands = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.INT8, [4, TERMS]),
        helper.make_tensor_value_info("y", TensorProto.INT8, None),
    ]
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    graph = helper.make_graph([helper.make_node("QLinearMatMul", operands, ["y"])], "q", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def test_a_model_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = quantised(tmp_path / "q.onnx")
    assert main([str(model), "--inputs", "3", "--out", str(tmp_path / "out")]) == 0
    found = counted(model, None, 3, tmp_path / "out")
    assert (found.elements, found.twin) == (3 * 4 * CHANNELS, None)
    assert found.bound == pytest.approx(1.05 * (TERMS * CHANNELS + 12 * CHANNELS) + 2048)
    assert found.row() in capsys.readouterr().out


@pytest.mark.parametrize(("differing", "steps", "code"), [(1, 1.0, 0), (2, 1.0, 1), (1, 2.0, 1)])
def test_more_than_a_tie_fails(
    differing: int, steps: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Counted("q", 1000, differing, steps, 10, 20.0, 30, 60)
    monkeypatch.setattr("benchmarks.quantised_models.counted", lambda *_: made)
    assert main([str(tmp_path / "q.onnx")]) == code
