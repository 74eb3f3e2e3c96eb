"""What is exact of a package: an error that grew is an alarm, and one that is not finite never passes for none."""

from __future__ import annotations

import math
from typing import Any

import pytest

from edgetune.farm.comparing import exact_facts, worse
from edgetune.verify.verify import OutputReport, VerifyReport

MANIFEST: dict[str, Any] = {
    "memory": {"arena_bytes": 8, "weights_bytes": 4},
    "model": {"sha256": "0"},
    "inputs": [],
    "outputs": [],
}


def facts(*errors: float) -> dict[str, Any]:
    outputs = tuple(OutputReport("y", "fresh", error, error, 0.0, 0.0, 1.0) for error in errors)
    report = VerifyReport("p", "m", "b", "cc", None, "here", "onnx", 1, 1, outputs)
    return exact_facts(MANIFEST, report)


@pytest.mark.parametrize("error", [math.inf, math.nan])
def test_an_error_that_is_not_finite_is_not_stored_as_none_at_all(error: float) -> None:
    found = facts(1e-5, error)
    assert found["max_error"] is None
    assert worse(facts(1e-5), found) == ["largest error of the results not finite instead of 1e-05"]
    assert worse(found, found) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (1e-5, 3e-5, ["largest error of the results 3e-05 instead of 1e-05"]),
        (1e-5, 1.9e-5, []),
        (0.0, 2e-7, []),
        (0.0, 0.004, ["largest error of the results 0.004 instead of 0"]),
        (3e-5, 1e-5, []),
    ],
)
def test_results_more_than_twice_as_far_from_the_reference_are_worse(
    before: float, after: float, said: list[str]
) -> None:
    assert worse(facts(before), facts(after)) == said


def test_a_package_accepted_before_errors_were_compared_gives_no_alarm() -> None:
    assert worse({"arena_bytes": 8}, facts(0.5)) == []
