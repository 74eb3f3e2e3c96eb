"""Samples of a layer count where nobody else was on the core and its clock stood still; each is at one clock."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import layer_times
from benchmarks.layer_times import LayerSample, judged, samples_of
from edgetune.errors import SelfTestFailed
from edgetune.target.target import load_target

CALM, BESIDE, SLOW, TURNED = (
    LayerSample(1e-5, (1e11, 1e11), (3.3, 3.3)),
    LayerSample(2e-5, (1e11, 1e11), (3.3, 2.0)),  # somebody came
    LayerSample(2e-5, (5e10, 5e10), (3.3, 3.3)),  # half the clock
    LayerSample(3e-5, (1e11, 9e10), (3.3, 3.3)),  # the clock changed
)


def test_disturbed_samples_do_not_count() -> None:
    times, peak = judged([[CALM] * 5 + [BESIDE] * 20 + [TURNED] * 20])
    assert peak == 1e11
    assert times[0].us == pytest.approx(10.0)
    assert (times[0].undisturbed, times[0].samples) == (5, 45)


def test_a_layer_on_a_slow_clock_is_told_at_the_best_one() -> None:
    times, _ = judged([[CALM] * 3, [SLOW] * 3])
    assert [time.us for time in times] == [pytest.approx(10.0), pytest.approx(10.0)]


def test_a_layer_that_was_never_alone_is_told_by_all_its_samples() -> None:
    times, _ = judged([[CALM] * 20, [BESIDE] * 3])
    assert times[1].us == pytest.approx(20.0)
    assert times[1].undisturbed == 0


def test_what_the_program_writes_is_read_back() -> None:
    found = samples_of("0 1e-05 1e+11 1e+11 3.3 3.3\n1 2e-05 1e+11 1e+11 3.3 2\n0 1e-05 1e+11 1e+11 3.3 3.3\n")
    assert found == [[CALM, CALM], [BESIDE]]


@pytest.mark.parametrize("layers", [[], [[]], [[CALM], []]])
def test_no_samples_are_no_times(layers: list[list[LayerSample]]) -> None:
    with pytest.raises(SelfTestFailed, match="no sample of a layer"):
        judged(layers)


def test_a_program_that_does_not_end_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(command: list[str], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(layer_times, "build_program", lambda *_: tmp_path / "program")
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(SelfTestFailed, match="did not end on core 0 within 603 s"):
        layer_times.layer_times(tmp_path, load_target("host"), 0, 3.0)
