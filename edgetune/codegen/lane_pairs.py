"""Lane pairs: sums of two products of bytes, of which each lane has both factors.

`sums[o] += x[o] * w[2 * o] + y[o] * w[2 * o + 1]`, with x and y two neighbouring pixels of an image, is PMADDWD of x86
on the bytes of both, and SMULL, SMLAL and SADDW of ARM. On ARM both products are added in 16 bits, which holds where w
is a constant without -128. As for dot products, the program says no more than this sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tvm import tirx

from edgetune.affine.expressions import joined_by
from edgetune.codegen.dot_products import constant_distance, is_own, lane_step, read_at, widened_load
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.lines import JoinableCall, joinable
from edgetune.codegen.work import VECTOR_LOAD
from edgetune.target.isa.vector_instructions import LEAST_PAIRS
from edgetune.tvm_types import BufferStore, Expr, TvmBuffer

if TYPE_CHECKING:
    from edgetune.codegen.statements import StatementPrinter

_PAIR = 2


class _LaneProduct(NamedTuple):
    """A number of each lane times one of several that each lane has: tensors, and the places of the first lane's."""

    data: TvmBuffer
    at: tuple[Expr, int]
    own: TvmBuffer
    begin: Expr


def added_lane_pairs(
    printer: StatementPrinter, s: BufferStore, start: tuple[Expr, int], parts: Sequence[tuple[int, int]]
) -> bool:
    """Print all lanes of `acc = acc + two products`, of which each lane has both factors; False for any other store.

    The lanes are `parts` of registers, all of one width. One factor is a constant without -128.
    """
    width = parts[0][1]
    whole = sum(lanes for _, lanes in parts) == max(width, LEAST_PAIRS)
    wanted = whole and printer.context.symmetric and width in printer.context.vectors.lane_pairs
    if not wanted or not isinstance(s.value, tirx.Add) or element_and_lanes(s.value.ty)[0].short != "i32":
        return False
    place = printer.place(s.buffer)
    registers = [name for first, _ in parts if (name := printer.register(place, start, first, width)) is not None]
    terms = [*joined_by(tirx.Add, s.value)]
    products = [_of_lanes(printer, term) for term in terms if not is_own(term, s)]
    pair = [one for one in products if one is not None]
    if len(registers) != len(parts) or len(terms) != len(products) + 1 or len(pair) != _PAIR or len(products) != _PAIR:
        return False
    if constant_distance(printer, pair[0].begin, pair[1].begin) != 1:
        pair.reverse()
    first, second = pair
    if constant_distance(printer, first.begin, second.begin) != 1 or not first.own.same_as(second.own):
        return False
    function = printer.context.need(f"lane_pairs:i32x{width}")
    x, y = (printer.pointer(one.data, one.at, 0) for one in pair)
    w = printer.pointer(first.own, (first.begin, 1), 0)
    sources = tuple(read_at(one, VECTOR_LOAD) for one in (x, y, w))
    made = JoinableCall("lane_pairs", f"i32x{width}", tuple(registers), (), sources)
    printer.context.emit(joinable(function, made))
    return True


def _of_lanes(printer: StatementPrinter, term: Expr) -> _LaneProduct | None:
    """A product of bytes of which neighbouring lanes have neighbours, by one of two that each lane has in turn."""
    for data, own in ((term.a, term.b), (term.b, term.a)) if isinstance(term, tirx.Mul) else ():
        loads = [one for one in (widened_load(data), widened_load(own)) if one is not None]
        if len(loads) != _PAIR or any(element_and_lanes(one.ty)[0].short != "i8" for one in loads):
            continue
        x, w = loads
        start = printer.contiguous(x.source, x.indices) if element_and_lanes(x.ty)[1] > 1 else None
        begin = printer.flat_index(w.source, w.indices)
        if (
            start
            and printer.place(x.source).registers is None
            and printer.survey.base(w.source) in printer.context.symmetric
            and lane_step(begin) == _PAIR
        ):
            return _LaneProduct(x.source, start, w.source, begin.base)
    return None
