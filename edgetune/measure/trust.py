"""Grades how far a time can be trusted, from A to D, with the reason, based on the board's readings and the samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgetune.boards.environment import Reading
from edgetune.boards.options import GRADES, Grade
from edgetune.measure.trend import State

_NARROW = (("A", 0.02), ("B", 0.05), ("C", 0.10))
_SELDOM, _OFTEN = 0.1, 0.5  # share of disturbed samples: up to 0.1 the median holds, above 0.5 it is one of them
_MOVED = 0.02  # a relative change of the clock above this lowers the grade


@dataclass(frozen=True)
class Trust:
    """A grade, and in one phrase why it is not better (for A: why it is A)."""

    grade: Grade
    reason: str

    def below(self, least: Grade) -> bool:
        """Whether the grade is worse than `least`."""
        return GRADES.index(self.grade) > GRADES.index(least)


@dataclass(frozen=True)
class Conditions:
    """The inputs of a grade: the board's facts, readings before and after, its canary, its temperature limit in C."""

    facts: Mapping[str, Reading]
    before: Mapping[str, Reading]
    after: Mapping[str, Reading]
    canary: State = "steady"
    ceiling_c: float = 80.0


def trust_of(
    conditions: Conditions, relative_width: float, *, brief: bool = False, refused: str = "", disturbed: float = 0.0
) -> Trust:
    """Grade samples whose confidence interval is `relative_width` of the median.

    `brief`: timed only until the candidate is known to be too slow. `refused`: why the samples are not kept.
    `disturbed`: the share of samples during which another thread of the core was busy.
    """
    findings = [
        *_emulated(conditions.facts),
        *([("D", refused)] if refused else []),
        *([("D", "the canary drifted")] if conditions.canary == "drifted" else []),
        *([("C", "timed briefly, because it is far slower than the best")] if brief else []),
        *_governor(conditions),
        *_clock(conditions),
        *_temperature(conditions),
        *_width(relative_width),
        *_neighbours(disturbed),
        *([("B", "the canary has not run often enough to detect drift")] if conditions.canary == "unknown" else []),
    ]
    for grade in reversed(GRADES):
        for found, reason in findings:
            if found == grade:
                return Trust(grade, reason)
    return Trust("A", f"fixed clock, cool, steady canary, interval of {100 * relative_width:.1f} %")


def _emulated(facts: Mapping[str, Reading]) -> list[tuple[str, str]]:
    if facts.get("clock") == "instructions":
        return [("D", "instructions counted by an emulator, which say nothing about the time on a real core")]
    return [("D", "emulated, so its times say nothing about a real core")] if facts.get("emulated") else []


def _governor(conditions: Conditions) -> list[tuple[str, str]]:
    if all(_fixed(reading) for reading in (conditions.before, conditions.after)):
        return []
    governors = [reading.get("governor") for reading in (conditions.before, conditions.after)]
    if None in governors:
        return [("B", "the board does not report its governor")]
    other = [governor for governor in governors if governor != "performance"]
    return [("C", f"the governor is {other[0]}, not performance")] if other else []


def _fixed(reading: Mapping[str, Reading]) -> bool:
    low, high = reading.get("clock_min_khz"), reading.get("clock_max_khz")
    return low is not None and low == high


def _clock(conditions: Conditions) -> list[tuple[str, str]]:
    before, after = (_number(reading, "clock_khz") for reading in (conditions.before, conditions.after))
    if before is None or after is None or abs(after - before) <= _MOVED * max(before, after):
        return []
    return [("C", f"the clock went from {before / 1000:.0f} to {after / 1000:.0f} MHz")]


def _temperature(conditions: Conditions) -> list[tuple[str, str]]:
    hottest = [_number(reading, "temperature_c") for reading in (conditions.before, conditions.after)]
    told = [value for value in hottest if value is not None]
    if not told:
        return [("B", "the board does not report its temperature")]
    if max(told) < conditions.ceiling_c:
        return []
    return [("C", f"at {max(told):.0f} C it was not below its ceiling of {conditions.ceiling_c:.0f} C")]


def _width(relative_width: float) -> list[tuple[str, str]]:
    grade = next((grade for grade, limit in _NARROW if relative_width <= limit), "D")
    return [(grade, f"the confidence interval is {100 * relative_width:.1f} % of the median")] if grade != "A" else []


def _neighbours(disturbed: float) -> list[tuple[str, str]]:
    busy = f"another thread of the core was busy during {100 * disturbed:.0f} % of the samples"
    return [("C" if disturbed > _OFTEN else "B", busy)] if disturbed > _SELDOM else []


def _number(reading: Mapping[str, Reading], key: str) -> float | None:
    value = reading.get(key)
    return float(value) if isinstance(value, int | float) else None
