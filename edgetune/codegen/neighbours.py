"""Neighbours: four results at equal distances are bytes of one vector, though each has a sum of its own.

Such sums are in the core's own registers, where some instructions add to them. A core with vectors beside those moves
four numbers there by two instructions, and then computes, scales and limits all of them as it does one. So four stores
whose values are computed alike become the store of a vector here, if all of it has instructions. They are channels side
by side, or one channel of several pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.expressions import loads_in, with_places
from edgetune.codegen.dot_products import constant_distance
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.intrinsics import operator, scales_down
from edgetune.codegen.lines import call
from edgetune.codegen.narrowing import narrowing, printed_limited
from edgetune.codegen.text import Lvalue
from edgetune.codegen.vector_calls import has_vector_form
from edgetune.graph.fixed_point import FIXED_POINT_SCALE
from edgetune.target.isa.vector_instructions import NEIGHBOURS
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, Stmt, Var

if TYPE_CHECKING:
    from edgetune.codegen.statements import StatementPrinter


def printed_neighbours(printer: StatementPrinter, statements: Sequence[Stmt]) -> int:
    """Emit the stores of bytes that `statements` begins with, if they are of neighbours; how many those are."""
    if NEIGHBOURS not in printer.context.vectors.joined:
        return 0
    bound, stores = _begun(printer, statements)
    apart = _distance(printer, stores) if stores else None
    if apart is None or (apart > 1 and NEIGHBOURS not in printer.context.vectors.low_bytes_apart):
        return 0
    value = _Join(printer).joined([store.value for store in stores])
    found = None if value is None else narrowing(value)
    if found is None or not has_vector_form(printer, found.value):
        return 0
    for one in bound:
        printer.bind(one.var, one.value)
    first = stores[0]
    start = printer.flat_index(first.buffer, first.indices)
    bytes_ = printed_limited(printer, found, 0, NEIGHBOURS)
    pointer = printer.pointer(first.buffer, (start, 1), 0)
    name = printer.context.need(f"low_bytes{'_apart' if apart > 1 else ''}:i32x{NEIGHBOURS}")
    distance = (str(apart),) if apart > 1 else ()
    printer.context.emit(call(name, Lvalue.of(bytes_).address, pointer, *distance, elements=NEIGHBOURS))
    return len(bound) + NEIGHBOURS


def _begun(printer: StatementPrinter, statements: Sequence[Stmt]) -> tuple[list[Stmt], list[BufferStore]]:
    """The first stores of bytes, as many as a vector has, and the indices that are bound between them.

    In the stores, these are replaced by what they stand for.
    """
    bound: dict[Var, Stmt] = {}
    stores: list[BufferStore] = []
    for one in statements:
        if stores and isinstance(one, tirx.Bind) and not loads_in([one.value]):
            bound[one.var] = one
            continue
        known = {variable: place.value for variable, place in bound.items()}
        store = with_places(one, known) if known and isinstance(one, tirx.BufferStore) else one
        if not _stores_byte(printer, store):
            break
        stores.append(store)
        if len(stores) == NEIGHBOURS:
            return list(bound.values()), stores
    return [], []


def _stores_byte(printer: StatementPrinter, statement: Stmt) -> bool:
    """Whether a statement stores one narrowed byte in memory, and reads none of the tensor."""
    if not isinstance(statement, tirx.BufferStore) or not isinstance(statement.value, tirx.Cast):
        return False
    of, lanes = element_and_lanes(statement.value.ty)
    found = narrowing(statement.value) if (of.short, lanes) == ("i8", 1) else None
    if found is None or found.is_float or printer.place(statement.buffer).registers is not None:
        return False
    stored = printer.survey.base(statement.buffer)
    return all(printer.survey.base(load.source) != stored for load in loads_in([statement.value]))


def _distance(printer: StatementPrinter, places: Sequence[BufferStore | BufferLoad]) -> int | None:
    """How far each of several elements of one tensor lies behind the one before; None if not equally far."""
    sources = [one.buffer if isinstance(one, tirx.BufferStore) else one.source for one in places]
    if not all(one.same_as(sources[0]) for one in sources):
        return None
    found = [printer.flat_index(source, one.indices) for source, one in zip(sources, places, strict=True)]
    distances = [constant_distance(printer, found[0], one) for one in found]
    apart = distances[1]
    return apart if apart is not None and apart > 0 and distances == [n * apart for n in range(len(found))] else None


class _Join:
    """Makes one expression of vectors out of as many alike as a vector has lanes; None where they are not alike."""

    def __init__(self, printer: StatementPrinter) -> None:
        self._printer = printer

    def joined(self, parts: Sequence[Expr]) -> Expr | None:
        """The expression whose lanes are `parts`."""
        first = parts[0]
        if any(type(one) is not type(first) or one.ty != first.ty for one in parts):
            return None
        if all(tvm_ffi.structural_equal(one, first) for one in parts):
            return tirx.Broadcast(first, NEIGHBOURS)
        if isinstance(first, ir.TensorLoad):
            return self._load(parts)
        if isinstance(first, tirx.Cast):
            value = self.joined([one.value for one in parts])
            kind = f"{element_and_lanes(first.ty)[0].dtype}x{NEIGHBOURS}"
            return None if value is None else tirx.Cast(kind, value)
        if isinstance(first, tirx.Add | tirx.Sub | tirx.Min | tirx.Max | tirx.Mul):
            a, b = (self.joined([getattr(one, side) for one in parts]) for side in "ab")
            return None if a is None or b is None else type(first)(a, b)
        return self._scaled(parts) if isinstance(first, ir.Call) else None

    def _load(self, parts: Sequence[BufferLoad]) -> Expr | None:
        """Elements in turn, in registers or in memory; there, bytes may lie apart."""
        first, printer = parts[0], self._printer
        apart = _distance(printer, parts)
        if apart is None or len(first.indices) != 1:
            return None
        of, place = element_and_lanes(first.ty)[0], printer.place(first.source)
        if place.lanes > 1 or (of.short not in ("i8", "i32", "u32")):
            return None
        if apart > 1 and (of.short != "i8" or place.registers is not None or not printer.context.vectors.widen_apart):
            return None
        return tirx.BufferLoad(first.source, [tirx.Ramp(first.indices[0], apart, NEIGHBOURS)])

    def _scaled(self, parts: Sequence[Expr]) -> Expr | None:
        first = parts[0]
        if any(operator(one) != operator(first) for one in parts) or not scales_down(self._printer, first, NEIGHBOURS):
            return None
        value = self.joined([one.args[0] for one in parts])
        scale = self.joined([one.args[1] for one in parts])
        if value is None or scale is None:
            return None
        return tirx.call_intrin(f"int32x{NEIGHBOURS}", FIXED_POINT_SCALE, value, scale)
