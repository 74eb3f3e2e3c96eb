"""A sample of what `python -m tests.cuda.proposals` counts: most proposals compile within the target."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from edgetune.pipeline.model_formats import read_model
from tests.cuda.proposals import LEAST, MOST_SECONDS, failed, tried

MODEL = Path(__file__).parents[2] / "examples/models/ds_cnn.onnx"


@pytest.mark.long
@pytest.mark.nvcc
def test_most_proposals_that_pass_the_decision_test_compile_without_a_spill(tmp_path: Path) -> None:
    counts = tried(read_model(MODEL).program(), 10, tmp_path, runs=False)
    assert counts["proposed"] == 10
    assert counts["compiled"] >= LEAST * 10


def test_proposals_that_take_too_long_or_are_wrong_fail_the_command() -> None:
    counts = Counter({"proposed": 10, "compiled": 7})
    assert not failed(counts, MOST_SECONDS)
    assert failed(counts, MOST_SECONDS + 0.01)
    assert not failed(counts + Counter({"right": 7}), 2 * MOST_SECONDS)
    assert failed(counts + Counter({"wrong": 1}), 0.0)
    assert failed(Counter({"proposed": 10, "compiled": 6}), 0.0)
