"""TopK by a heap of the best elements so far, in the memory of the indices: n log k comparisons, no other memory.

The root of the heap is the last of them in order. An element ahead of the root takes its place and sinks, and most
elements take one comparison (D. E. Knuth, The Art of Computer Programming, volume 3, 1998, section 5.2.3). At the end
the heap is sorted in place: its root goes behind all others.

Where many of a row are wanted, and elements have 32 bits at most, the whole row is distributed by the digits of its
elements, the last digit first, which compares none (section 5.2.5 there). That takes memory for two rows, or for one
where the indices are a whole row.

An element is ahead of another one if it is larger, or smaller where the smallest are wanted; of equal elements the one
with the lower index is. NaN counts as larger than infinity, as in numpy, and zeros of both signs are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, log2, prod
from typing import Any

import numpy as np
from tvm import relax, tirx
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.converters.scans import constant_value
from edgetune.graph.rewrite import constant_of
from edgetune.graph.tvm_types import Expr, PrimFunc, Stmt, TvmBuffer
from edgetune.graph.written_loops import (
    Variable,
    call_written,
    constant,
    integer,
    load,
    loop,
    memory,
    nest,
    sequence,
    store,
    tensor,
    using,
    written_function,
)

_LARGEST = 2**31 - 1
_LOW = 2**32 - 1  # the bits of an entry that hold its index
_PACKED_BITS = 32
_DIGIT_BITS = 8
_DIGITS = 1 << _DIGIT_BITS
_SEARCHED, _MANY = 32, 128  # elements that are searched at a time, and from how many on
_CHILDREN = 4
_PAIR = (("behind", "bool"), ("below", "int32"), ("entry", "int64"))
_MOVED = (("taken", "int64"), ("digit", "int32"), ("free", "int32"))


@dataclass(frozen=True)
class _Row:
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


class _Packed(_Row):
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
        bits = self.dtype.itemsize * 8 if self.dtype.kind in "iu" else _PACKED_BITS
        return bits // _DIGIT_BITS

    def digit(self, entry: Expr, number: int) -> Expr:
        """A digit of the rank of an entry, number 0 the last, as one of an unsigned number; 0 is furthest ahead."""
        shifted = tirx.shift_right(entry, constant(_PACKED_BITS + number * _DIGIT_BITS, "int64"))
        found = tirx.Cast("int32", tirx.bitwise_and(shifted, constant(_DIGITS - 1, "int64")))
        has_sign = (number + 1) * _DIGIT_BITS == _PACKED_BITS
        return tirx.bitwise_xor(found, integer(_DIGITS // 2 - 1 if has_sign else _DIGITS - 1))

    def _rank(self, value: Expr) -> Expr:
        """An int32 that is larger where a value is further ahead."""
        if self.dtype.kind != "f":  # from 0 on where 32 bits hold more, so that few digits differ
            first = np.iinfo(self.dtype).min + (2**31 if self.dtype.itemsize * 8 == _PACKED_BITS else 0)
            rank = tirx.Cast("int32", tirx.Cast("int64", value) - constant(first, "int64"))
        else:
            single, bits = tirx.Var("single", "float32"), tirx.Var("bits", "int32")
            turned = tirx.Select(bits < integer(0), tirx.bitwise_xor(bits, integer(_LARGEST)), bits)
            rank = tirx.Select(single.equal(constant(0.0, "float32")), integer(0), turned)
            rank = tirx.Select(tirx.isnan(single), integer(_LARGEST), rank)
            of_bits = tirx.Let(bits, tirx.reinterpret("int32", single), rank)
            rank = tirx.Let(single, tirx.Cast("float32", value), of_bits)
        return rank if self.largest else tirx.bitwise_not(rank)


class _Indirect(_Row):
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
class _Entries:
    """Memory for entries, and how a place in it is indexed."""

    buffer: TvmBuffer
    at: Callable[[Expr], Sequence[Expr]] = lambda place: [place]

    def entry(self, place: Expr) -> Expr:
        """The entry at a place."""
        return load(self.buffer, self.at(place))

    def put(self, place: Expr, entry: Expr) -> Stmt:
        """Write an entry to a place."""
        return store(self.buffer, self.at(place), entry)


class _Heap:
    """Entries of a row: that at place p, from 0 on, is ahead of none of those from 4 p + 1 to 4 p + 4.

    With four below each instead of two there are half as many levels, each with two comparisons more, which do not wait
    for one another (D. B. Johnson, Priority queues with update and finding minimum spanning trees, 1975).
    """

    def __init__(self, entries: _Entries, row: _Packed | _Indirect) -> None:
        self._row, self.entry, self.put = row, entries.entry, entries.put
        self._place, self._held = Variable("place"), Variable("held", "int64")
        self.variables = [self._place, self._held]

    def hold(self, entry: Expr) -> Stmt:
        """Take an entry in hand, so that its place is free."""
        return self._held.set(entry)

    def sink(self, free: Expr, size: Expr) -> Stmt:
        """Put the entry in hand into the `free` place of the first `size`, and let it sink: entries behind it rise."""
        place, row = self._place.value, self._row
        first, last = tirx.Var("first", "int32"), size - integer(1)
        steps = [tirx.Bind(first, place * integer(_CHILDREN) + integer(1))]
        left = [(first, tirx.Var("entry", "int64"))]
        left += [(tirx.Var("below", "int32"), tirx.Var("entry", "int64")) for _ in range(1, _CHILDREN)]
        for number, (below, entry) in enumerate(left):
            if number:
                steps.append(tirx.Bind(below, tirx.min(first + integer(number), last)))
            steps.append(tirx.Bind(entry, self.entry(below)))
        while len(left) > 1:  # the last of all in order, by pairs
            (a, of_a), (b, of_b), *left = left
            behind, below, entry = (tirx.Var(name, of) for name, of in _PAIR)
            steps += [tirx.Bind(behind, row.is_behind(of_b, of_a)), tirx.Bind(below, tirx.Select(behind, b, a))]
            steps.append(tirx.Bind(entry, tirx.Select(behind, of_b, of_a)))
            left.append((below, entry))
        ((below, entry),) = left
        swap = (self.put(place, entry), self.put(below, self._held.value), self._place.set(below))
        sinks = tirx.IfThenElse(row.is_behind(entry, self._held.value), sequence(*swap), self._place.set(size))
        whole = tirx.While(place * integer(_CHILDREN) + integer(1) < size, sequence(*steps, sinks))
        return sequence(self._place.set(free), self.put(free, self._held.value), whole)


def top_k(shape: tuple[int, int, int], dtype: str, count: int, *, largest: bool) -> PrimFunc:
    """The first `count` along the middle axis of a tensor, in order, and their indices; `count` is at least 1."""
    outer, extent, inner = shape
    x = tensor("x", shape, dtype)
    values, indices = (
        tensor(name, (outer, count, inner), of) for name, of in (("values", dtype), ("indices", "int64"))
    )
    kind = _Packed if np.dtype(dtype).itemsize * 8 <= _PACKED_BITS else _Indirect

    def of_row(axes: list[Expr]) -> Stmt:
        def at(place: Expr) -> list[Expr]:
            return [axes[0], place, axes[1]]

        row = kind(lambda j: load(x, at(j)), np.dtype(dtype), largest)
        own = _Entries(indices, at)

        def result(place: Expr, entry: Expr) -> Stmt:
            index = tirx.Var("index", "int64")
            value = store(values, at(place), row.value(tirx.Cast("int32", index)))
            return sequence(tirx.Bind(index, row.index(entry)), value, own.put(place, index))

        if isinstance(row, _Packed) and is_distributed(extent, count):
            return _distributed_row(row, extent, count, own, result)
        finished = loop("done", count, lambda place: result(place, own.entry(place)))
        return sequence(_sorted_row(_Heap(own, row), row, extent, count, adjacent=inner == 1), finished)

    return written_function([x, values, indices], nest([("row", outer), ("column", inner)], of_row, (True, True)))


def _sorted_row(heap: _Heap, row: _Packed | _Indirect, extent: int, count: int, *, adjacent: bool) -> Stmt:
    """Make a heap of the first `count` of `extent` elements, put those ahead of its root into it, and sort it.

    Where elements are `adjacent`, a few at a time are searched for one that may be ahead.
    """
    root, size = integer(0), integer(count)
    limit = Variable("limit", str(row.dtype))
    seen = limit.set(row.value(tirx.Cast("int32", row.index(heap.entry(root)))))

    def arrange(j: Expr) -> Stmt:
        parent = integer((count - 2) // _CHILDREN) - j
        return sequence(heap.hold(heap.entry(parent)), heap.sink(parent, size))

    def replace(j: Expr) -> Stmt:
        following = j + size
        taken = sequence(heap.hold(row.entry(following)), heap.sink(root, size), seen)
        return tirx.IfThenElse(row.is_ahead(row.value(following), limit.value), taken, None)

    def retire(j: Expr) -> Stmt:
        last = integer(count - 1) - j
        return sequence(heap.hold(heap.entry(last)), heap.put(last, heap.entry(root)), heap.sink(root, last))

    def searched(number: Expr) -> Stmt:
        begin = number * integer(_SEARCHED)
        whole = tirx.min(begin + size, integer(extent - _SEARCHED))  # the last few begin where all are in the row

        def test(j: Expr) -> Stmt:
            return some.set(tirx.bitwise_or(some.value, row.may_be_ahead(row.value(whole + j), limit.value)))

        def take(j: Expr) -> Stmt:
            inside = begin + j < integer(extent - count)
            return replace(begin + j) if not rest % _SEARCHED else tirx.IfThenElse(inside, replace(begin + j), None)

        found = tirx.IfThenElse(some.value > integer(0), loop("next", _SEARCHED, take), None)
        return sequence(some.set(integer(0)), loop("tested", _SEARCHED, test), found)

    rest, some = extent - count, Variable("some")
    steps = [loop("first", count, lambda j: heap.put(j, row.entry(j)))]
    if count > 1:
        steps.append(loop("arranged", (count - 2) // _CHILDREN + 1, arrange))
    if rest >= _MANY and adjacent:
        steps += [seen, loop("searched", -(-rest // _SEARCHED), searched)]
    elif rest:
        steps += [seen, loop("next", rest, replace)]
    if count > 1:
        steps.append(loop("retired", count - 1, retire))
    return using([*heap.variables, limit, some], *steps)


def is_distributed(extent: int, count: int) -> bool:
    """Whether distributing a row takes less than half of the time that a heap is expected to take, in random order.

    In cycles of a core that predicts branches; half, because a heap takes no memory.
    """
    levels = 6 * log2(count) + 20 if count > 1 else 0
    heap = 3 * extent + count * (1 + log(extent / count)) * levels
    return 12 * extent + 12 * _DIGITS < heap / 2


def _distributed_row(
    row: _Packed, extent: int, count: int, own: _Entries, result: Callable[[Expr, Expr], Stmt]
) -> Stmt:
    """Distribute all entries of a row by each of their digits in turn, and pass the first `count` to `result`."""
    buffers = [memory(name, extent, "int64") for name in ("entries", "spare")][count == extent :]
    source, target = ([own] if count == extent else []) + [_Entries(buffer) for buffer in buffers]
    starts = memory("starts", row.digits * _DIGITS, "int32")  # how many have a digit, then where they begin
    total, first = Variable("total"), source

    def place_of(entry: Expr, number: int) -> Expr:
        return row.digit(entry, number) + integer(number * _DIGITS)

    def counted(j: Expr) -> Stmt:
        entry = tirx.Var("entry", "int64")
        steps = [tirx.Bind(entry, row.entry(j)), first.put(j, entry)]
        for number in range(row.digits):
            digit = tirx.Var("digit", "int32")
            more = store(starts, [digit], load(starts, [digit]) + integer(1))
            steps += [tirx.Bind(digit, place_of(entry, number)), more]
        return sequence(*steps)

    def begun(number: int) -> Stmt:
        def begin(j: Expr) -> Stmt:
            here = [j + integer(number * _DIGITS)]
            had = tirx.Var("had", "int32")
            begins = store(starts, here, total.value)
            return sequence(tirx.Bind(had, load(starts, here)), begins, total.set(total.value + had))

        return sequence(total.set(integer(0)), loop(f"begun_{number}", _DIGITS, begin))

    def moved(number: int, origin: _Entries, to: _Entries) -> Stmt:
        def move(j: Expr) -> Stmt:
            taken, digit, free = (tirx.Var(name, of) for name, of in _MOVED)
            return sequence(
                tirx.Bind(taken, origin.entry(j)),
                tirx.Bind(digit, place_of(taken, number)),
                tirx.Bind(free, load(starts, [digit])),
                store(starts, [digit], free + integer(1)),
                to.put(free, taken),
            )

        return loop(f"moved_{number}", extent, move)

    steps = [
        loop("cleared", row.digits * _DIGITS, lambda j: store(starts, [j], integer(0))),
        loop("counted", extent, counted),
    ]
    for number in range(row.digits):
        steps += [begun(number), moved(number, source, target)]
        source, target = target, source
    last = source
    steps.append(loop("done", count, lambda j: result(j, last.entry(j))))
    return using([total], *steps, also=[*buffers, starts])


class TopK(tvm_onnx.OnnxOpConverter):
    """The k largest or smallest along an axis, sorted, for a constant k."""

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        return cls._top(bb, inputs[0], int(attr["k"]), attr)

    @classmethod
    def _impl_v10(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        return cls._top(bb, inputs[0], int(constant_value("TopK", "k", inputs[1]).reshape(-1)[0]), attr)

    @classmethod
    def _top(cls, bb: relax.BlockBuilder, x: relax.Expr, count: int, attr: dict[str, Any]) -> relax.Expr:
        shape, dtype = [int(extent) for extent in x.ty.shape], str(x.ty.dtype)
        axis = attr.get("axis", -1) % len(shape)
        result = [*shape[:axis], count, *shape[axis + 1 :]]
        if 0 in result:
            return relax.Tuple([constant_of(np.zeros(result, of)) for of in (dtype, "int64")])
        rows = (prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
        function = top_k(rows, dtype, count, largest=bool(attr.get("largest", 1)))
        found = call_written(bb, "top_k", function, [bb.normalize(relax.op.reshape(x, rows))])
        return relax.Tuple([bb.normalize(relax.op.reshape(one, result)) for one in found])


class NonMaxSuppression(tvm_onnx.OnnxOpConverter):
    """Refused here, because its result has as many rows as it selects boxes: TVM's converter does without its name."""

    @classmethod
    def _impl_v10(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        raise UnsupportedOperator(
            "how many boxes it selects depends on data, and all shapes of a package are fixed: end the model before "
            "it, with TopK where the best boxes are wanted"
        )
