"""The table of packages for boards without operating system, with counts that are made up, and one that is measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import firmware
from benchmarks.firmware import HEAD, Package, Row, main, measured
from benchmarks.firmware_bars import MODELS, bar_of, cmsis_nn_of
from edgetune.errors import EdgetuneError, UsageError
from edgetune.target.target import Target, load_target
from tests.target.test_own_microcontroller import MODEL

DEFAULT = Package(5_000_000, 16_000, 904, 31_296, 11_369, 7_806)
TUNED = Package(4_000_000, 17_000, 900, 31_300, 12_000, 8_000, 64)


def test_a_row_shows_the_tuned_package_beside_the_default_one() -> None:
    row = Row("kws_int8", "mps2-an386", "cortex-m4", DEFAULT, TUNED)
    assert row.met
    assert row.line() == (
        "| kws_int8 | mps2-an386 | 5 | 4 | 1.25 | 4.2 | met | 7.84 (earlier) | 17,964 | 19,000 | met "
        "| 17,000 | 900 | 31,300 | 12,000 | 8,000 |"
    )
    assert row.line().count("|") == HEAD.splitlines()[0].count("|")


def test_a_bar_may_be_missed_and_a_core_may_have_none() -> None:
    missed = Row("kws_int8", "mps2-an386", "cortex-m4", DEFAULT)
    assert missed.line().startswith(
        "| kws_int8 | mps2-an386 | 5 | - | - | 4.2 | missed | 7.84 (earlier) | 16,904 | 19,000 | met |"
    )
    beside = Row("kws_int8", "mps2-an386", "cortex-m4", DEFAULT, counted_cmsis_nn=7_819_160)
    assert "| 7.82 (counted) |" in beside.line()
    small = Row("sww_int8", "cortex-m0plus", "cortex-m0plus", DEFAULT)
    assert (small.met, small.to_json()["bar"]) == (None, None)
    assert small.line().startswith("| sww_int8 | cortex-m0plus | 5 | - | - | - | - | - | 16,904 |")


def test_ram_is_the_arena_with_what_lies_beside_it_and_has_a_bar_of_its_own() -> None:
    large = Row("kws_int8", "mps2-an386", "cortex-m4", replace(DEFAULT, arena=19_000))
    assert "| 19,904 | 19,000 | missed |" in large.line()
    other = Row("other", "mps2-an386", "cortex-m4", DEFAULT)
    assert "| 16,904 | - | - | 16,000 |" in other.line()


def test_bars_of_similar_cores_are_those_of_a_cortex_m4_and_a_tenth() -> None:
    for model in MODELS:
        found = [bar_of(model, core) for core in ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")]
        assert found[1] == found[2] == pytest.approx(1.1 * (found[0] or 0))
        assert (found[3] or 0) < (found[0] or 0) < (cmsis_nn_of(model, "cortex-m4") or 0)
    assert bar_of("ad_int8", "cortex-m55") == pytest.approx(55_000)
    assert cmsis_nn_of("ad_int8", "cortex-m7") is None


def test_a_package_that_fails_is_a_row_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(words: object, model: Path, target: Target, folder: Path) -> Package:  # noqa: ARG001
        raise EdgetuneError("edgetune build ended with exit code 14: too large")

    monkeypatch.setattr(firmware, "package_of", fails)
    row = measured(tmp_path / "big.tflite", load_target("mps2-an386"), 0, tmp_path)
    assert (row.met, row.default, row.fault) == (None, None, "edgetune build ended with exit code 14: too large")
    assert row.line().startswith("| big | mps2-an386 | edgetune build ended with exit code 14: too large | - |")
    assert row.line().count("|") == HEAD.splitlines()[0].count("|")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--models", "none"], "there is no file "),
        (["--boards", "rpi4"], "no instructions are counted on board 'rpi4'"),
    ],
)
def test_what_cannot_be_counted_is_said(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == UsageError.exit_code
    assert sentence in capsys.readouterr().err


@pytest.mark.skipif(not MODEL.is_file(), reason=f"{MODEL} is not there")
def test_a_model_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--models", MODEL.stem, "--boards", "mps2-an386", "--json", "-o", str(tmp_path)]) == 0
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (row["met"], row["tuned"], row["fault"]) == (True, None, "")
    assert 264_192 / 2 < row["default"]["instructions"] < row["bar"]  # two multiply-adds of an instruction at most
    assert row["default"]["small_code"] < row["default"]["code"]
    assert row["default"]["context"] == 64


@pytest.mark.skipif(not MODEL.is_file(), reason=f"{MODEL} is not there")
@pytest.mark.parametrize(("model", "board"), [("kws_int8", "cortex-m0plus"), ("resnet8_int8", "mps3-an547")])
def test_default_schedules_meet_the_bars(
    model: str, board: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A change of formulas that helps one core can cost another one a fifth."""
    assert main(["--models", model, "--boards", board, "--json", "-o", str(tmp_path)]) == 0
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (row["met"], row["fault"]) == (True, "")
