"""Finds the stride f of a transposed convolution, and the range of elements that its taps may read.

Of `(t + k) % 3 == 0 and t + k < 90 ? x[(t + k) / 3] : 0`, t is an axis of results and k one of taps: they meet an
element at every f-th place. Which elements of x the phases of t meet, and where x ends, is found by evaluating the
conditions at all places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import tirx

from edgetune.affine.domain import simplified
from edgetune.affine.expressions import is_zero, mentions
from edgetune.affine.values import integers_at
from edgetune.schedule.sketches.block_analysis import extent_of
from edgetune.tvm_types import BufferLoad, Expr, IterVar

_MOST_PLACES = 1 << 22
"""Places of x and taps, at each of which conditions are evaluated."""


@dataclass(frozen=True)
class TransposedWindow:
    """An axis of results, `at`, and one of taps, `tap`: they read place (at + tap + `offset`) / `factor` of x.

    With results numbered from `shift` on, result factor * q + p and tap factor * m + factor - 1 - p meet at q + m.
    Place j of what windows read is `x[j + start]`, and inside of x from `first` to `end`.
    """

    at: IterVar
    tap: IterVar
    factor: int
    offset: int
    place: int
    backwards: bool
    start: int = 0
    first: int = 0
    end: int = 0

    @property
    def shift(self) -> int:
        """Results before the first one, so that its phase is a remainder."""
        return (self.offset - 1) % self.factor

    @property
    def origin(self) -> int:
        """The quotient at which the first tap of the first result is."""
        return (self.factor - 1 + self.offset - self.shift) // self.factor

    @property
    def results(self) -> int:
        """Results of each phase."""
        return (extent_of(self.at) - 1 + self.shift) // self.factor + 1

    @property
    def taps(self) -> int:
        """Taps of each phase."""
        return -(-extent_of(self.tap) // self.factor)

    @property
    def read(self) -> int:
        """Places of x that windows read, and those around it."""
        return self.results + self.taps - 1


def window_of(
    at: IterVar, tap: IterVar, place: int, index: Expr, conditions: Sequence[Expr]
) -> TransposedWindow | None:
    """The window of an index of x. Its factor is f of the condition `.. % f == 0` on both axes, or 1 without one.

    None if there are two such conditions, or the index is no sum of both axes.
    """
    found = [
        (one.a.a, int(one.a.b.value))
        for one in conditions
        if isinstance(one, tirx.EQ) and is_zero(one.b) and isinstance(one.a, tirx.FloorMod)
        if isinstance(one.a.b, tirx.IntImm) and mentions(one.a, at.var) and mentions(one.a, tap.var)
    ]
    if len(found) > 1:
        return None
    where, factor = found[0] if found else (index, 1)
    for step, offset in ((1, where - at.var - tap.var), (-1, where - at.var + tap.var)):
        first = simplified(offset)
        if isinstance(first, tirx.IntImm):
            last = 0 if step > 0 else extent_of(tap) - 1
            return TransposedWindow(at, tap, factor, int(first.value) - last, place, step < 0)
    return None


def with_ends(window: TransposedWindow, load: BufferLoad, conditions: Sequence[Expr]) -> TransposedWindow | None:
    """The window with the part of what it reads that is inside of x; None where that is no single part."""
    index = load.indices[window.place]
    own = [one for one in conditions if mentions(one, window.at.var) or mentions(one, window.tap.var)]
    places, taps = np.arange(window.read), np.arange(extent_of(window.tap))[:, None]
    if places.size * taps.size > _MOST_PLACES:
        return None
    at = window.factor * (places + window.origin) - window.offset - taps
    values = {window.at.var: at, window.tap.var: taps[::-1] if window.backwards else taps}
    where, *numbers = (integers_at(one, values) for one in (index, *own))
    held = [one for one in numbers if one is not None]
    if where is None or len(held) < len(own):
        return None
    exists = (at >= 0) & (at < extent_of(window.at))
    holds = exists.copy()
    for one in held:
        holds &= one
    some, steps = holds.any(axis=0), np.unique((where - places)[holds])
    alike = (holds | ~exists).all(axis=0)
    if not np.all(alike | ~some) or len(steps) != 1:
        return None
    start = int(steps[0])
    extent = int(load.source.ty.shape[window.place])
    inside = np.flatnonzero(some & (places + start >= 0) & (places + start < extent))
    if not len(inside) or inside[-1] - inside[0] + 1 != len(inside):
        return None
    first, end = int(inside[0]), int(inside[-1]) + 1
    return replace(window, start=start, first=first, end=end)


def is_of_one(condition: Expr, windows: Sequence[TransposedWindow], axes: Sequence[IterVar]) -> bool:
    """Whether a condition depends on the axes of one window alone."""
    used = [axis for axis in axes if mentions(condition, axis.var)]
    return any(all(one.same_as(window.at) or one.same_as(window.tap) for one in used) for window in windows)
