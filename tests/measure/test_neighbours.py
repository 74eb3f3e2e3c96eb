"""Samples that another thread of the core disturbed are taken again, for a while."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from itertools import cycle, repeat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.boards.local.neighbours import Neighbourhood, Undisturbed
from edgetune.boards.local.runner import build_timer
from edgetune.boards.sampling import TimingPolicy, sample

ALONE, BESIDE = 3.6, 2.3


class Core:
    """A core with the width `widths` from sample to sample: `ns` a call alone, 1.6 times as long beside another."""

    def __init__(self, widths: Iterable[float], ns: float = 1e4) -> None:
        self.widths: Iterator[float] = iter(widths)
        self.ns = ns
        self.spent = 0.0

    def take(self, calls: int, count: int) -> list[tuple[float, float]]:
        found = [next(self.widths) for _ in range(count)]
        pairs = [(self.ns if width == ALONE else 1.6 * self.ns, width) for width in found]
        self.spent += calls * sum(ns for ns, _ in pairs)
        return pairs

    def watch(self) -> tuple[float, float]:
        return self.take(1, 1)[0]


def test_disturbed_samples_are_taken_again() -> None:
    core = Core(cycle([ALONE, BESIDE, BESIDE, ALONE]))
    samples = Undisturbed(core.take, core.watch, ALONE, 1e9)
    assert samples.take(7, 10) == [1e4] * 10
    assert samples.disturbed == [False] * 10


def test_a_neighbour_who_stays_is_put_up_with() -> None:
    core = Core(repeat(BESIDE))
    samples = Undisturbed(core.take, core.watch, ALONE, 1e6)
    assert samples.take(7, 10) == [1.6e4] * 10
    assert samples.disturbed == [True] * 10
    assert core.spent <= 7 * 10 * 1.6e4 + 1e6


def test_watched_calls_are_taken_again_where_they_are_samples() -> None:
    core = Core(cycle([ALONE, BESIDE, BESIDE]), ns=1e6)
    samples = Undisturbed(core.take, core.watch, ALONE, 1e9)
    policy = TimingPolicy()
    found = sample(samples.take, samples.watch, policy)
    assert (found.repeat, set(found.samples)) == (1, {1e6})
    core = Core(repeat(BESIDE), ns=1e6)
    samples = Undisturbed(core.take, core.watch, ALONE, 0.0)
    found = sample(samples.take, samples.watch, policy)
    assert samples.disturbed[-len(found.samples) :] == [True] * len(found.samples)


def test_the_flags_of_short_calls_are_those_of_their_samples() -> None:
    core = Core(repeat(BESIDE))
    samples = Undisturbed(core.take, core.watch, ALONE, 0.0)
    samples.take(7, 3)
    assert samples.watch() == 1.6e4
    assert samples.disturbed == [True] * 3


def test_a_long_sample_is_what_it_is() -> None:
    core = Core(repeat(BESIDE), ns=1e7)
    assert Undisturbed(core.take, core.watch, ALONE, 1e12).take(1, 3) == [1.6e7] * 3
    assert core.spent == 3 * 1.6e7


def test_a_core_that_nobody_looked_at_is_not_called_disturbed() -> None:
    core = Core(repeat(BESIDE))
    samples = Undisturbed(core.take, core.watch, Neighbourhood().alone, 1e9)
    samples.take(7, 3)
    assert samples.disturbed == [False] * 3


@given(st.lists(st.sampled_from([ALONE, BESIDE]), min_size=1, max_size=20), st.integers(1, 9), st.floats(0.0, 1e6))
def test_there_are_as_many_as_were_wanted_within_the_room(widths: list[float], count: int, room_ns: float) -> None:
    core = Core(cycle(widths))
    samples = Undisturbed(core.take, core.watch, ALONE, room_ns)
    found = samples.take(7, count)
    assert [ns == 1.6e4 for ns in found] == samples.disturbed
    assert len(found) == count
    assert core.spent <= 7 * 1.6e4 * count + room_ns


def test_a_core_alone_is_known_by_most_of_its_widest_probes() -> None:
    around = Neighbourhood()
    around.probed([BESIDE] * 50 + [ALONE] * 50 + [9.0])
    assert around.alone == ALONE, "one odd probe says nothing"
    around.probed([BESIDE] * 2048)
    assert around.alone == BESIDE, "who stays for long belongs there"


@pytest.mark.parametrize(("disturbed", "patience"), [(8, 0.5), (5, 0.5), (4, 1.0), (0, 1.0)])
def test_patience_ends_where_it_is_in_vain(disturbed: int, patience: float) -> None:
    around = Neighbourhood()
    around.tried(disturbed, 8)
    assert around.patience == patience
    for _ in range(9):
        around.tried(8, 8)
    assert around.patience == 0.1
    around.tried(0, 8)
    assert around.patience == 1.0


def test_the_probe_sees_a_core_do_several_additions_at_once(tmp_path: Path) -> None:
    # Where a core adds constants without taking time for it, a chain of those is as fast as four beside each other.
    timer = ctypes.CDLL(str(build_timer(tmp_path, "gcc")))
    timer.edgetune_width.restype = ctypes.c_double
    assert max(timer.edgetune_width() for _ in range(200)) > 1.6
