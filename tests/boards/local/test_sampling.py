from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, pairwise
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.boards.sampling import Sampling, TimingPolicy, sample


class Kernel:
    """A kernel of known time: `factors` multiply `ns` from sample to sample."""

    def __init__(self, ns: float, factors: tuple[float, ...] = (1.0,)) -> None:
        self.ns = ns
        self.spent = 0.0
        self.calls: list[bool] = []  # of each call, whether it was watched
        self.factors: Iterator[float] = cycle(factors)

    def take(self, repeat: int, count: int) -> list[float]:
        values = [self.ns * next(self.factors) for _ in range(count)]
        self.spent += repeat * sum(values)
        self.calls += [False] * (repeat * count)
        return values

    def watch(self) -> float:
        (value,) = self.take(1, 1)
        self.calls[-1] = True
        return value


def run(ns: float, best: float = 0.0, factors: tuple[float, ...] = (1.0,), seed: int = 0) -> tuple[Sampling, Kernel]:
    kernel = Kernel(ns, factors)
    return sample(kernel.take, kernel.watch, TimingPolicy(), best, seed), kernel


@given(st.floats(min_value=1.0, max_value=25e6))
def test_short_kernels_get_eight_samples_of_half_a_millisecond_within_the_budget(ns: float) -> None:
    sampling, kernel = run(ns)
    assert len(sampling.samples) >= 8
    assert sampling.repeat * ns >= 0.5e6
    assert kernel.spent <= 0.3e9


@pytest.mark.long
@given(st.floats(min_value=1.0, max_value=90e6), st.lists(st.floats(0.7, 2.0), min_size=2, max_size=9))
def test_noise_uses_the_budget_and_hardly_more(ns: float, factors: list[float]) -> None:
    sampling, kernel = run(ns, factors=tuple(factors))
    assert len(sampling.samples) >= 3
    assert kernel.spent <= max(0.3e9 + 8 * 3 * max(ns, 0.6e6), 10 * ns)


def test_a_long_kernel_is_called_three_times() -> None:
    sampling, _ = run(5e9)
    assert (len(sampling.samples), sampling.repeat, sampling.stopped) == (3, 1, "budget")


def test_a_hopeless_kernel_is_timed_briefly() -> None:
    sampling, kernel = run(1e6, best=0.3e6)
    assert (len(sampling.samples), sampling.stopped) == (3, "slow")
    assert kernel.spent < 10e6
    assert run(1e6, best=0.4e6)[0].stopped == "narrow"


def test_a_long_hopeless_kernel_is_called_once_more() -> None:
    assert len(run(5e9, best=1e6)[0].samples) == 1


def test_a_steady_kernel_ends_early_and_a_noisy_one_does_not() -> None:
    calm, kernel = run(50e3)
    noisy, _ = run(50e3, factors=tuple(1.0 + abs(value) for value in NormalDist(0, 0.3).samples(1009, seed=7)))
    assert calm.stopped == "narrow"
    assert noisy.stopped in {"budget", "count"}
    assert kernel.spent < 60e6


@given(st.floats(min_value=200.0, max_value=90e6), st.sampled_from([0.0, 1.0, 0.1]), st.integers(0, 1 << 64))
def test_the_first_call_a_pair_and_the_last_are_watched(ns: float, best: float, seed: int) -> None:
    """Where one sample is one call, no call is made for that alone, except the second of a pair of one sample."""
    sampling, kernel = run(ns, best * ns, seed=seed)
    watched = [call for call, seen in enumerate(kernel.calls) if seen]
    assert watched[0] == 0
    assert watched[-1] == len(kernel.calls) - 1
    assert any(later == earlier + 1 for earlier, later in pairwise(watched[1:]))
    assert len(sampling.samples) >= 1


def test_watched_calls_are_samples_where_a_sample_is_one_call() -> None:
    sampling, kernel = run(1e6, best=0.3e6)
    assert (len(sampling.samples), len(kernel.calls)) == (3, 5)


def test_nobody_can_foresee_the_pair() -> None:
    places = {tuple(run(40e6, seed=seed)[1].calls) for seed in range(100)}
    assert len(places) > 3
    long = {tuple(call for call, seen in enumerate(run(10e3, seed=seed)[1].calls) if seen) for seed in range(50)}
    assert len(long) > 5
