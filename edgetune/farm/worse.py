"""What is exact and worse than in the accepted package: memory, and how far results are from the reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ROUNDING = 1e-6
"""Errors below this share of the largest result are the rounding of single numbers."""


@dataclass(frozen=True)
class ExactFact:
    """A fact of a package that is exact: its key among them, its name, and the share by which it may grow."""

    key: str
    name: str
    limit: float
    least: float = 0.0

    def value(self, exact: Mapping[str, Any]) -> float | None:
        """Its value in the facts of a package, infinite for results that are not finite; None where it is not known."""
        found = exact.get(self.key, math.nan)
        if found is None and self is ERROR:
            return math.inf
        return None if found is None or math.isnan(found) else float(found)

    def has_grown(self, before: float, now: float) -> bool:
        """Whether `now` is worse than `before`."""
        return now > max(before * (1 + self.limit), self.least)


ERROR = ExactFact("max_error", "largest error of the results", 1.0, ROUNDING)
"""Another order of the same sums moves the error by less than twice."""
FACTS = (ExactFact("arena_bytes", "arena", 0.0), ExactFact("flash_bytes", "flash", 0.01), ERROR)


def worse(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The facts that are worse than in the accepted package, in words that begin with the fact's name."""
    found = []
    for fact in FACTS:
        before, now = fact.value(old), fact.value(new)
        if before is None or now is None or not fact.has_grown(before, now):
            continue
        shown = (f"{before:.2g}", "not finite" if math.isinf(now) else f"{now:.2g}")
        was, is_now = shown if fact is ERROR else (f"{before:.0f}", f"{now:.0f} bytes")
        found.append(f"{fact.name} {is_now} instead of {was}")
    return found
