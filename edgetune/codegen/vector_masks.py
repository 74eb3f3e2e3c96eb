"""Truth values of vector expressions: integer vectors of 0 and -1, of any element width that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import ir, tirx

from edgetune.codegen.dtypes import Element, element_and_lanes
from edgetune.codegen.intrinsics import operator
from edgetune.codegen.text import UNARY, Text

if TYPE_CHECKING:
    from edgetune.codegen.vectors import VectorPrinter

_COMPARISONS = {tirx.EQ: "==", tirx.NE: "!=", tirx.LT: "<", tirx.LE: "<=", tirx.GT: ">", tirx.GE: ">="}


class MaskPrinter:
    """Prints lanes of boolean vector expressions as masks."""

    def __init__(self, printer: VectorPrinter) -> None:
        self.printer = printer

    def mask(self, e: Any, first: int, width: int, bits: int) -> Text:
        """Mask of `width` lanes with elements of `bits` bits."""
        kind = type(e)
        if kind in (tirx.And, tirx.Or):
            a, b = (self.mask(side, first, width, bits).at(UNARY) for side in (e.a, e.b))
            return Text(f"({a} {'&' if kind is tirx.And else '|'} {b})")
        if kind is tirx.Not:
            return Text(f"~{self.mask(e.a, first, width, bits).at(UNARY)}", UNARY)
        if kind is tirx.Broadcast:
            truth = self.printer.without_lane(e.value)
            return Text(f"(({self._type(bits, width)}){{0}} - (int{bits}_t){truth.at(UNARY)})")
        if kind in _COMPARISONS:
            return self._comparison(e, first, width, bits)
        if kind is tirx.Cast and element_and_lanes(e.value.ty)[0].kind != "bool":
            of = element_and_lanes(e.value.ty)[0]
            return self._as_mask(f"{self.printer.vector(e.value, first, width).at(UNARY)} != 0", of, width, bits)
        if kind is tirx.Cast:
            return self.mask(e.value, first, width, bits)
        if kind is ir.Call and operator(e) == "isnan":
            of = element_and_lanes(e.args[0].ty)[0]
            name = self.printer.named(self.printer.vector(e.args[0], first, width), self.printer.type(of, width))
            return self._as_mask(f"{name} != {name}", of, width, bits)
        if kind is ir.Var and not isinstance(self.printer.context.variables.get(e), (Text, list, type(None))):
            return self.mask(self.printer.context.variables[e], first, width, bits)
        if kind is ir.TensorLoad:
            return self._load(e, first, width, bits)
        lanes = (f"-(int{bits}_t){self.printer.lane_of(e, first + lane).at(UNARY)}" for lane in range(width))
        if bits < 32:  # int is wider: the minus has to be converted back
            lanes = (f"(int{bits}_t)({lane})" for lane in lanes)
        return Text(f"({self._type(bits, width)}){{{', '.join(lanes)}}}")

    def _type(self, bits: int, width: int) -> str:
        return self.printer.context.need(f"type:i{bits}x{width}")

    def _as_mask(self, comparison: str, of: Element, width: int, bits: int) -> Text:
        text = f"({self._type(of.value_bits, width)})({comparison})"
        if of.value_bits == bits:
            return Text(text, UNARY)
        return Text(f"__builtin_convertvector({text}, {self._type(bits, width)})")

    def _comparison(self, e: Any, first: int, width: int, bits: int) -> Text:
        of = element_and_lanes(e.a.ty)[0]
        if of.kind == "bool":
            a, b = (self.mask(side, first, width, bits).at(UNARY) for side in (e.a, e.b))
            if type(e) is tirx.NE:
                return Text(f"({a} ^ {b})")
            if type(e) is tirx.EQ:
                return Text(f"~({a} ^ {b})", UNARY)
        a, b = (self.printer.vector(side, first, width).at(UNARY) for side in (e.a, e.b))
        return self._as_mask(f"{a} {_COMPARISONS[type(e)]} {b}", of, width, bits)

    def _load(self, e: Any, first: int, width: int, bits: int) -> Text:
        start = self.printer.contiguous(e.source, e.indices)
        if start is None or self.printer.place(e.source).registers is not None:
            lanes = (f"(int{bits}_t)-{self.printer.lane_of(e, first + lane).at(UNARY)}" for lane in range(width))
            return Text(f"({self._type(bits, width)}){{{', '.join(lanes)}}}")
        loose = self.printer.context.need(f"type:u8x{width}u")
        text = f"({self._type(8, width)})(*(const {loose} *){self.printer.pointer(e.source, start, first)} != 0)"
        if bits == 8:
            return Text(text, UNARY)
        return Text(f"__builtin_convertvector({text}, {self._type(bits, width)})")
