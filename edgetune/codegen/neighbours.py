"""Neighbours: four results that lie side by side are bytes of one vector, though each has a sum of its own.

Such sums are in the core's own registers, where some instructions add to them. A core with vectors beside those moves
four numbers there by two instructions, and then computes, scales and limits all of them as it does one. So four stores
whose values are computed alike become the store of a vector here, if all of it has instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.expressions import loads_in, with_places
from edgetune.codegen.dot_products import constant_distance
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.intrinsics import operator, scale_address, scales_down, table_load
from edgetune.codegen.lines import call, declaration, variable
from edgetune.codegen.narrowing import narrowing
from edgetune.codegen.text import Code, Lvalue, cast, code
from edgetune.graph.fixed_point import FIXED_POINT_SCALE
from edgetune.target.isa.vector_instructions import NEIGHBOURS
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, Stmt, Var

if TYPE_CHECKING:
    from edgetune.codegen.statements import StatementPrinter

_KIND = f"i32x{NEIGHBOURS}"


def printed_neighbours(printer: StatementPrinter, statements: Sequence[Stmt]) -> int:
    """Emit the stores of bytes that `statements` begins with, if they are of neighbours; how many those are."""
    if NEIGHBOURS not in printer.context.vectors.joined:
        return 0
    bound, stores = _begun(printer, statements)
    if not stores or not _side_by_side(printer, stores):
        return 0
    value, printed = _Join(printer).joined([store.value for store in stores]), _Printed(printer)
    if value is None or not printed.has_form(value):
        return 0
    for one in bound:
        printer.bind(one.var, one.value)
    first = stores[0]
    start = printer.flat_index(first.buffer, first.indices)
    found = printed.bytes(value)
    pointer = printer.pointer(first.buffer, (start, 1), 0)
    name = printer.context.need(f"low_bytes:{_KIND}")
    printer.context.emit(call(name, Lvalue.of(found).address, pointer, elements=NEIGHBOURS))
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


def _side_by_side(printer: StatementPrinter, places: Sequence[BufferStore | BufferLoad]) -> bool:
    """Whether elements of one tensor lie in turn."""
    sources = [one.buffer if isinstance(one, tirx.BufferStore) else one.source for one in places]
    if not all(one.same_as(sources[0]) for one in sources):
        return False
    found = [printer.flat_index(source, one.indices) for source, one in zip(sources, places, strict=True)]
    return [constant_distance(printer, found[0], one) for one in found] == [*range(len(found))]


class _Join:
    """Makes one expression of vectors out of as many alike as a vector has lanes; None where they are not alike."""

    def __init__(self, printer: StatementPrinter) -> None:
        self._printer = printer

    def joined(self, parts: Sequence[Expr]) -> Expr | None:
        """The expression whose lanes are `parts`."""
        first = parts[0]
        if any(type(one) is not type(first) or one.ty != first.ty for one in parts):
            return None
        if isinstance(first, ir.TensorLoad):
            return self._load(parts)
        if all(tvm_ffi.structural_equal(one, first) for one in parts):
            return tirx.Broadcast(first, NEIGHBOURS) if not loads_in([first]) else None
        if isinstance(first, tirx.Cast):
            value = self.joined([one.value for one in parts])
            kind = f"{element_and_lanes(first.ty)[0].dtype}x{NEIGHBOURS}"
            return None if value is None else tirx.Cast(kind, value)
        if isinstance(first, tirx.Add | tirx.Sub | tirx.Min | tirx.Max | tirx.Mul):
            a, b = (self.joined([getattr(one, side) for one in parts]) for side in "ab")
            return None if a is None or b is None else type(first)(a, b)
        return self._scaled(parts) if isinstance(first, ir.Call) else None

    def _load(self, parts: Sequence[BufferLoad]) -> Expr | None:
        """Elements in turn, in registers or in memory."""
        first, printer = parts[0], self._printer
        if not _side_by_side(printer, parts) or len(first.indices) != 1:
            return None
        of, place = element_and_lanes(first.ty)[0], printer.place(first.source)
        if place.lanes > 1 or (of.short not in ("i8", "i32", "u32")):
            return None
        return tirx.BufferLoad(first.source, [tirx.Ramp(first.indices[0], 1, NEIGHBOURS)])

    def _scaled(self, parts: Sequence[Expr]) -> Expr | None:
        first = parts[0]
        if any(operator(one) != operator(first) for one in parts) or not scales_down(self._printer, first):
            return None
        value = self.joined([one.args[0] for one in parts])
        scale = self.joined([one.args[1] for one in parts])
        if value is None or scale is None:
            return None
        return tirx.call_intrin(_KIND.replace("i32", "int32"), FIXED_POINT_SCALE, value, scale)


class _Printed:
    """Prints expressions of vectors of 32 bits, each as a variable."""

    def __init__(self, printer: StatementPrinter) -> None:
        self._printer = printer
        self._context = printer.context
        self._c_type = printer.context.need(f"type:{_KIND}")

    def has_form(self, e: Expr) -> bool:
        """Whether all of an expression has instructions."""
        if isinstance(e, ir.TensorLoad):
            registers = self._printer.place(e.source).registers is not None
            return element_and_lanes(e.ty)[0].short == "i32" and (registers or not self._printer.place(e.source).scales)
        if isinstance(e, tirx.Add | tirx.Sub):
            return self._is_operand(e.a) and self._is_operand(e.b)
        if isinstance(e, tirx.Mul):
            return self.has_form(e.a) and _power_of_two(e.b) is not None
        if isinstance(e, tirx.Cast):
            return self._cast_has_form(e)
        return isinstance(e, ir.Call) and self.has_form(e.args[0])

    def _is_operand(self, e: Expr) -> bool:
        return isinstance(e, tirx.Broadcast) or self.has_form(e)

    def _cast_has_form(self, e: Expr) -> bool:
        if element_and_lanes(e.ty)[0].short == "i8":
            found = narrowing(e)
            return found is not None and not found.is_float and self.has_form(found.value)
        of = element_and_lanes(e.value.ty)[0].short
        if element_and_lanes(e.ty)[0].short != "i32" or of != "i8":
            return False
        in_memory = isinstance(e.value, ir.TensorLoad) and self._printer.place(e.value.source).registers is None
        return in_memory or (isinstance(e.value, tirx.Cast) and self._cast_has_form(e.value))

    def bytes(self, e: Expr) -> Code:
        """What a cast to bytes narrows, in 32 bits within their limits."""
        found = narrowing(e)
        assert found is not None, "only such have a form"  # noqa: S101
        value = self.value(found.value)
        name = self._context.need(f"limited_i8:{_KIND}")
        self._context.emit(call(name, str(found.zero), Lvalue.of(value).address))
        return value

    def value(self, e: Expr) -> Code:
        """A variable of its own with an expression that has a form."""
        if isinstance(e, ir.TensorLoad):
            return self._load(e)
        if isinstance(e, tirx.Cast):
            return self.bytes(e.value) if isinstance(e.value, tirx.Cast) else self._widened(e.value)
        if isinstance(e, ir.Call):
            return self._scaled(e)
        wide = self._context.need(f"type:u32x{NEIGHBOURS}")
        if isinstance(e, tirx.Mul):
            shift = _power_of_two(e.b)
            return self._named("product", code("({})(({}){} << {})", self._c_type, wide, self.value(e.a), str(shift)))
        sign = "+" if isinstance(e, tirx.Add) else "-"
        a, b = (self._unsigned(side, wide) for side in (e.a, e.b))
        return self._named("sum", code("({})({} {} {})", self._c_type, a, sign, b))

    def _unsigned(self, e: Expr, wide: str) -> Code:
        if isinstance(e, tirx.Broadcast):
            return code("{}", cast("uint32_t", self._printer.without_lane(e.value)))
        return code("({}){}", wide, self.value(e))

    def _named(self, stem: str, value: object) -> Code:
        name = self._context.local(stem)
        self._context.emit(variable(self._c_type, name, value))
        return name

    def _declared(self, stem: str) -> Code:
        name = self._context.local(stem)
        self._context.emit(declaration(self._c_type, name))
        return name

    def _load(self, e: BufferLoad) -> Code:
        place, index = self._printer.place(e.source), e.indices[0]
        if place.registers is None:
            loose = self._context.need(f"type:{_KIND}u")
            return self._named(
                "loaded", code("*(const {} *){}", loose, self._printer.pointer(e.source, (index.base, 1), 0))
            )
        sums = [self._printer.lane_of(e, lane) for lane in range(NEIGHBOURS)]
        name = self._declared("sums")
        self._context.emit(call(self._context.need(f"joined:{_KIND}"), *sums, Lvalue.of(name).address))
        return name

    def _widened(self, e: BufferLoad) -> Code:
        name = self._declared("wide")
        pointer = self._printer.pointer(e.source, (e.indices[0].base, 1), 0)
        self._context.emit(call(self._context.need(f"widen:i8x{NEIGHBOURS}"), pointer, Lvalue.of(name).address))
        return name

    def _scaled(self, e: Expr) -> Code:
        value = self.value(e.args[0])
        address = Lvalue.of(value).address
        load, table = table_load(e), scale_address(self._printer, _first_lane(e))
        if load is not None and table is not None:
            kind = "little" if self._printer.place(load.source).scales == "byte table" else "by"
            self._context.emit(call(self._context.need(f"vscale_{kind}:{_KIND}"), address, table))
        else:
            scale = self._printer.scalar(e.args[1].value)
            self._context.emit(call(self._context.need(f"vscale_down:{_KIND}"), address, scale))
        return value


def _first_lane(e: Expr) -> Expr:
    """A call that scales the first lane by a table, so far as its scale is concerned."""
    load = table_load(e)
    if load is None:
        return e
    index = load.indices[0]
    return tirx.call_intrin(
        "int32", FIXED_POINT_SCALE, tirx.const(0, "int32"), tirx.BufferLoad(load.source, [index.base])
    )


def _power_of_two(e: Expr) -> int | None:
    """The exponent of a power of two that is in all lanes."""
    value = e.value if isinstance(e, tirx.Broadcast) else e
    number = int(value.value) if isinstance(value, tirx.IntImm) else 0
    return number.bit_length() - 1 if number > 0 and number.bit_count() == 1 else None
