"""Samples of a layer count where nobody else was on the core and its clock stood still; each is told at one clock."""

from __future__ import annotations

import pytest

from benchmarks.layer_times import LayerSample, judged, samples_of

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
