"""Estimated instructions beside counted ones: how far a choice by estimates can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, log
from statistics import median, pstdev

from benchmarks.oracle.facts import Facts


def estimates(width: int, facts: Sequence[Facts], shown: int) -> Iterator[str]:
    """Lines that say how the estimates of the kernels of each subject, added up, compare with its count.

    The spread is the standard deviation of the logarithms of these ratios.
    """
    ratios = {one.subject: ratio for one in facts if (ratio := _ratio(one)) is not None}
    if not ratios:
        return
    logarithms = sorted(map(log, ratios.values()))
    low, high = (exp(logarithms[round(share * (len(logarithms) - 1))]) for share in (0.05, 0.95))
    yield (
        f"{width} bits: {len(ratios)} subjects, estimate / count: median {median(ratios.values()):.2f}, "
        f"nine of ten between {low:.2f} and {high:.2f}, spread {pstdev(logarithms):.2f}"
    )
    for name in sorted(ratios, key=lambda name: -abs(log(ratios[name])))[:shown]:
        yield f"  {name} {ratios[name]:.2f}"


def _ratio(facts: Facts) -> float | None:
    known = [kernel.estimate for kernel in facts.kernels]
    if not facts.instructions or not known or None in known:
        return None
    return sum(one for one in known if one is not None) / facts.instructions
