"""Divided copies: a register tile that copies whole rows, with strips of these rows and otherwise the same.

Estimates of two schedules that differ by strips alone can be compared: both have the same form, the same order of loops
and the same tile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from edgetune.schedule.algorithms.catalogue import algorithm_named
from edgetune.schedule.algorithms.schedule_text import algorithm_and_trace, schedule_text, trace_text
from edgetune.schedule.default_schedule import Guess, finish
from edgetune.schedule.default_sizes import strip_sizes, tile_note
from edgetune.schedule.sketches.decisions import Chosen, Decisions
from edgetune.schedule.sketches.limits import UNLIMITED_SCRATCH
from edgetune.schedule.sketches.spaces import tile_of, tiled
from edgetune.schedule.sketches.tile import Tile
from edgetune.schedule.sketches.variants import Outer, Variant, variants_of
from edgetune.target.target import Target
from edgetune.tvm_types import PrimFunc

_PARTS = 2  # of a tile's loop: the outer and the inner one


def divided_copies(function: PrimFunc, text: str, target: Target) -> list[Guess]:
    """The schedules that divide the copied rows of the schedule `text` into strips, the longest strips first.

    Empty where it is no register tile, copies nothing, or has strips already.
    """
    name, trace = algorithm_and_trace(text)
    form = algorithm_named(function, name).function
    found = tile_of(form, target)
    if found is None or not found[1].copies:
        return []
    tile = found[1]
    variants = variants_of(tile)
    made = _structure(form, tile, [one for one in variants if not _divides(one)], trace, target)
    if made is None:
        return []
    whole, sizes = made
    in_strips = [one for one in variants if _divides(one) and replace(one, order=_undivided(one)) == whole]
    return [
        Guess(schedule_text(name, divided), f"register tile {tile_note(own, tile)}")
        for variant in in_strips
        for own in strip_sizes(tile, variant, sizes)
        if (divided := _trace_of(form, tile, variant, Chosen(own), target)) is not None
    ]


def _divides(variant: Variant) -> bool:
    return "strip" in variant.order


def _undivided(variant: Variant) -> tuple[Outer, ...]:
    return tuple(loop for loop in variant.order if loop != "strip")


def _structure(
    form: PrimFunc, tile: Tile, variants: list[Variant], trace: str, target: Target
) -> tuple[Variant, dict[str, int]] | None:
    """The variant and the sizes that make the very `trace`; None where none does."""
    for variant in variants:
        decide = _Repeated(trace)
        if _trace_of(form, tile, variant, decide, target) == trace:
            return variant, decide.sizes
    return None


def _trace_of(form: PrimFunc, tile: Tile, variant: Variant, decide: Decisions, target: Target) -> str | None:
    """The trace of a finished schedule; None where it is refused."""
    with suppress(RuntimeError):  # ScheduleError, or TVM's error for a case that it does not handle
        sch = tiled(form, tile, variant, decide, target)
        return trace_text(sch.trace) if finish(sch, target, UNLIMITED_SCRATCH) else None
    return None


class _Repeated(Decisions):
    """The decisions of a trace, in its order; `sizes` maps tile names to inner extents so far."""

    def __init__(self, trace: str) -> None:
        _, decisions = json.loads(trace)
        self._left: Iterator[object] = iter([value for _, value in decisions])
        self.sizes: dict[str, int] = {}

    def _decision(self, name: str, extent: int) -> list[int] | None:
        value = next(self._left, None)
        if not isinstance(value, list) or len(value) != _PARTS or value[0] * value[1] != extent:
            return [extent, 1]  # of another structure
        self.sizes[name] = value[1]
        return value
