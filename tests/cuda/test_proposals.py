"""A sample of what `python -m tests.cuda.proposals` counts: most proposals compile within the target."""

from __future__ import annotations

from pathlib import Path

from edgetune.pipeline.model_formats import read_model
from tests.cuda.proposals import LEAST, tried

MODEL = Path(__file__).parents[2] / "examples/models/ds_cnn.onnx"


def test_most_proposals_that_pass_the_decision_test_compile_without_a_spill(tmp_path: Path) -> None:
    counts = tried(read_model(MODEL).program(), 10, tmp_path, runs=False)
    assert counts["proposed"] == 10
    assert counts["compiled"] >= LEAST * 10
