"""Domains: the places of some axes, and what an index is over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod

import numpy as np
from tvm import ir, sym

from edgetune.affine.expressions import is_zero, mentions
from edgetune.affine.values import Values, integers_at
from edgetune.tvm_types import Expr, IterVar, Var

MOST_PLACES = 1 << 22
"""Places that are evaluated at once."""


@dataclass(frozen=True)
class Domain:
    """Axes with the ranges of their places; variables that are none of them are not known."""

    ranges: Mapping[Var, ir.Node]

    @classmethod
    def of(cls, axes: Iterable[tuple[Var, int]]) -> Domain:
        """The domain of axes that start at 0, with their extents."""
        return cls({axis: ir.Range(0, extent) for axis, extent in axes})

    @classmethod
    def of_block(cls, axes: Iterable[IterVar]) -> Domain:
        """The domain of the axes of a block."""
        return cls({axis.var: axis.dom for axis in axes})

    @cached_property
    def analyzer(self) -> sym.Analyzer:
        """An analyzer that knows all axes."""
        made = sym.Analyzer()
        for axis, places in self.ranges.items():
            made.bind(axis, places)
        return made

    def bounds(self, index: Expr) -> tuple[int, int]:
        """The least and the largest value of an index that are known."""
        bound = self.analyzer.const_int_bound(index)
        return int(bound.min_value), int(bound.max_value)

    def places(self, *values: Expr) -> Mapping[Var, Values] | None:
        """The places of the axes that some values mention, each along a dimension of its own; None where too many."""
        own = [axis for axis in self.ranges if any(mentions(value, axis) for value in values)]
        firsts = [int(self.ranges[axis].min) for axis in own]
        extents = [int(self.ranges[axis].extent) for axis in own]
        if prod(extents) > MOST_PLACES:
            return None
        pairs = zip(firsts, extents, strict=True)
        return _grid(own, [np.arange(first, first + extent) for first, extent in pairs])

    def some_places(self, *values: Expr) -> Mapping[Var, Values]:
        """As `places`; where these are too many, the first two and the last two of each axis alone."""
        found = self.places(*values)
        if found is not None:
            return found
        own = {axis: one for axis, one in self.ranges.items() if any(mentions(value, axis) for value in values)}
        ends = [np.arange(int(one.min), int(one.min) + int(one.extent)) for one in own.values()]
        ends = [np.unique(np.concatenate([one[:2], one[-2:]])) for one in ends]
        return _grid(list(own), ends)

    def is_inside(self, index: Expr, extent: int, conditions: Sequence[Expr] = ()) -> bool:
        """Whether an index lies in an axis of `extent` at all places at which the conditions hold.

        False where that is not known. A condition on an axis that the index does not mention is taken for one that
        holds.
        """
        least, most = self.bounds(index)
        if least >= 0 and most < extent:
            return True
        if self.analyzer.can_prove(index >= 0) and self.analyzer.can_prove(index < extent):
            return True
        places = self.places(index)
        return places is not None and is_inside_at(index, extent, places, conditions)


def starts_at_zero(axis: IterVar) -> bool:
    """Whether the first place of the axis of a block is 0."""
    return is_zero(axis.dom.min)


def is_inside_at(index: Expr, extent: int, places: Mapping[Var, Values], conditions: Sequence[Expr] = ()) -> bool:
    """Whether an index lies in an axis of `extent` at those of `places` at which the conditions hold.

    `places` has those of each axis, in one row. Conditions on axes that the index does not mention are taken for
    ones that hold.
    """
    own = [axis for axis in places if mentions(index, axis)]
    if prod(places[axis].size for axis in own) > MOST_PLACES:
        return False
    grid = _grid(own, [np.ravel(places[axis]) for axis in own])
    found = integers_at(index, grid)
    if found is None:
        return False
    held = [one for one in (integers_at(condition, grid) for condition in conditions) if one is not None]
    return not bool(np.any(reduce(np.logical_and, held, np.logical_or(found < 0, found >= extent))))


def _grid(axes: Sequence[Var], places: Sequence[Values]) -> Mapping[Var, Values]:
    """The places of axes, each along a dimension of its own."""
    return dict(zip(axes, np.meshgrid(*places, indexing="ij", sparse=True), strict=True))


def simplified(value: Expr) -> Expr:
    """`value` without what holds at all integers."""
    return sym.Analyzer().simplify(value)


def are_equal(one: Expr, other: Expr) -> bool:
    """Whether two values are equal at all integers, as far as that can be proved."""
    return bool(sym.Analyzer().can_prove_equal(one, other))
