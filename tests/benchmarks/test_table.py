"""Ratios, verdicts and the table, with times that are made up."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.result import ModelResult, SideResult, difference, model_result, side_result, tolerance, within
from benchmarks.side import Loaded
from benchmarks.side_process import Sample
from benchmarks.table import markdown

TITLES = {"edgetune": "edgetune", "ort": "ONNX Runtime", "ncnn": "ncnn", "lite": "LiteRT"}


def side(name: str, *rounds_us: float, gap: float = 0.0) -> SideResult:
    return side_result(name, Loaded("1.2", "threads=1"), [Sample(us * 1e3, us * 900, 7) for us in rounds_us], gap)


def verdict(ours: float, peer: float) -> str | None:
    return model_result("m", [side("edgetune", ours), side("ort", peer)], {}, "edgetune").sides[1].verdict


def sample_result() -> ModelResult:
    sides = [side("ort", 80, 90, 70), side("edgetune", 40, 50, 45), side("ncnn", 30, 30, 30, gap=0.5)]
    return model_result("net|a", sides, {"lite": "lacks Resize"}, "edgetune")


def test_a_ratio_is_peer_over_ours_and_its_range_is_that_of_the_rounds() -> None:
    ours, ncnn, ort = sample_result().sides
    assert (ours.name, ncnn.name, ort.name) == ("edgetune", "ncnn", "ort")
    assert (ours.ratio, ours.verdict) == (None, None)
    assert (ours.median_us, ours.low_us, ours.high_us, ours.calls) == (45, 40, 50, 21)
    assert ours.spread == pytest.approx(10 / 45)
    assert ort.ratio == pytest.approx(80 / 45)
    assert ort.ratio_low == pytest.approx(70 / 45)
    assert ort.ratio_high == pytest.approx(2.0)
    assert (ort.verdict, ncnn.verdict) == ("win", "loss")


def test_small_differences_are_ties() -> None:
    assert [verdict(100, us) for us in (96, 98, 102, 104)] == ["loss", "tie", "tie", "win"]
    assert [verdict(5000, us) for us in (4400, 4700, 5400, 5600)] == ["loss", "tie", "tie", "win"]


def test_a_limit_is_that_to_the_fastest_peer_with_right_answers() -> None:
    result = sample_result()  # 45; ncnn takes 30 and is wrong, ONNX Runtime takes 80
    assert within(result, 0.57)
    assert not within(result, 0.56)
    assert not within(model_result("m", [side("edgetune", 1.0)], {}, "edgetune"), 2.0)
    assert not within(model_result("m", [side("ort", 1.0)], {}, "edgetune"), 2.0)


def test_without_our_side_there_are_no_ratios() -> None:
    result = model_result("m", [side("ort", 1.0)], {"edgetune": "does not build"}, "edgetune")
    assert result.sides[0].ratio is None
    assert "not measured: does not build" in markdown([result], {}, "", TITLES)


def test_differences_are_shares_of_the_largest_output() -> None:
    reference = {"y": np.array([0.0, -4.0]), "z": np.array([1.0])}
    answer = {"y": np.array([0.0, -3.0]), "z": np.array([1.1])}
    assert difference(answer, reference) == pytest.approx(0.25)
    assert difference({**answer, "y": np.array([np.nan, -4.0])}, reference) == np.inf
    assert difference({"y": answer["y"]}, reference) == np.inf
    assert difference({**answer, "z": np.zeros((1, 1))}, reference) == np.inf
    assert not side("ort", 1.0, gap=1.1e-4).correct


def test_a_quantised_output_may_be_one_step_off() -> None:
    assert tolerance({"y": np.array([-0.5, 2.0])}, {}) == 1e-4
    assert tolerance({"y": np.array([-0.5, 2.0])}, {"y": 0.25}) == pytest.approx(0.125, rel=0.01)


def test_the_table_shows_losses_wrong_answers_and_who_is_missing() -> None:
    text = markdown([sample_result()], {"cpu": "Z80", "load_1min": 0.1}, "3 rounds of 1 s per side.", TITLES)
    assert "- cpu: Z80\n- load 1min: 0.1\n" in text
    assert "| net\\|a | 45.0 | 80.0 (1.78x) | 30.0 (0.67x) differs | - | 0.67 (ncnn), **loss** |" in text
    assert (
        "| ncnn | 30.0 (30.0 to 30.0) | 0% | 27.0 | 0.67 (0.60 to 0.75) | **loss** | 5.0e-01, more than 1.0e-04 |"
        in text
    )
    assert "| ONNX Runtime | 80.0 (70.0 to 90.0) | 25% | 63.0 | 1.78 (1.56 to 2.00) | win | 0.0e+00 |" in text
    assert "- LiteRT: not measured: lacks Resize" in text
    assert "- ncnn 1.2: threads=1" in text


def test_results_are_plain_json() -> None:
    again = json.loads(json.dumps(sample_result().to_json()))
    assert again["missing"] == {"lite": "lacks Resize"}
    assert again["sides"][0]["rounds_us"] == [40.0, 50.0, 45.0]
