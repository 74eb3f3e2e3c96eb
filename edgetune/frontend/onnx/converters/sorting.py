"""TopK by a heap of the best elements so far, in the memory of the indices: n log k comparisons, no other memory.

The root of the heap is the last of them in order. An element ahead of the root takes its place and sinks, and most
elements take one comparison (D. E. Knuth, The Art of Computer Programming, volume 3, 1998, section 5.2.3). At the end
the heap is sorted in place: its root goes behind all others.

Where a whole row of some length is wanted, and elements have 32 bits at most, it is distributed by the digits of its
elements, the last digit first, which compares none (section 5.2.5 there). That takes memory for the entries of one row
more than the indices; a row of which a part is wanted would take two, more than its tensors, and has a heap instead.

`ordered_rows` says what is ahead of what.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from tvm import relax, tirx
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.frontend.onnx.converters.ordered_rows import (
    CHILDREN,
    DIGITS,
    PACKED_BITS,
    Entries,
    Heap,
    Indirect,
    Packed,
)
from edgetune.frontend.onnx.converters.scans import constant_value
from edgetune.graph.rewrite import constant_of
from edgetune.graph.written_loops import (
    Variable,
    bytes_of,
    call_written,
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
from edgetune.tvm_types import Expr, PrimFunc, Stmt, TvmBuffer

_SEARCHED, _MANY = 32, 128  # elements that are searched at a time, and from how many on
_MOVED = (("taken", "int64"), ("digit", "int32"), ("free", "int32"))


def top_k(shape: tuple[int, int, int], dtype: str, count: int, *, largest: bool) -> PrimFunc:
    """The first `count` along the middle axis of a tensor, in order, and their indices; `count` is at least 1."""
    outer, extent, inner = shape
    x = tensor("x", shape, dtype)
    values, indices = (
        tensor(name, (outer, count, inner), of) for name, of in (("values", dtype), ("indices", "int64"))
    )
    kind = Packed if np.dtype(dtype).itemsize * 8 <= PACKED_BITS else Indirect

    def of_row(axes: list[Expr]) -> Stmt:
        def at(place: Expr) -> list[Expr]:
            return [axes[0], place, axes[1]]

        row = kind(lambda j: load(x, at(j)), np.dtype(dtype), largest)
        own = Entries(indices, at)

        def result(place: Expr, entry: Expr) -> Stmt:
            index = tirx.Var("index", "int64")
            value = store(values, at(place), row.value(tirx.Cast("int32", index)))
            return sequence(tirx.Bind(index, row.index(entry)), value, own.put(place, index))

        if isinstance(row, Packed) and count == extent and _is_distributed(extent, row):
            return _distributed_row(row, extent, own, result)
        finished = loop("done", count, lambda place: result(place, own.entry(place)))
        return sequence(_sorted_row(Heap(own, row), row, extent, count, adjacent=inner == 1), finished)

    return written_function([x, values, indices], nest([("row", outer), ("column", inner)], of_row, (True, True)))


def _sorted_row(heap: Heap, row: Packed | Indirect, extent: int, count: int, *, adjacent: bool) -> Stmt:
    """Make a heap of the first `count` of `extent` elements, put those ahead of its root into it, and sort it.

    Where elements are `adjacent`, a few at a time are searched for one that may be ahead.
    """
    root, size = integer(0), integer(count)
    limit = Variable("limit", str(row.dtype))
    seen = limit.set(row.value(tirx.Cast("int32", row.index(heap.entry(root)))))

    def arrange(j: Expr) -> Stmt:
        parent = integer((count - 2) // CHILDREN) - j
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
        steps.append(loop("arranged", (count - 2) // CHILDREN + 1, arrange))
    if rest >= _MANY and adjacent:
        steps += [seen, loop("searched", -(-rest // _SEARCHED), searched)]
    elif rest:
        steps += [seen, loop("next", rest, replace)]
    if count > 1:
        steps.append(loop("retired", count - 1, retire))
    return using([*heap.variables, limit, some], *steps)


def _is_distributed(extent: int, row: Packed) -> bool:
    """Whether distributing a whole row takes no more memory than its tensors; a shorter row is as quick by a heap.

    The tensors of a row are its elements, its values and its indices. How many rows run at once is not known here:
    each may have memory of its own, as on a GPU, so that all rows together take no more than the tensors of the kernel.
    """
    tensors = extent * (2 * row.dtype.itemsize + np.dtype("int64").itemsize)
    return sum(bytes_of(buffer) for buffer in _memory_of(extent, row)) <= tensors


def _memory_of(extent: int, row: Packed) -> tuple[TvmBuffer, TvmBuffer]:
    """The memory that distributes a row: for its entries, and for how many have a digit, then where they begin."""
    return memory("spare", extent, "int64"), memory("starts", row.digits * DIGITS, "int32")


def _distributed_row(row: Packed, extent: int, own: Entries, result: Callable[[Expr, Expr], Stmt]) -> Stmt:
    """Distribute all entries of a row by each of their digits in turn, and pass them to `result`."""
    spare, starts = _memory_of(extent, row)
    source, target = own, Entries(spare)
    total, first = Variable("total"), source

    def place_of(entry: Expr, number: int) -> Expr:
        return row.digit(entry, number) + integer(number * DIGITS)

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
            here = [j + integer(number * DIGITS)]
            had = tirx.Var("had", "int32")
            begins = store(starts, here, total.value)
            return sequence(tirx.Bind(had, load(starts, here)), begins, total.set(total.value + had))

        return sequence(total.set(integer(0)), loop(f"begun_{number}", DIGITS, begin))

    def moved(number: int, origin: Entries, to: Entries) -> Stmt:
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
        loop("cleared", row.digits * DIGITS, lambda j: store(starts, [j], integer(0))),
        loop("counted", extent, counted),
    ]
    for number in range(row.digits):
        steps += [begun(number), moved(number, source, target)]
        source, target = target, source
    last = source
    steps.append(loop("done", extent, lambda j: result(j, last.entry(j))))
    return using([total], *steps, also=[spare, starts])


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
