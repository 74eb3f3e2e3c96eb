from __future__ import annotations

import statistics
from math import comb, inf, nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.boards.statistics import drop_outliers, median_interval, retry_wanted, summarise

times = st.floats(min_value=1.0, max_value=1e12, allow_nan=False)
sample_sets = st.lists(times, min_size=1, max_size=200)


@given(sample_sets)
def test_the_interval_encloses_the_median(samples: list[float]) -> None:
    summary = summarise(samples)
    assert summary.smallest <= summary.low <= summary.median <= summary.high <= max(samples)
    assert 0.0 <= summary.coverage <= 1.0


@given(sample_sets, st.randoms())
def test_order_does_not_matter(samples: list[float], random: object) -> None:
    shuffled = list(samples)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert summarise(shuffled) == summarise(samples)


@given(sample_sets)
def test_outliers_are_never_half_and_never_below_the_median(samples: list[float]) -> None:
    kept, dropped = drop_outliers(samples)
    assert len(kept) + dropped == len(samples)
    assert 2 * dropped < len(samples)
    middle = statistics.median(samples)
    assert all(value in kept for value in samples if value <= middle)


@given(sample_sets, st.integers(min_value=-20, max_value=20))
def test_units_do_not_matter(samples: list[float], power: int) -> None:
    scale = 2.0**power
    scaled, plain = summarise([value * scale for value in samples]), summarise(samples)
    assert scaled.median == plain.median * scale
    assert (scaled.low, scaled.high, scaled.dropped) == (plain.low * scale, plain.high * scale, plain.dropped)


@given(st.integers(min_value=1, max_value=400), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_the_interval_is_the_narrowest_of_its_confidence(count: int, confidence: float) -> None:
    low, high, coverage = median_interval(range(1, count + 1), confidence)
    assert low + high == count + 1
    rank = round(low)
    below = sum(comb(count, i) for i in range(rank)) / 2**count
    assert coverage == pytest.approx(1 - 2 * below, abs=1e-12)
    if rank > 1:
        assert coverage >= confidence - 1e-12
    narrower = 1 - 2 * (below + comb(count, rank) / 2**count)
    if rank + 1 <= count - rank:
        assert narrower < confidence


def test_known_ranks_of_the_literature() -> None:
    # Tables of the sign test: n = 10 gives x(2)..x(9) at 97.9 %, n = 20 gives x(6)..x(15) at 95.9 %.
    low, high, coverage = median_interval([float(v) for v in range(1, 11)])
    assert (low, high) == (2, 9)
    assert coverage == pytest.approx(0.97852, abs=1e-5)
    low, high, coverage = median_interval([float(v) for v in range(1, 21)])
    assert (low, high) == (6, 15)
    assert coverage == pytest.approx(0.95861, abs=1e-5)
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0])[2] == pytest.approx(0.9375)


def test_an_interrupted_sample_is_dropped_and_counted() -> None:
    summary = summarise([100.0, 101.0, 99.0, 100.5, 100.2, 99.8, 100.1, 400.0])
    assert (summary.count, summary.dropped) == (8, 1)
    assert summary.high <= 101.0
    assert not summary.noisy


def test_equal_samples_with_a_coarse_clock_are_not_outliers() -> None:
    assert drop_outliers([1000.0] * 9 + [1001.0]) == ([1000.0] * 9 + [1001.0], 0)
    assert drop_outliers([1000.0] * 9 + [1100.0])[1] == 1


def test_only_noisy_candidates_that_may_be_best_are_timed_again() -> None:
    noisy = summarise([100.0, 150.0, 200.0, 250.0, 300.0, 350.0, 400.0, 450.0])
    calm = summarise([100.0] * 8)
    assert noisy.noisy
    assert retry_wanted(noisy, attempts=1, best=0.0)
    assert retry_wanted(noisy, attempts=1, best=120.0)
    assert not retry_wanted(noisy, attempts=1, best=90.0)
    assert not retry_wanted(noisy, attempts=2, best=0.0)
    assert not retry_wanted(calm, attempts=1, best=0.0)


def test_no_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        summarise([])


def test_one_sample_says_how_little_it_covers() -> None:
    summary = summarise([5.0])
    assert (summary.low, summary.median, summary.high, summary.coverage) == (5.0, 5.0, 5.0, 0.0)
    assert nextafter(summary.median, inf) > summary.high


def test_sweeps_may_add_up_to_thousands_of_samples() -> None:
    low, high, coverage = median_interval(range(1, 3001))
    assert 0.95 <= coverage < 0.96
    assert 1500 - 60 < low < 1500 < high < 1500 + 60  # 1.96 sqrt(3000) / 2 = 54
