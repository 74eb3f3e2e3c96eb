"""The index arithmetic of an overlapped tail: places of an axis stretched to whole blocks, and their elements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import tirx

from edgetune.tvm_types import Expr


@dataclass(frozen=True)
class Overlap:
    """`groups` of `width` elements each, in blocks of `block` elements; a group has at least one block.

    A place on the stretched axis is (group, block, element). The last block of a group ends where the group ends, so it
    starts inside the block before it.
    """

    groups: int
    width: int
    block: int

    @property
    def stretched_width(self) -> int:
        """Places per group: its elements, rounded up to whole blocks."""
        return -(-self.width // self.block) * self.block

    @property
    def extent(self) -> int:
        """Places of all groups together."""
        return self.groups * self.stretched_width

    def element_of(self, place: Expr) -> Expr:
        """The element at a place of the stretched axis, as an expression; inside a block, adjacent stays adjacent."""
        if self.groups == 1:
            return self._within(place)
        return self.group_of(place) * self._constant(self.width, place) + self._within(
            tirx.floormod(place, self._constant(self.stretched_width, place))
        )

    def group_of(self, place: Expr) -> Expr:
        """The group of a place, as an expression."""
        return tirx.floordiv(place, self._constant(self.stretched_width, place))

    def is_first(self, place: Expr) -> Expr:
        """Whether no block before has the element at a place of the one group, as an expression."""
        start = tirx.floordiv(place, self._constant(self.block, place)) * self._constant(self.block, place)
        last = self._constant(self.width - self.block, place)
        return tirx.floormod(place, self._constant(self.block, place)) >= start - tirx.min(start, last)

    def first_place_of(self, element: Expr) -> Expr:
        """The first place of an element of the one group, as an expression."""
        repeated = self._constant(self.stretched_width - self.width, element)
        whole = self._constant(self.stretched_width - self.block, element)
        return element + tirx.Select(element >= whole, repeated, self._constant(0, element))

    def elements(self) -> np.ndarray:
        """The elements at all places, in order."""
        place = np.arange(self.extent)
        group, within = np.divmod(place, self.stretched_width)
        first = np.minimum(within // self.block * self.block, self.width - self.block)
        elements: np.ndarray = group * self.width + first + within % self.block
        return elements

    def _within(self, place: Expr) -> Expr:
        block = self._constant(self.block, place)
        last = self._constant(self.width - self.block, place)
        return tirx.min(tirx.floordiv(place, block) * block, last) + tirx.floormod(place, block)

    def _constant(self, value: int, like: Expr) -> Expr:
        return tirx.IntImm(str(like.ty.dtype), value)
