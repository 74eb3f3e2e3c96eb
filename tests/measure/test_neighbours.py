"""Samples that another thread of the core disturbed are taken again, for a while."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, cycle, repeat

from hypothesis import given
from hypothesis import strategies as st

from edgetune.measure.neighbours import Undisturbed

ALONE, BESIDE = 3.6, 2.3


class Core:
    """A core with the width `widths` from sample to sample: 100 ns a call alone, 160 beside another thread."""

    def __init__(self, widths: Iterable[float]) -> None:
        self.widths: Iterator[float] = iter(widths)
        self.samples = 0

    def take(self, calls: int, count: int) -> list[tuple[float, float]]:
        assert calls == 7
        found = [next(self.widths) for _ in range(count)]
        self.samples += count
        return [(100.0 if width == ALONE else 160.0, width) for width in found]


def test_disturbed_samples_are_taken_again() -> None:
    core = Core(cycle([ALONE, BESIDE, BESIDE, ALONE]))
    samples = Undisturbed(core.take, widest=ALONE)
    assert samples.take(7, 10) == [100.0] * 10
    assert (samples.taken, samples.disturbed) == (10, 0)


def test_a_neighbour_who_stays_is_put_up_with() -> None:
    core = Core(repeat(BESIDE))
    samples = Undisturbed(core.take, widest=ALONE, patience=2.0)
    assert samples.take(7, 10) == [160.0] * 10
    assert core.samples == 30
    assert (samples.taken, samples.disturbed) == (10, 10)


def test_who_was_never_alone_is_not_known_to_be_disturbed() -> None:
    core = Core(repeat(BESIDE))
    samples = Undisturbed(core.take)
    samples.take(7, 10)
    assert (core.samples, samples.widest, samples.disturbed) == (10, BESIDE, 0)


def test_the_widest_is_learned() -> None:
    core = Core(chain([BESIDE] * 4, repeat(ALONE)))
    samples = Undisturbed(core.take)
    assert samples.take(7, 4) == [160.0] * 4
    assert samples.take(7, 4) == [100.0] * 4
    assert samples.widest == ALONE


@given(st.lists(st.sampled_from([ALONE, BESIDE]), min_size=1, max_size=20), st.integers(1, 9), st.floats(0, 4))
def test_there_are_always_as_many_as_were_wanted(widths: list[float], count: int, patience: float) -> None:
    core = Core(cycle(widths))
    samples = Undisturbed(core.take, widest=ALONE, patience=patience)
    found = samples.take(7, count)
    assert len(found) == count
    assert found.count(160.0) == samples.disturbed
    assert core.samples <= (patience + 2) * count + count
