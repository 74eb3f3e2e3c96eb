"""The rounds are interleaved, every side starts some of them, and one that dies does not take the others with it."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.rounds import measure_rounds, order
from benchmarks.side import CannotLoad
from benchmarks.side_process import Sample, reason, time_calls


class FakeSide:
    """Answers with the same time in every round, and dies in round `dies` if that is not negative."""

    def __init__(self, name: str, nanoseconds: float, log: list[str], dies: int = -1) -> None:
        self.name = name
        self._nanoseconds, self._log, self._dies, self._round = nanoseconds, log, dies, 0

    def measure(self, seconds: float) -> Sample:
        self._log.append(self.name)
        self._round += 1
        if self._round - 1 == self._dies:
            raise CannotLoad("killed by SIGSEGV")
        return Sample(self._nanoseconds, self._nanoseconds * seconds, 10)


def test_every_side_is_timed_once_in_each_round() -> None:
    log: list[str] = []
    sides = [FakeSide(name, 100.0, log) for name in "abc"]
    found = measure_rounds(sides, 7, 0.5)
    assert len(log) == 21
    assert all(sorted(log[i : i + 3]) == ["a", "b", "c"] for i in range(0, 21, 3))
    assert found.samples["b"] == [Sample(100.0, 50.0, 10)] * 7
    assert not found.died


@pytest.mark.parametrize("count", [2, 3, 4, 6])
def test_first_and_last_places_go_round(count: int) -> None:
    names = "abcdef"[:count]
    orders = [order(names, index) for index in range(2 * count)]
    assert all(sorted(line) == list(names) for line in orders)
    for place in (0, -1):
        assert Counter(line[place] for line in orders) == dict.fromkeys(names, 2)
    followers = {pair for line in orders for pair in itertools.pairwise(line)}
    assert all((b, a) in followers for a, b in followers)  # nobody always comes after the same one


def test_a_side_that_dies_is_left_out_and_the_others_go_on() -> None:
    log: list[str] = []
    found = measure_rounds([FakeSide("a", 1.0, log), FakeSide("b", 2.0, log, dies=2)], 5, 0.1)
    assert set(found.samples) == {"a"}
    assert len(found.samples["a"]) == 5
    assert found.died == {"b": "died while it was timed: killed by SIGSEGV"}
    assert log.count("b") == 3


def test_the_turn_is_held_around_each_round() -> None:
    log: list[str] = []

    @contextlib.contextmanager
    def turn() -> Iterator[None]:
        log.append("take")
        yield
        log.append("give")

    measure_rounds([FakeSide("a", 1.0, log), FakeSide("b", 1.0, log)], 2, 0.1, turn)
    assert log == ["take", *order("ab", 0), "give", "take", *order("ab", 1), "give"]


@pytest.mark.long
def test_calls_are_timed_after_a_warm_up() -> None:
    now = 0
    calls = 0

    def clock() -> int:
        return now

    def call() -> None:
        nonlocal now, calls
        calls += 1
        now += 5_000_000 if calls <= 30 else 1_000_000  # cold at first

    sample = time_calls(call, 1.0, clock)
    assert sample == Sample(1_000_000.0, 1_000_000.0, 1000)
    assert calls > 1000


def test_the_reason_of_a_dead_process_is_its_last_line() -> None:
    assert reason("exit code 1: Traceback\n  ...\nbenchmarks.side.CannotLoad: no Resize\n") == "no Resize"
    assert reason("killed by SIGSEGV") == "killed by SIGSEGV"
