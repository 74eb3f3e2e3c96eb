"""Grades, the change-point test and twins."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.boards.environment import Reading
from edgetune.boards.options import GRADES
from edgetune.boards.statistics import summarise
from edgetune.measure.fleet import Twins
from edgetune.measure.trend import LEARNED, State, Trend
from edgetune.measure.trust import Conditions, trust_of

FINE: dict[str, Reading] = {
    "governor": "performance",
    "clock_khz": 1_500_000,
    "clock_min_khz": 600_000,
    "clock_max_khz": 1_500_000,
    "temperature_c": 51.0,
}
TIME: dict[str, Reading] = {"emulated": 0, "clock": "time"}


def without(*keys: str) -> dict[str, Reading]:
    return {key: value for key, value in FINE.items() if key not in keys}


@pytest.mark.parametrize(
    ("change", "width", "grade", "words"),
    [
        ({}, 0.01, "A", "fixed clock"),
        ({}, 0.03, "B", "confidence interval is 3.0 %"),
        ({}, 0.08, "C", "confidence interval is 8.0 %"),
        ({}, 0.30, "D", "confidence interval is 30.0 %"),
        ({"after": without("governor")}, 0.01, "B", "does not report its governor"),
        ({"before": without("temperature_c"), "after": without("temperature_c")}, 0.01, "B", "its temperature"),
        ({"canary": "unknown"}, 0.01, "B", "canary has not run"),
        ({"after": {**FINE, "governor": "powersave"}}, 0.01, "C", "the governor is powersave"),
        ({"after": {**FINE, "clock_khz": 1_200_000}}, 0.01, "C", "from 1500 to 1200 MHz"),
        ({"after": {**FINE, "temperature_c": 82.0}}, 0.01, "C", "at 82 C"),
        ({"canary": "drifted"}, 0.01, "D", "canary drifted"),
        ({"facts": {"emulated": 1, "clock": "time"}}, 0.01, "D", "emulated"),
        ({"facts": {"emulated": 1, "clock": "instructions"}}, 0.0, "D", "instructions"),
    ],
)
def test_the_worst_finding_decides(change: dict[str, object], width: float, grade: str, words: str) -> None:
    conditions = Conditions(**{"facts": TIME, "before": FINE, "after": FINE, **change})  # type: ignore[arg-type]
    trust = trust_of(conditions, width)
    assert trust.grade == grade
    assert words in trust.reason


def test_a_fixed_clock_needs_no_governor() -> None:
    fixed = {**without("governor"), "clock_min_khz": 1_500_000}
    assert trust_of(Conditions(TIME, fixed, fixed), 0.01).grade == "A"


def test_what_is_refused_or_brief_is_told() -> None:
    conditions = Conditions(TIME, FINE, FINE)
    assert trust_of(conditions, 0.01, refused="the core was throttled").grade == "D"
    brief = trust_of(conditions, 0.01, brief=True)
    assert (brief.grade, brief.reason) == ("C", "timed briefly, because it is far slower than the best")


@given(width=st.floats(0, 1), canary=st.sampled_from(["unknown", "steady", "drifted"]), brief=st.booleans())
def test_a_wider_interval_never_raises_the_grade(width: float, canary: State, brief: bool) -> None:
    conditions = Conditions(TIME, FINE, FINE, canary)
    narrow, wide = (trust_of(conditions, w, brief=brief) for w in (width / 2, width))
    assert GRADES.index(narrow.grade) <= GRADES.index(wide.grade)
    assert narrow.below("A") == (narrow.grade != "A")


def feed(trend: Trend, times: Sequence[float]) -> list[str]:
    return [said for time in times if (said := trend.add(time))]


def _state(trend: Trend) -> str:
    return trend.state


def noisy(count: int, seed: int, level: float = 1000.0, noise: float = 0.003) -> list[float]:
    draw = random.Random(seed)  # noqa: S311
    return [level * (1 + draw.gauss(0, noise)) for _ in range(count)]


def test_a_steady_board_is_steady() -> None:
    for seed in range(20):
        trend = Trend()
        assert feed(trend, noisy(LEARNED - 1, seed)) == []
        assert _state(trend) == "unknown"
        assert feed(trend, noisy(60, seed + 100)) == []
        assert trend.state == "steady"


def test_one_interruption_is_no_drift() -> None:
    trend = Trend()
    assert feed(trend, [*noisy(10, 1), 5000.0, *noisy(10, 2)]) == []


@pytest.mark.parametrize("factor", [0.9, 1.05, 1.5])
def test_a_shift_is_noticed_soon_and_its_end_too(factor: float) -> None:
    trend = Trend()
    feed(trend, noisy(10, 3))
    (said,) = feed(trend, noisy(4, 4, level=1000.0 * factor))
    assert ("more" if factor > 1 else "less") in said
    assert _state(trend) == "drifted"
    assert feed(trend, noisy(3, 5)) == ["its canary takes its former time again"]
    assert trend.state == "steady"


def test_a_new_level_is_accepted_once_it_is_steady() -> None:
    trend = Trend()
    feed(trend, noisy(10, 6))
    said = feed(trend, noisy(20, 7, level=1200.0))
    assert len(said) == 2
    assert "steady again" in said[1]
    assert "more time" in said[1]
    assert trend.state == "steady"


def test_a_slow_climb_is_noticed() -> None:
    trend = Trend()
    feed(trend, noisy(10, 8))
    assert feed(trend, [1000.0 * (1 + 0.003 * n) for n in range(30)])


def test_twins_by_their_canaries() -> None:
    twins = Twins()
    assert twins.canary("a", 1000.0, 0.005, 5) == []
    assert twins.canary("b", 1004.0, 0.005, 5) == []
    assert twins.canary("c", 1200.0, 0.005, 2) == []  # too few to tell
    ((name, words),) = twins.canary("c", 1200.0, 0.005, 3)
    assert name == "c"
    assert "slower" in words
    assert twins.canary("c", 1200.0, 0.005, 4) == []  # said once


def test_twins_by_what_both_have_timed() -> None:
    twins = Twins()
    flags = []
    for n in range(4):
        assert twins.candidate("a", str(n), summarise([1000.0] * 9)) == []
        flags += twins.candidate("b", str(n), summarise([1100.0 + n] * 9))
    assert [name for name, _ in flags] == ["b"]
    noisy_twins = Twins()
    for n in range(6):
        assert noisy_twins.candidate("a", str(n), summarise([1000.0 + (n % 2) * 50] * 9)) == []
        assert noisy_twins.candidate("b", str(n), summarise([1025.0] * 9)) == []


@pytest.mark.parametrize(("disturbed", "grade"), [(0.0, "A"), (0.1, "A"), (0.3, "B"), (0.6, "C")])
def test_busy_neighbours_lower_the_grade(disturbed: float, grade: str) -> None:
    fixed = {**without("governor"), "clock_min_khz": 1_500_000}
    trust = trust_of(Conditions(TIME, fixed, fixed), 0.01, disturbed=disturbed)
    assert trust.grade == grade
    assert ("another thread of the core" in trust.reason) == (grade != "A")
