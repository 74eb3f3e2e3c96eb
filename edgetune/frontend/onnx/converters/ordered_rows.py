"""Rows in order of their values: what is ahead in a row, and a heap of its elements.

An element is ahead of another one if it is larger, or smaller where the smallest are wanted; of equal elements the one
with the lower index is. NaN counts as larger than infinity, as in numpy, and zeros of both signs are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx

from edgetune.graph.written_loops import Variable, constant, integer, load, sequence, store
from edgetune.tvm_types import Expr, Stmt, TvmBuffer

PACKED_BITS = 32
DIGITS = 256
_DIGIT_BITS = 8
_LARGEST = 2**31 - 1
_LOW = 2**32 - 1  # the bits of an entry that hold its index
CHILDREN = 4
_PAIR = (("rises", "bool"), ("below", "int32"), ("entry", "int64"))


@dataclass(frozen=True)
class Row:
    """A row of a tensor, and what is ahead in it: an element is `value` at its index."""

    value: Callable[[Expr], Expr]
    dtype: np.dtype[Any]
    largest: bool

    def is_ahead(self, a: Expr, b: Expr) -> Expr:
        """Whether the value `a` is ahead of `b`; of two equal ones neither is."""
        ahead = a > b if self.largest else a < b
        if self.dtype.kind != "f":
            return ahead
        greater, other = (a, b) if self.largest else (b, a)
        return tirx.any(ahead, tirx.all(tirx.isnan(greater), tirx.Not(tirx.isnan(other))))

    def may_be_ahead(self, a: Expr, b: Expr) -> Expr:
        """Not 0 where `a` is ahead of `b`, and seldom where it is not: without branches, so that it has lanes."""
        ahead = tirx.Cast("int32", a > b if self.largest else a < b)
        if self.dtype.kind != "f":
            return ahead
        return tirx.bitwise_or(ahead, tirx.Cast("int32", tirx.isnan(a if self.largest else b)))


class Packed(Row):
    """Entries are numbers: above 32 bits the rank of the value, below what the index lacks to the largest.

    So an entry is ahead of another one if it is larger.
    """

    def entry(self, index: Expr) -> Expr:
        """The entry of an element."""
        rank = tirx.Var("rank", "int64")
        low = constant(_LOW, "int64") - tirx.Cast("int64", index)
        high = tirx.Cast("int64", self._rank(self.value(index)))
        return tirx.Let(rank, high, rank * constant(_LOW + 1, "int64") + low)

    def index(self, entry: Expr) -> Expr:
        """The index of the element of an entry."""
        return tirx.bitwise_and(tirx.bitwise_not(entry), constant(_LOW, "int64"))

    def is_behind(self, a: Expr, b: Expr) -> Expr:
        """Whether the entry `a` is behind `b`."""
        return a < b

    @property
    def digits(self) -> int:
        """How many digits of ranks differ."""
        bits = self.dtype.itemsize * 8 if self.dtype.kind in "iu" else PACKED_BITS
        return bits // _DIGIT_BITS

    def digit(self, entry: Expr, number: int) -> Expr:
        """A digit of the rank of an entry, number 0 the last, as one of an unsigned number; 0 is furthest ahead."""
        shifted = tirx.shift_right(entry, constant(PACKED_BITS + number * _DIGIT_BITS, "int64"))
        found = tirx.Cast("int32", tirx.bitwise_and(shifted, constant(DIGITS - 1, "int64")))
        has_sign = (number + 1) * _DIGIT_BITS == PACKED_BITS
        return tirx.bitwise_xor(found, integer(DIGITS // 2 - 1 if has_sign else DIGITS - 1))

    def _rank(self, value: Expr) -> Expr:
        """An int32 that is larger where a value is further ahead."""
        if self.dtype.kind != "f":  # from 0 on where 32 bits hold more, so that few digits differ
            first = np.iinfo(self.dtype).min + (2**31 if self.dtype.itemsize * 8 == PACKED_BITS else 0)
            rank = tirx.Cast("int32", tirx.Cast("int64", value) - constant(first, "int64"))
        else:
            single, bits = tirx.Var("single", "float32"), tirx.Var("bits", "int32")
            turned = tirx.Select(bits < integer(0), tirx.bitwise_xor(bits, integer(_LARGEST)), bits)
            rank = tirx.Select(single.equal(constant(0.0, "float32")), integer(0), turned)
            rank = tirx.Select(tirx.isnan(single), integer(_LARGEST), rank)
            of_bits = tirx.Let(bits, tirx.reinterpret("int32", single), rank)
            rank = tirx.Let(single, tirx.Cast("float32", value), of_bits)
        return rank if self.largest else tirx.bitwise_not(rank)


class Indirect(Row):
    """Entries of a heap are indices; values of 64 bits are compared where they lie."""

    def entry(self, index: Expr) -> Expr:
        """The entry of an element."""
        return tirx.Cast("int64", index)

    def index(self, entry: Expr) -> Expr:
        """The index of the element of an entry."""
        return entry

    def is_behind(self, a: Expr, b: Expr) -> Expr:
        """Whether the entry `a` is behind `b`."""
        value, other = tirx.Var("value", str(self.dtype)), tirx.Var("other", str(self.dtype))
        equal = value.equal(other)  # and not that neither is ahead: TVM takes what is not above for below
        if self.dtype.kind == "f":
            equal = tirx.any(equal, tirx.all(tirx.isnan(value), tirx.isnan(other)))
        behind = tirx.any(self.is_ahead(other, value), tirx.all(equal, a > b))
        return tirx.Let(value, self._at(a), tirx.Let(other, self._at(b), behind))

    def _at(self, entry: Expr) -> Expr:
        return self.value(tirx.Cast("int32", entry))


@dataclass(frozen=True)
class Entries:
    """Memory for entries, and how a place in it is indexed."""

    buffer: TvmBuffer
    at: Callable[[Expr], Sequence[Expr]] = lambda place: [place]

    def entry(self, place: Expr) -> Expr:
        """The entry at a place."""
        return load(self.buffer, self.at(place))

    def put(self, place: Expr, entry: Expr) -> Stmt:
        """Write an entry to a place."""
        return store(self.buffer, self.at(place), entry)


class Heap:
    """Entries of a row: that at place p, from 0 on, is ahead of none of those from 4 p + 1 to 4 p + 4.

    So the root is the last of them. With `first_at_root`, it is the first: no entry is behind those below it.

    With four below each instead of two there are half as many levels, each with two comparisons more, which do not wait
    for one another (D. B. Johnson, Priority queues with update and finding minimum spanning trees, 1975).
    """

    def __init__(self, entries: Entries, row: Packed | Indirect, *, first_at_root: bool = False) -> None:
        self._row, self._first_at_root = row, first_at_root
        self.entry, self.put = entries.entry, entries.put
        self._place, self._held = Variable("place"), Variable("held", "int64")
        self.variables = [self._place, self._held]

    def hold(self, entry: Expr) -> Stmt:
        """Take an entry in hand, so that its place is free."""
        return self._held.set(entry)

    def sink(self, free: Expr, size: Expr) -> Stmt:
        """Put the entry in hand into the `free` place of the first `size`, and let it sink: others rise over it."""
        place = self._place.value
        first, last = tirx.Var("first", "int32"), size - integer(1)
        steps = [tirx.Bind(first, place * integer(CHILDREN) + integer(1))]
        left = [(first, tirx.Var("entry", "int64"))]
        left += [(tirx.Var("below", "int32"), tirx.Var("entry", "int64")) for _ in range(1, CHILDREN)]
        for number, (below, entry) in enumerate(left):
            if number:
                steps.append(tirx.Bind(below, tirx.min(first + integer(number), last)))
            steps.append(tirx.Bind(entry, self.entry(below)))
        while len(left) > 1:  # the one that rises, by pairs
            (a, of_a), (b, of_b), *left = left
            rises, below, entry = (tirx.Var(name, of) for name, of in _PAIR)
            steps += [tirx.Bind(rises, self._rises(of_b, of_a)), tirx.Bind(below, tirx.Select(rises, b, a))]
            steps.append(tirx.Bind(entry, tirx.Select(rises, of_b, of_a)))
            left.append((below, entry))
        ((below, entry),) = left
        swap = (self.put(place, entry), self.put(below, self._held.value), self._place.set(below))
        sinks = tirx.IfThenElse(self._rises(entry, self._held.value), sequence(*swap), self._place.set(size))
        whole = tirx.While(place * integer(CHILDREN) + integer(1) < size, sequence(*steps, sinks))
        return sequence(self._place.set(free), self.put(free, self._held.value), whole)

    def _rises(self, a: Expr, b: Expr) -> Expr:
        """Whether the entry `a` belongs nearer to the root than `b`."""
        return self._row.is_behind(b, a) if self._first_at_root else self._row.is_behind(a, b)
