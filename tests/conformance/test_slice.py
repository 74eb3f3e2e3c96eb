"""A slice of the ONNX node tests through the emitted C, pinned by name; all of them are `make conformance`."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.conformance.case import UnfitError, load, node_tests
from tests.conformance.freeze import freeze, shape_like_inputs
from tests.conformance.judge import judge
from tests.conformance.report import support_text

_LINES = (Path(__file__).parents[1] / "conformance" / "slice.txt").read_text().splitlines()
PASSED = [line for line in _LINES if line and not line.startswith("#")]


@pytest.mark.parametrize("name", PASSED)
def test_node(name: str, tmp_path: Path) -> None:
    assert judge(f"test_{name}", tmp_path) == ("passed", "")


def test_a_test_that_folds_to_a_constant_is_not_passed(tmp_path: Path) -> None:
    assert judge("test_shape", tmp_path) == ("constant", "")


def test_sequences_are_out_of_scope() -> None:
    with pytest.raises(UnfitError, match="sequence"):
        load("test_sequence_insert_at_back")


def test_only_shape_like_inputs_are_frozen() -> None:
    model = onnx.load_model_from_string(node_tests()["test_constant_pad"].model)
    assert [i.name for i in model.graph.input] == ["x", "pads", "value"]
    assert shape_like_inputs(model.graph) == {"pads"}
    frozen, names = freeze(model, {"x": load("test_constant_pad").inputs["x"]})
    assert not names, "an input without a value stays"
    assert len(frozen.graph.input) == 3


def test_data_of_operators_with_shape_like_inputs_stays() -> None:
    for name, kept in {
        "test_reshape_reordered_all_dims": {"data"},
        "test_onehot_with_axis": {"indices", "values"},
    }.items():
        assert set(load(name).inputs) == kept


def test_report_counts() -> None:
    results = [
        {"name": "test_a", "status": "passed", "reason": ""},
        {"name": "test_b", "status": "wrong", "reason": "1 | 2 < 3"},
    ]
    text = support_text(results)
    assert "\n1 of 2\n" in text
    assert "- test_b: 1 / 2 ( 3\n" in text
