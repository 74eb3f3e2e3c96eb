"""Narrowing: vectors of integers of 32 bits that become bytes within limits, as a quantised result is stored.

Instructions that narrow also limit, and take several vectors. So the calls of neighbouring vectors become one (see
`lockstep.py`), in which the zero point is added to numbers of 16 bits. A core without vectors scales and limits one
number by four instructions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import ir, tirx

from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.intrinsics import FIXED_POINT, operator, scale_address, scales_down, scales_once, table_load
from edgetune.codegen.lines import call, declaration, variable
from edgetune.codegen.literals import digits
from edgetune.codegen.text import Code, Lvalue, Text, called
from edgetune.tvm_types import Expr

if TYPE_CHECKING:
    from edgetune.codegen.scalars import ScalarPrinter
    from edgetune.codegen.vectors import VectorPrinter

_MOST_ADDED = 255
"""What may be added to 16 bits that are limited before: the sum is then beyond the limits of bytes in any case."""


@dataclass(frozen=True)
class Narrowing:
    """`value` plus `zero`, within the limits of a byte: integers of 32 bits, or floats, rounded half to even.

    Scaled integers that are within 255 of the largest one, or of the least, do not wrap when the zero point is added:
    TensorFlow Lite says nothing of them. What a NaN becomes depends on the target, as ONNX leaves it open.
    """

    value: Expr
    zero: int = 0

    @property
    def is_float(self) -> bool:
        """Whether the value is rounded."""
        return element_and_lanes(self.value.ty)[0].kind == "float"


def narrowing(e: Expr) -> Narrowing | None:
    """What a cast to bytes narrows: a number of 32 bits within their limits, a float where it is rounded; or None."""
    to, of = element_and_lanes(e.ty)[0], element_and_lanes(e.value.ty)[0]
    if to.bits != 8 or to.kind not in ("int", "uint") or of.short not in ("i32", "f32"):
        return None
    least, most = (0, 255) if to.kind == "uint" else (-128, 127)
    inner, low, high = _limited(e.value)
    if low is None or high is None or not least <= low <= high <= most:
        return None
    if (low, high) != (least, most):  # they limit before
        return None if of.kind == "float" else Narrowing(e.value)
    found = Narrowing(inner)
    if isinstance(inner, tirx.Add | tirx.Sub) and (zero := _constant(inner.b)) is not None:
        rounded = isinstance(inner.a, ir.Call) and operator(inner.a) in (*FIXED_POINT, "nearbyint")
        if rounded and abs(zero) <= _MOST_ADDED:
            found = Narrowing(inner.a, zero if isinstance(inner, tirx.Add) else -zero)
    if not found.is_float:
        return found
    if not isinstance(found.value, ir.Call) or operator(found.value) != "nearbyint":
        return None
    return Narrowing(found.value.args[0], found.zero)


def _limited(e: Expr) -> tuple[Expr, int | None, int | None]:
    """What a minimum of a maximum, or the reverse, limits, and the whole constants that do."""
    bounds: dict[type, int] = {}
    while type(e) in (tirx.Min, tirx.Max) and type(e) not in bounds and (bound := _constant(e.b)) is not None:
        bounds[type(e)] = bound
        e = e.a
    return e, bounds.get(tirx.Max), bounds.get(tirx.Min)


def _constant(e: Expr) -> int | None:
    """The whole number that is in all lanes of a constant."""
    value = e.value if isinstance(e, tirx.Broadcast) else e
    if not isinstance(value, tirx.IntImm | tirx.FloatImm) or not float(value.value).is_integer():
        return None
    return int(value.value)


def printed_scaled_byte(printer: ScalarPrinter, e: Expr) -> Text | None:
    """A cast of a number of 32 bits to a byte that scales or rounds it before, where the core limits it to bytes."""
    found = narrowing(e) if printer.context.vectors.scaled_byte else None
    if found is not None and found.is_float and printer.context.vectors.rounded_byte:
        function = printer.context.need(f"rounded_{element_and_lanes(e.ty)[0].short}:f32")
        return called(function, printer.scalar(found.value), digits(found.zero))
    scaled = None if found is None else found.value
    if found is not None and isinstance(scaled, ir.Call) and scales_once(printer, scaled):
        function = printer.context.need(f"scaled_once_{element_and_lanes(e.ty)[0].short}:i32")
        return called(function, *(printer.scalar(one) for one in scaled.args), digits(found.zero))
    if found is None or not isinstance(scaled, ir.Call) or not scales_down(printer, scaled):
        return None
    value, table = printer.scalar(scaled.args[0]), scale_address(printer, scaled)
    load = table_load(scaled)
    little = load is not None and printer.place(load.source).scales == "byte table"
    by = "" if table is None else "little_" if little else "by_"
    function = printer.context.need(f"scaled_{by}{element_and_lanes(e.ty)[0].short}:i32")
    return called(function, value, printer.scalar(scaled.args[1]) if table is None else table, digits(found.zero))


def printed_limited(printer: VectorPrinter, found: Narrowing, first: int, width: int) -> Code:
    """A variable with the lanes of what is narrowed to int8, in 32 bits, where instructions limit these."""
    ints = printer.context.need(f"type:i32x{width}")
    limited = printer.context.local("limited")
    printer.context.emit(variable(ints, limited, printer.vector(found.value, first, width)))
    function = printer.context.need(f"limited_i8:i32x{width}")
    printer.context.emit(call(function, str(found.zero), Lvalue.of(limited).address))
    return limited


def printed_narrowing(printer: VectorPrinter, e: Expr, found: Narrowing, first: int, width: int) -> Text:
    """The lanes of a cast to bytes, in a variable."""
    context, to = printer.context, element_and_lanes(e.ty)[0]
    ints = context.need(f"type:i32x{width}")
    value = printer.vector(found.value, first, width)
    if found.is_float:
        real = context.temporary(context.need(f"type:f32x{width}"), value, "real")
        whole = context.local("nearest")
        context.emit(declaration(ints, whole))
        addresses = Lvalue.of(real).address, Lvalue.of(whole).address
        context.emit(call(context.need(f"nearest:f32x{width}"), *addresses))
    else:
        whole = printer.named(value, ints, "whole")
    narrow = context.local("narrow", e)
    context.emit(declaration(printer.type(to, width), narrow))
    context.call_of_vector("narrowed", f"{to.short}x{width}", whole, narrow, numbers=(found.zero,))
    return Text(narrow)
