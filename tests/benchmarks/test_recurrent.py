"""The cases of recurrent layers are models as they say, and what is not as expected is named."""

from __future__ import annotations

import onnx
import pytest

from benchmarks.recurrent import HEADINGS, Layer, Row, table
from benchmarks.result import ModelResult, SideResult, model_result, side_result
from benchmarks.side import Loaded
from benchmarks.side_process import Sample
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.graph.memory.plan import plan
from edgetune.graph.partition import to_program
from tests.loop_samples import model_of


@pytest.mark.parametrize(
    "layer", [Layer("gru", 16, 9), Layer("lstm", 16, 9, 2, integers=True), Layer("rnn", 8, 3)], ids=lambda one: one.name
)
def test_a_case_is_a_loop_within_its_bound(layer: Layer) -> None:
    onnx.checker.check_model(layer.model())
    program = to_program(import_onnx(model_of(layer.model())))
    assert [loop.steps for loop in program.loops] == [layer.steps] * layer.ways
    assert plan(program, {}).arena_bytes <= layer.bound
    assert any(array.dtype == "int8" for array in program.constants.values()) == layer.integers


def side(name: str, times: list[float], gap: float = 0.0) -> SideResult:
    return side_result(name, Loaded("1", ""), [Sample(1e3 * time, 1e3 * time, 9) for time in times], gap)


def times(gap: float = 0.0) -> ModelResult:
    sides = [side("edgetune", [10, 10, 20], gap), side("onnxruntime", [30, 40, 40])]
    return model_result("m", sides, {}, "edgetune")


def test_a_row_has_costs_times_and_the_ratio_of_the_medians() -> None:
    layer = Layer("lstm", 64, 25, 2, integers=True)
    row = Row(layer, 4.04, 6000, 30_000, times())
    assert row.cells() == (
        *("lstm_64x25_both_int8", "4.0", "6,000", "30,000", f"{4 * 25 * 64 * 4 * 2 + 16384:,}"),
        *("10.0", "40.0", "4.00", "2.00 to 4.00"),
    )
    assert row.faults == ()
    assert table([row]).splitlines()[0] == f"| {' | '.join(HEADINGS)} |"
    untimed = Row(layer, 4.04, None, 30_000)
    assert untimed.cells()[2:] == ("-", "30,000", f"{layer.bound:,}", "-", "-", "-", "-")


def test_what_is_not_as_expected_is_named() -> None:
    layer = Layer("gru", 64, 25)
    assert Row(layer, 1.0, None, layer.bound + 1).faults == ("the workspace is above its bound",)
    assert Row(layer, 1.0, None, layer.bound, times(gap=1.0)).faults == ("edgetune gives wrong answers",)
    alone = model_result("m", [side("edgetune", [10, 10])], {"onnxruntime": "onnxruntime is not installed"}, "edgetune")
    row = Row(layer, 1.0, None, layer.bound, alone)
    assert (row.faults, row.cells()[5:]) == (("onnxruntime is not installed",), ("-", "-", "-", "-"))
