"""Operators with axes mean the same behind layers that turn channels last; a slice of `make axis-fuzz`."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetune.target.target import load_target
from tests.axes.cases import case_of
from tests.axes.judge import answers_of, difference, judge, model_of, program_of
from tests.axes.operators import LEFT_OUT, OPERATORS, with_axes
from tests.axes.run import table
from tests.conformance.native import compile_unit, emit_unit, execute
from tests.conformance.run import results_of

_SEED = 2
_COMPILED = [f"{_SEED}-{number}" for number in range(5, 200, 10)]  # none is refused


@pytest.mark.parametrize("name", [f"{_SEED}-{number}" for number in range(200)])
def test_case(name: str, tmp_path: Path) -> None:
    """It is right, or refused by a sentence that names its node."""
    status, reason = judge(name, tmp_path)
    assert status in {"right", "refused"}, reason


@pytest.mark.long
@pytest.mark.parametrize("name", _COMPILED)
def test_case_in_c(name: str, tmp_path: Path) -> None:
    model = model_of(case_of(name))
    feed, expected = answers_of(model)
    program, target = program_of(model), load_target("host")
    unit = emit_unit(program, target)
    results = execute(compile_unit(unit, target, tmp_path), program, unit, dict(feed))
    names = [spec.name for spec in program.outputs]
    assert not difference(expected, dict(zip(names, results, strict=True)))


def test_each_operator_of_onnx_with_axes_is_a_case_or_has_a_reason() -> None:
    assert set(OPERATORS) | set(LEFT_OUT) == with_axes()
    assert not set(OPERATORS) & set(LEFT_OUT)


def test_a_case_is_the_same_each_time() -> None:
    first, second = (case_of("1-43") for _ in range(2))
    assert first.model.SerializeToString() == second.model.SerializeToString()


def test_a_worker_that_dies_costs_its_case_alone(tmp_path: Path) -> None:
    names = ["1-0", "dies", "1-1"]
    found = {one["name"]: one["status"] for one in results_of(names, 1, "tests.axes.dying_judge", tmp_path)}
    assert found == {"1-0": "right", "dies": "crashed", "1-1": "right"}


def test_the_table_counts_by_operator_and_reason() -> None:
    results = [
        {"name": "1-0", "status": "right", "reason": ""},
        {"name": f"1-{len(OPERATORS)}", "status": "refused", "reason": "operator (node 'a_1') [Conv]"},
        {"name": f"1-{2 * len(OPERATORS)}", "status": "refused", "reason": "operator (node 'a_2') [MaxPool]"},
    ]
    assert table(results).splitlines()[2:] == [
        "| Softmax | 1 | 2 | 0 | 0 | 0 | 0 |",
        "| all | 1 | 2 | 0 | 0 | 0 | 0 |",
        "refused 2 times: operator (node 'a_N')",
    ]
