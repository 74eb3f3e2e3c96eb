"""Tuned and untuned packages are compared by medians of rounds, and refused where their numbers do not match."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.untuned import Pair, geometric_mean, main, table
from edgetune.errors import UsageError

PAIRS = (
    Pair("kws", (10.0, 12.0, 11.0), (22.0, 18.0, 24.0), "3 of 4 kernels tuned"),
    Pair("vww", (100.0, 100.0, 90.0), (50.0, 50.0, 60.0), "4 of 4 kernels tuned"),
)


def test_a_ratio_is_that_of_the_medians_and_the_mean_is_geometric() -> None:
    assert [pair.ratio for pair in PAIRS] == [2.0, 0.5]
    assert PAIRS[0].spread == (1.5, 2.2)
    assert geometric_mean(PAIRS) == pytest.approx(1.0)
    text = table(PAIRS)
    assert "| kws | 11.0 | 22.0 | 2.00 | 1.50 to 2.20 | 3 of 4 kernels tuned |" in text
    assert "Geometric mean of the ratios: 1.000" in text


def test_packages_are_given_for_each_model_or_for_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--model", "a.onnx", "b.onnx", "--tuned", "only-one", "-o", str(tmp_path)])
    assert status == UsageError.exit_code
    assert "for each --model" in capsys.readouterr().err
