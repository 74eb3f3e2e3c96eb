"""The benchmark of narrow and wide layers: it times layers of bytes in both forms, and counts right signs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from benchmarks.narrow_or_wide import Compared, main, table
from tests.quantised_samples import quantised, u_net


def test_layers_of_bytes_are_measured_in_both_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(u_net(), tmp_path / "float.onnx")
    assert main([str(quantised(tmp_path / "float.onnx", "qdq")), "--rounds", "5"]) == 0
    said = capsys.readouterr().out
    assert "time of floats / of integers" in said
    assert "The estimates foresee" in said


def test_only_what_times_decide_is_counted() -> None:
    layer = Compared("one", "dot_int16_2", 100, 150, 1.2, 1.1, 1.3)
    tie, wrong = replace(layer, low=0.9), replace(layer, narrow=200)
    text = table([layer, tie, wrong])
    assert "foresee 1 of 2 layers; floats are faster in 0." in text
    assert text.count("**no**") == 1
