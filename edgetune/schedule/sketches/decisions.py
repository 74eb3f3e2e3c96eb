"""Tile size decisions of a sketch: sampled for a search, or chosen in advance.

Both ways leave the same sampling instructions in the trace, so a chosen schedule can be a parent in a search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edgetune.schedule.sketches.block_analysis import loop_extent
from edgetune.tvm_types import LoopRV, Schedule


class Decisions:
    """Sampled decisions."""

    def tile(self, sch: Schedule, name: str, loop: LoopRV, limit: int) -> tuple[LoopRV, LoopRV]:
        """Split `loop` into two loops (outer, inner); the inner extent divides the loop's and is at most `limit`.

        `name` identifies the tile size for decisions made in advance.
        """
        extent = loop_extent(sch, loop)
        factors = sch.sample_perfect_tile(loop, 2, max(1, min(limit, extent)), self._decision(name, extent))
        outer, inner = sch.split(loop, factors)
        return outer, inner

    def suggest(self, sizes: Callable[[], Mapping[str, int]]) -> None:
        """Take sizes by tile name from a cost formula; a search samples instead."""

    def _decision(self, name: str, extent: int) -> list[int] | None:
        del name, extent
        return None


class Chosen(Decisions):
    """Decisions made in advance: `sizes` maps tile names to inner extents; a missing name is not tiled (1)."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._given = dict(sizes)
        self._suggested: dict[str, int] = {}

    def suggest(self, sizes: Callable[[], Mapping[str, int]]) -> None:
        """Choose the suggested sizes for names that have none, or that an earlier suggestion chose."""
        self._suggested |= sizes()

    def _decision(self, name: str, extent: int) -> list[int] | None:
        inner = self._given.get(name, self._suggested.get(name, 1))
        if extent % inner:
            inner = 1
        return [extent // inner, inner]
