"""Calls in TIR as vector C, and which expressions have a vector form at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import ir, tirx

from edgetune.codegen.dtypes import Element, element_and_lanes
from edgetune.codegen.intrinsics import POLYNOMIALS, operator
from edgetune.codegen.text import ATOM, UNARY, Text, joined
from edgetune.codegen.traverse import operands

if TYPE_CHECKING:
    from edgetune.codegen.vectors import VectorPrinter

# Compilers make one vector instruction of a vector literal of these (given -fno-math-errno for sqrt).
_LANEWISE = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "nearbyint": "nearbyint",
    "round": "nearbyint",
}
_ROUNDING = ("nearbyint", "round")
_PASSED = ("likely", "ignore_loop_partition")


def vector_call(printer: VectorPrinter, e: Any, first: int, width: int) -> Text:
    """Lanes [first, first + width) of a call."""
    name = operator(e)
    of = element_and_lanes(e.ty)[0]
    if name == "if_then_else" and element_and_lanes(e.args[0].ty)[1] == 1:
        return printer.choose_vector(e.args[0], e.args[1], e.args[2], first, width)
    if name in _PASSED:
        return printer.vector(e.args[0], first, width)
    if of.kind != "float" or not _has_form(name, e):
        return printer.by_lanes(e, first, width)
    c_type = printer.type(of, width)
    a = printer.vector(e.args[0], first, width)
    if name in POLYNOMIALS or (name in _ROUNDING and of.value_bits == 32):
        name = "nearbyint" if name in _ROUNDING else name
        value = printer.context.names.unique("t")
        printer.context.emit(f"{c_type} {value} = {a.code};")
        printer.context.emit(f"{printer.context.need(f'{name}:{of.value_short}x{width}')}(&{value});")
        return Text(value)
    if name == "fabs":
        mask = printer.type(of, width, "mask")
        limit = "0x7fffffff" if of.value_bits == 32 else "INT64_C(0x7fffffffffffffff)"
        return Text(f"({c_type})(({mask}){a.at(UNARY)} & {limit})", UNARY)
    kept = printer.named(a, c_type)
    suffix = "" if of.value_bits == 64 else "f"
    called = _LANEWISE.get(name, "sqrt")
    lanes = ", ".join(f"__builtin_{called}{suffix}({kept}[{lane}])" for lane in range(width))
    literal = Text(f"({c_type}){{{lanes}}}")
    return joined(Text(f"1.0{suffix}"), "/", literal) if name == "rsqrt" else literal


def _has_form(name: str, e: Any) -> bool:
    of = element_and_lanes(e.args[0].ty)[0]
    if name in POLYNOMIALS:
        return of.value_bits == 32 and of.kind == "float"
    return name in _LANEWISE or name in ("rsqrt", "fabs")


def float_to_int(printer: VectorPrinter, e: Any, of: Element, to: Element, first: int, width: int) -> Text:
    """A float vector as integers: NaN is 0, what does not fit saturates; a value already clamped is only converted."""
    if of.value_bits != 32 or to.bits > 32 or (to.bits == 32 and to.kind == "uint"):
        return printer.by_lanes(e, first, width)
    low, high = (0, 2**to.bits - 1) if to.kind == "uint" else (-(2 ** (to.bits - 1)), 2 ** (to.bits - 1) - 1)
    kind = "whole" if _within(e.value, low, high) else f"saturated_{to.short}"
    ints = printer.context.need(f"type:i32x{width}")
    a = printer.temporary(printer.type(of, width), printer.vector(e.value, first, width).code)
    value = printer.context.names.unique("t")
    printer.context.emit(f"{ints} {value};")
    printer.context.emit(f"{printer.context.need(f'{kind}:f32x{width}')}(&{a}, &{value});")
    if to.short == "i32":
        return Text(value)
    if to.bits == 8:
        name = printer.context.names.unique("t")
        printer.context.emit(f"{printer.type(to, width)} {name};")
        printer.context.emit(f"{printer.context.need(f'narrow:{to.short}x{width}')}(&{value}, &{name});")
        return Text(name)
    return Text(f"__builtin_convertvector({value}, {printer.type(to, width)})", ATOM)


def _within(e: Any, low: int, high: int) -> bool:
    """Whether `e` is clamped to [low, high] (NaN aside) by a max of a min, or a min of a max."""
    bounds: dict[type, float] = {}
    for _ in range(2):
        if type(e) not in (tirx.Min, tirx.Max):
            break
        constant = e.b.value if isinstance(e.b, tirx.Broadcast) else e.b
        if not isinstance(constant, tirx.FloatImm):
            break
        bounds.setdefault(type(e), float(constant.value))
        e = e.a
    return bounds.get(tirx.Max, low - 1.0) >= low and bounds.get(tirx.Min, high + 1.0) <= high


def has_vector_form(printer: VectorPrinter, e: Any) -> bool:
    """Whether a vector expression prints as vector operations throughout, without a lane-by-lane part."""
    of, lanes = element_and_lanes(e.ty)
    if lanes == 1 or isinstance(e, (tirx.Broadcast, tirx.Ramp, ir.Var)):
        return not isinstance(e, tirx.Ramp) or isinstance(e.stride, tirx.IntImm)
    if isinstance(e, ir.TensorLoad):
        return printer.contiguous(e.source, e.indices) is not None and not printer.place(e.source).of.half
    if isinstance(e, (tirx.FloorDiv, tirx.FloorMod, tirx.Mod, tirx.Shuffle, tirx.Let, tirx.BitwiseNot)):
        return False
    if isinstance(e, tirx.Div) and of.kind != "float":
        return False
    if isinstance(e, (tirx.LShift, tirx.RShift)):
        return isinstance(e.b, tirx.Broadcast) and isinstance(e.b.value, tirx.IntImm) and has_vector_form(printer, e.a)
    if isinstance(e, ir.Call):
        return _call_has_form(printer, e)
    if isinstance(e, tirx.Cast):
        return _cast_has_form(of, element_and_lanes(e.value.ty)[0]) and has_vector_form(printer, e.value)
    if isinstance(e, tirx.Select):
        return all(has_vector_form(printer, part) for part in (e.condition, e.true_value, e.false_value))
    if isinstance(e, tirx.Not):
        return has_vector_form(printer, e.a)
    return has_vector_form(printer, e.a) and has_vector_form(printer, e.b)


def calls_functions(e: Any) -> bool:
    """Whether an expression calls a function that costs more than an element's copy."""
    here = isinstance(e, ir.Call) and operator(e) not in (*_PASSED, "if_then_else")
    return here or any(map(calls_functions, operands(e)))


def _call_has_form(printer: VectorPrinter, e: Any) -> bool:
    name = operator(e)
    if name == "if_then_else":
        scalar = element_and_lanes(e.args[0].ty)[1] == 1
        return scalar and has_vector_form(printer, e.args[1]) and has_vector_form(printer, e.args[2])
    if name in _PASSED or name == "isnan":
        return has_vector_form(printer, e.args[0])
    return len(e.args) == 1 and _has_form(name, e) and has_vector_form(printer, e.args[0])


def _cast_has_form(to: Element, of: Element) -> bool:
    if to.half or (of.half and to.kind != "float"):
        return False
    if of.kind == "float" and to.kind not in ("float", "bool"):
        return of.value_bits == 32 and (to.bits < 32 or to.short == "i32")
    return True
