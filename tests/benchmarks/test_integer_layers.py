"""The benchmark of integer layers: it compares sums, and its table has shares of the peak."""

from __future__ import annotations

import pytest

from benchmarks import integer_layers
from benchmarks.integer_layers import Layer, Measured, main

TINY = {"tiny": Layer(6, (16, 16), 3), "strided": Layer(7, (32, 16), 1, 2)}


def test_layers_are_measured_beside_the_peak(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(integer_layers, "LAYERS", TINY)
    assert main(["--rounds", "3"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("The peak of the dot product is ")
    assert [line.split(" | ")[0] for line in said[4:]] == ["| tiny", "| strided"]


def test_products_count_each_result() -> None:
    assert TINY["tiny"].products == 6 * 6 * 16 * 16 * 9
    assert TINY["strided"].products == 4 * 4 * 16 * 32


def test_the_share_of_the_peak_is_that_of_the_fastest_call() -> None:
    found = [Measured("one", "dot_int16_2", [1e9, 2e9, 4e9], [2.0, 2.0, 3.0])]
    assert "| 4.0 | 50% |" in integer_layers._table(found, 8e9)
