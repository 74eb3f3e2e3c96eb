"""Vector division: integer vectors by a positive constant, for which compilers multiply by a reciprocal.

Indices of axes alone stay lane by lane, except remainders by powers of two, for most of them are constants there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import ir, tirx

from edgetune.affine.expressions import operands
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.text import UNARY, Text, operation
from edgetune.codegen.work import DIVIDE
from edgetune.tvm_types import Expr

if TYPE_CHECKING:
    from edgetune.codegen.vectors import VectorPrinter

DIVISIONS = (tirx.FloorDiv, tirx.FloorMod, tirx.Mod, tirx.Div)


def divides_by_constant(e: Expr) -> bool:
    """Whether `e` divides int32 elements of tensors, or numbers computed from them, by one positive constant."""
    if not isinstance(e, DIVISIONS) or element_and_lanes(e.ty)[0].short != "i32" or not isinstance(e.b, tirx.Broadcast):
        return False
    divisor = e.b.value
    return isinstance(divisor, tirx.IntImm) and int(divisor.value) > 0 and loads(e.a)


def quotient_or_remainder(printer: VectorPrinter, e: Expr, first: int, width: int) -> Text:
    """Lanes of a division or its remainder, rounded down by FloorDiv and FloorMod, else towards zero."""
    if not divides_by_constant(e):
        return printer.by_lanes(e, first, width)
    divisor, c_type = int(e.b.value.value), printer.type(element_and_lanes(e.ty)[0], width)
    a = printer.named(printer.vector(e.a, first, width), c_type, "dividend")
    floors, remainder = isinstance(e, (tirx.FloorDiv, tirx.FloorMod)), isinstance(e, (tirx.FloorMod, tirx.Mod))
    if floors and divisor & (divisor - 1) == 0:
        bits = divisor.bit_length() - 1
        return Text(operation("({} & {})", a, divisor - 1) if remainder else operation("({} >> {})", a, bits))
    if not floors:
        return Text(operation("({} {} {})", a, "%" if remainder else "/", divisor, kind=DIVIDE))
    left = printer.context.temporary(c_type, operation("{} % {}", a, divisor, kind=DIVIDE), "rest")
    below = operation("({})({} < 0)", c_type, left)
    if remainder:
        return Text(operation("({} + {})", left, operation("({} & {})", below, divisor)))
    return Text(operation("({} + {})", operation("{} / {}", a, divisor, kind=DIVIDE), below), UNARY)


def loads(e: Expr) -> bool:
    """Whether an expression reads memory."""
    return isinstance(e, ir.TensorLoad) or any(map(loads, operands(e)))
