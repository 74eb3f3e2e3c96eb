"""Noise that the gate met on each board, and whether the farm's limit is below it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

from edgetune.farm.farm_file import Farm
from edgetune.farm.gate import MOST_TURNS, quantile
from edgetune.farm.night_store import NightStore

_NIGHTS = 14
LEAST_NIGHTS = 3
"""Of so many nights, one bad one does not move the median, however many comparisons it has: no warning comes before."""
_SHARE = 3
"""The gate wants the interval of a ratio to be within this part of the limit."""


def noise_of_boards(farm: Farm, store: NightStore, least_nights: int = 1) -> dict[str, float]:
    """How far the gate knows a ratio on each board at best, by the last 14 nights: the median of their medians.

    Boards whose programs were compared in fewer nights than `least_nights` are left out.

    It is half of the width of the logarithm's interval, as it would be after the most turns: the gate ends as early as
    its limit lets it, so that the widths themselves would tell of the limit of those nights. Counts have no noise.
    """
    widths: dict[str, dict[int, list[float]]] = {}
    for night in store.nights(farm.name)[-_NIGHTS:]:
        for row in store.cells(night):
            facts = row.verdict.facts if row.verdict else {}
            if facts.get("unit") == "ns" and facts.get("turns", 0) > 1 and "low" in facts:
                width = _at_best(math.log(facts["high"] / facts["low"]) / 2, facts["turns"])
                widths.setdefault(row.cell.board, {}).setdefault(night.id, []).append(width)
    return {board: median(map(median, own.values())) for board, own in widths.items() if len(own) >= least_nights}


def _at_best(half: float, turns: int) -> float:
    """Half of the width of an interval after the most turns, where it was `half` after so many."""
    return half * math.sqrt(turns / MOST_TURNS) * quantile(MOST_TURNS - 1) / quantile(turns - 1)


def too_noisy(farm: Farm, store: NightStore, boards: Sequence[str]) -> Iterator[str]:
    """Say for each of these boards whose noise is too large for the farm's limit which limit suits it.

    Nothing is said of a board before `LEAST_NIGHTS` nights with comparisons.
    """
    limit, seen = farm.content.limit, noise_of_boards(farm, store, LEAST_NIGHTS)
    for board in dict.fromkeys(boards):
        noise = seen.get(board, 0.0)
        if noise > limit / _SHARE:
            least = math.ceil(1000 * _SHARE * noise - 1e-6) / 10
            yield (
                f"limit {100 * limit:g} % is below {_SHARE} times the noise of board {board} ({100 * noise:.1f} %), so "
                f"that most changes cannot be told: write at least {least:g} %"
            )
