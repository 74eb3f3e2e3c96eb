"""Dot products: sums of products of neighbouring narrow integers, which an instruction adds to lanes of 32 bits.

`sums[o] += x[0] * w[4 * o] + x[1] * w[4 * o + 1] + x[2] * w[4 * o + 2] + x[3] * w[4 * o + 3]`, with bytes, is one
instruction for all lanes o: VPDPBUSD of x86, SDOT, UDOT and USDOT of ARM, and PMADDWD for two numbers of 16 bits. The
program says no more than this sum, so its meaning is the same without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.expressions import joined_by
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.lines import call
from edgetune.codegen.text import Lvalue
from edgetune.tvm_types import BufferLoad, BufferStore, Expr

if TYPE_CHECKING:
    from edgetune.codegen.statements import StatementPrinter


class _Product(NamedTuple):
    """A number that all lanes share times one of each lane: the loads, and their first indices."""

    shared: BufferLoad
    at: Expr
    lanes: BufferLoad
    begin: Expr
    stride: int


def added_dot_products(
    printer: StatementPrinter, s: BufferStore, start: tuple[Expr, int], first: int, width: int
) -> bool:
    """Print the lanes from `first` on of `acc = acc + products`, with acc in a register; False for any other store."""
    if not isinstance(s.value, tirx.Add) or element_and_lanes(s.value.ty)[0].short != "i32":
        return False
    register = printer.register(printer.place(s.buffer), start, first, width)
    terms = [*joined_by(tirx.Add, s.value)]
    own = [term for term in terms if _is_own(term, s)]
    products = [_product(printer, term) for term in terms if not _is_own(term, s)]
    if register is None or len(own) != 1 or None in products:
        return False
    ordered = _side_by_side(printer, [one for one in products if one is not None])
    if not ordered:
        return False
    kinds = [element_and_lanes(one.ty)[0].short for one in (ordered[0].shared, ordered[0].lanes)]
    name = f"dot_{kinds[0]}_{kinds[1]}_{len(ordered)}"
    if width not in printer.context.vectors.dot.get(name, {}):
        return False
    x, w = ordered[0].shared.source, ordered[0].lanes.source
    function = printer.context.need(f"{name}:i32x{width}")
    places = (
        printer.pointer(x, (ordered[0].at, 1), 0),
        printer.pointer(w, (ordered[0].begin, 1), len(ordered) * first),
    )
    printer.context.emit(call(function, Lvalue.of(register).address, *places))
    return True


def _is_own(term: Expr, s: BufferStore) -> bool:
    """Whether a term is the element that is stored."""
    same = isinstance(term, ir.TensorLoad) and term.source.same_as(s.buffer)
    return same and bool(tvm_ffi.structural_equal(term.indices, s.indices))


def _product(printer: StatementPrinter, term: Expr) -> _Product | None:
    if not isinstance(term, tirx.Mul):
        return None
    for shared, lanes in ((term.a, term.b), (term.b, term.a)):
        x, w = _widened(shared), _widened(lanes)
        if x is None or w is None or not all(_lies_in_memory(printer, one) for one in (x, w)):
            continue
        at, ramp = (printer.flat_index(one.source, one.indices) for one in (x, w))
        if isinstance(ramp, tirx.Ramp) and isinstance(ramp.stride, tirx.IntImm) and not isinstance(at, tirx.Ramp):
            return _Product(x, at, w, ramp.base, int(ramp.stride.value))
    return None


def _lies_in_memory(printer: StatementPrinter, load: BufferLoad) -> bool:
    """Whether a tensor has an address, and its elements are numbers."""
    place = printer.place(load.source)
    return place.registers is None and place.lanes == 1


def _widened(value: Expr) -> BufferLoad | None:
    """The load that is widened once, and given to all lanes if it is a scalar; a second cast might change its sign."""
    value = value.value if isinstance(value, tirx.Broadcast) else value
    value = value.value if isinstance(value, tirx.Cast) else value
    value = value.value if isinstance(value, tirx.Broadcast) else value
    return value if isinstance(value, ir.TensorLoad) else None


def _side_by_side(printer: StatementPrinter, products: list[_Product]) -> list[_Product]:
    """The products in the order of their numbers, which lie one after another in both tensors; empty if they do not."""
    first, count = products[0], len(products)
    starts = [_place(printer, index) for index in (first.at, first.begin)]
    found: dict[int, _Product] = {}
    for one in products:
        same = one.shared.source.same_as(first.shared.source) and one.lanes.source.same_as(first.lanes.source)
        places = [_place(printer, index) for index in (one.at, one.begin)]
        steps = {place - start for (_, place), (_, start) in zip(places, starts, strict=True)}
        alike = all(base == start for (base, _), (start, _) in zip(places, starts, strict=True))
        if not same or not alike or len(steps) > 1 or one.stride != count:
            return []
        found[steps.pop()] = one
    order = range(min(found), min(found) + count)
    return [found[place] for place in order] if sorted(found) == [*order] else []


def _place(printer: StatementPrinter, index: Expr) -> tuple[str, int]:
    """An index as what is computed and a constant that is added to it."""
    text = printer.without_lane(index)
    if text.constant is not None or text.zero:
        return "", text.constant or 0
    if text.summand is None:
        return str(text), 0
    return str(text.summand[0]), text.summand[1]
