"""Comparison of two frozen oracles: what each subject became, and what that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Literal

from benchmarks.oracle.c_text import normal_form
from benchmarks.oracle.facts import Facts

Verdict = Literal["equal", "names only", "same cost", "faster", "slower", "other accuracy", "failed", "mended"]

_SAME = 1e-3
"""Costs that differ by less are the same."""
_MORE_ERROR, _LEAST_ERROR = 2.0, 1e-6
"""An error that is so many times as large, and larger than this share, is another accuracy."""


@dataclass(frozen=True)
class Difference:
    """A subject before and after; `ratio` is its cost after over before, by `unit`, None where it is not known."""

    subject: str
    width: int
    verdict: Verdict
    ratio: float | None = None
    unit: Literal["instructions", "predicted cycles", ""] = ""
    detail: str = ""


def compare(before: Facts, after: Facts) -> Difference:
    """What became of a subject."""
    place = (before.subject, before.width)
    if before.failure or after.failure:
        if before.failure == after.failure:
            return Difference(*place, "equal", detail=f"fails: {after.failure}")
        return Difference(*place, "failed" if after.failure else "mended", detail=after.failure or before.failure)
    ratio, unit = _ratio(before, after)
    detail = f"{len(before.kernels)} kernels became {len(after.kernels)}"
    detail = detail if len(before.kernels) != len(after.kernels) else ""
    if _less_accurate(before, after):
        return Difference(*place, "other accuracy", ratio, unit, f"error {before.error:.2g} became {after.error:.2g}")
    texts = [[kernel.text for kernel in facts.kernels] for facts in (before, after)]
    functions = [[kernel.functions for kernel in facts.kernels] for facts in (before, after)]
    if functions[0] == functions[1] and texts[0] == texts[1]:
        return Difference(*place, "equal", ratio, unit)
    if functions[0] == functions[1] and [*map(normal_form, texts[0])] == [*map(normal_form, texts[1])]:
        return Difference(*place, "names only", ratio, unit)
    if ratio is None or abs(ratio - 1) < _SAME:
        return Difference(*place, "same cost", ratio, unit, detail)
    return Difference(*place, "faster" if ratio < 1 else "slower", ratio, unit, detail)


def _less_accurate(before: Facts, after: Facts) -> bool:
    if before.error is None or after.error is None:
        return False
    return after.error > max(_LEAST_ERROR, _MORE_ERROR * before.error)


def _ratio(before: Facts, after: Facts) -> tuple[float | None, Literal["instructions", "predicted cycles", ""]]:
    if before.instructions and after.instructions:
        return after.instructions / before.instructions, "instructions"
    cycles = [[kernel.cycles for kernel in facts.kernels] for facts in (before, after)]
    if any(one is None for side in cycles for one in side):
        return None, ""
    sums = [sum(one for one in side if one is not None) for side in cycles]
    return (sums[1] / sums[0], "predicted cycles") if sums[0] else (None, "")


def report(differences: Sequence[Difference], shown: int) -> Iterator[str]:
    """Lines: how many there are of each verdict, the geometric mean of the costs, and the `shown` worst by width."""
    for width in sorted({one.width for one in differences}):
        here = [one for one in differences if one.width == width]
        counts = Counter(one.verdict for one in here)
        said = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        yield f"{width} bits: {len(here)} subjects: {said}"
        ratios = [one.ratio for one in here if one.ratio]
        if ratios:
            mean = exp(sum(map(log, ratios)) / len(ratios))
            units = " or ".join(sorted({one.unit for one in here if one.unit}))
            yield f"  {units}: geometric mean {mean:.4f} of before, worst {max(ratios):.3f}, best {min(ratios):.3f}"
        told = [one for one in here if one.verdict in {"failed", "other accuracy", "slower"}]
        for one in sorted(told, key=lambda one: -(one.ratio or 0))[:shown]:
            cost = "" if one.ratio is None else f" {one.ratio:.3f} of the {one.unit}"
            yield f"  {one.verdict}: {one.subject}{cost}{f' ({one.detail})' if one.detail else ''}"
