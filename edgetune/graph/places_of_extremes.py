"""Reductions to the place of the largest or least element: pairs of a place and a value, of which the better is kept.

Such a reduction begins at place 0 with an infinite value, so it gives a place of its axis whatever the elements are.
A value that is NaN is never better: it is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from tvm import te, tirx

from edgetune.tvm_types import Expr, Tensor, Var

Pair = tuple[Expr, Expr]


@dataclass(frozen=True)
class PlaceOfExtreme:
    """The place of the `largest` element, or of the least; of equal ones the `last`, or the first."""

    largest: bool
    last: bool

    @property
    def name(self) -> str:
        """A name of its own for each."""
        return f"{'last' if self.last else 'first'}_{'largest' if self.largest else 'least'}"

    def joined(self, one: Pair, other: Pair) -> Pair:
        """The better one of two pairs."""
        better = (other[1] > one[1]) if self.largest else (other[1] < one[1])
        beside = (other[0] > one[0]) if self.last else (other[0] < one[0])
        taken = tirx.any(better, tirx.all(other[1].equal(one[1]), beside))
        return tirx.Select(taken, other[0], one[0]), tirx.Select(taken, other[1], one[1])

    def start(self, place: str, value: str) -> Pair:
        """The pair that a reduction begins with, of elements of two types."""
        return tirx.const(0, place), tirx.const(-inf if self.largest else inf, value)


PLACES_OF_EXTREMES = tuple(PlaceOfExtreme(largest, last) for largest in (True, False) for last in (False, True))


def place_of_extreme(x: Tensor, axis: int, keep: bool, largest: bool, last: bool) -> Tensor:
    """The place along `axis` of an extreme of floats, as int64; 0 where the first element is NaN.

    `keep`: the axis stays, with extent 1.
    """
    inner = te.reduce_axis((0, x.shape[axis]), "place")
    rest = [extent for a, extent in enumerate(x.shape) if a != axis]
    kind = PlaceOfExtreme(largest, last)

    def joined(one: Pair, other: Pair) -> Pair:  # TVM counts the parameters, and would count a method's own
        return kind.joined(one, other)

    def start(place: str, value: str) -> Pair:
        return kind.start(place, value)

    reducer: Callable[..., Pair] = te.comm_reducer(joined, start, name=kind.name)

    def at(index: tuple[Var, ...], place: Expr) -> Expr:
        return x(*index[:axis], place, *index[axis:])

    place, _ = te.compute(
        rest, lambda *i: reducer((tirx.Cast("int64", inner.var), at(i, inner)), axis=inner), name="extreme"
    )
    shape = [1 if a == axis else extent for a, extent in enumerate(x.shape)] if keep else rest

    def element(*i: Var) -> Expr:
        own = (*i[:axis], *i[axis + 1 :]) if keep else i
        return tirx.Select(tirx.isnan(at(own, 0)), tirx.const(0, "int64"), place(*own))

    return te.compute(shape, element, name="place")
