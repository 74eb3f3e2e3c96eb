"""Lowering of scalar intrinsics: TIR calls become compiler builtins of libm, or snippets of our own.

A snippet replaces a function that C does not have, or a slower one. No header is included, so no parameter can shadow a
library function: `__builtin_sinf` is sinf without math.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import ir, tirx

from edgetune.codegen.dtypes import Element, element_and_lanes
from edgetune.codegen.literals import digits
from edgetune.codegen.powers import exponent_of, product, root
from edgetune.codegen.text import ADD, LOOSE, UNARY, Code, Lvalue, Text, called, cast, code, joined, operation
from edgetune.errors import KernelFailed
from edgetune.graph.fixed_point import FIXED_POINT_SCALE, LEAST_SHIFT, LEAST_VECTOR_SHIFT
from edgetune.tvm_types import BufferLoad, Expr

if TYPE_CHECKING:
    from edgetune.codegen.scalars import ScalarPrinter

# In float these are snippets of our own, in double they are libm's.
POLYNOMIALS = frozenset(("exp", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos"))
_UNARY_WORDS = """
exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf
floor ceil trunc nearbyint fabs sqrt cbrt
"""
_UNARY = frozenset(_UNARY_WORDS.split())
_BINARY = frozenset(("pow", "fmod", "atan2", "hypot", "copysign", "nextafter"))
_EXTREMES = frozenset(("maximum", "minimum"))
_OTHER_NAMES = {"round": "nearbyint", "abs": "fabs", "rint": "nearbyint"}
_COUNTS = {"popcount": "popcount", "ctpop": "popcount", "clz": "clz"}
_SHIFTS = {"shift_left": "shl", "shift_right": "shr"}
_BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
_SCALE, _SCALE_DOWN = "fixed_point_scale", "fixed_point_scale_down"
FACTORS = 2
"""Numbers of a scale in a table (see `scale_tables.py`)."""

_SHIFT = 31  # the bits of a scale that shift
_ONCE = "fixed_point_scale_once"
_MOST_SHIFT_ONCE = 16
"""A zero point of 8 bits, 31 + 16 bits to the left, plus a product of two integers of 32 bits is one of 64 bits."""

FIXED_POINT = frozenset((_SCALE, _ONCE))
"""Scaling of integers, see `edgetune.graph.fixed_point`."""
_IGNORED = frozenset(("likely", "assume", "ignore_loop_partition", "filter"))


def operator(e: Expr) -> str:
    """Name of the function that a TIR call calls, without its dialect: "exp", "if_then_else"."""
    name = getattr(e.op, "name", None) or getattr(e.op, "name_hint", "")
    return str(name).rpartition(".")[2]


def scalar_call(printer: ScalarPrinter, e: Expr) -> Text:
    """C for one scalar call, or for the printer's lane of a vector call. KernelFailed names an unknown operator."""
    name = operator(e)
    args = list(e.args)
    if name == "if_then_else":
        return printer.choose(args[0], args[1], args[2])
    if name in _IGNORED:
        return printer.scalar(args[0])
    if name in ("call_extern", "call_pure_extern"):
        return _external(printer, e)
    to = element_and_lanes(e.ty)[0]
    if name == "undef":
        return cast(to.value, digits(0))
    exponent = exponent_of(e) if name == "pow" else None
    if exponent is not None:
        other = root(e, exponent)
        if other is not None:
            return scalar_call(printer, other)
        a = printer.scalar(args[0])
        base = a.variable or printer.context.temporary(to.value, a, "base")
        return Text(code("({})", product(base, exponent, to.value_bits)))
    if scales_down(printer, e):
        name = _SCALE_DOWN
    of = element_and_lanes(args[0].ty)[0]
    values = [printer.scalar(arg) for arg in args[:1]]
    if name == _SCALE_DOWN and (table := scale_address(printer, e)) is not None:
        load = table_load(e)
        assert load is None or printer.place(load.source).scales == "table", "others are limited"  # noqa: S101
        return called(printer.context.need("fixed_point_scale_by:i32"), *values, table)
    values += [printer.scalar(arg) for arg in args[1:]]
    return _operation(printer, name, of, to, values)


def _operation(printer: ScalarPrinter, name: str, of: Element, to: Element, values: list[Text]) -> Text:
    name = _OTHER_NAMES.get(name, name)
    found = _bit_operation(printer, name, of, to, values)
    if found is None and of.kind == "float":
        found = _float_operation(printer, name, of, values)
    if found is None and of.kind in ("int", "uint"):
        found = _integer_operation(printer, name, of, values)
    if found is None and name == "isnan":
        return digits(0)
    if found is None:
        raise KernelFailed(f"the C printer does not know the operator {name!r} on {of.dtype}")
    return cast(to.value, found) if name in _COUNTS and to.value != "int32_t" else found


def _bit_operation(printer: ScalarPrinter, name: str, of: Element, to: Element, values: list[Text]) -> Text | None:
    need, a = printer.context.need, values[0]
    if name == "reinterpret":
        return _reinterpreted(printer, of, to, a)
    if name in _COUNTS:
        return called(need(f"{_COUNTS[name]}:{of.value_short}"), a)
    if name in _SHIFTS:
        return called(need(f"{_SHIFTS[name]}:{of.value_short}"), a, values[1])
    if name in _BITS:
        return cast(to.value, Text(operation("{} {} {}", a.at(ADD), _BITS[name], values[1].at(ADD)), LOOSE))
    if name == "bitwise_not":
        return cast(to.value, Text(operation("~{}", a.at(UNARY)), UNARY))
    return None


def table_load(call: Expr) -> BufferLoad | None:
    """The load of the scale of a call that scales; None for other calls, and for a scale in the code."""
    if not isinstance(call, ir.Call) or getattr(call.op, "name", "") != FIXED_POINT_SCALE:
        return None
    scale = call.args[1].value if isinstance(call.args[1], tirx.Broadcast) else call.args[1]
    return scale if isinstance(scale, ir.TensorLoad) else None


def scale_address(printer: ScalarPrinter, call: Expr, first: int | None = None) -> Text | None:
    """Where both factors of the scale of a call lie; None where they are one number.

    The scale is that of lane `first` of a vector, or else of the lane that is printed.
    """
    load = table_load(call)
    if load is None or printer.place(load.source).scales not in ("table", "byte table"):
        return None
    index = printer.flat_index(load.source, load.indices)
    index = index.base + first if first is not None and isinstance(index, tirx.Ramp) else index
    index = printer.context.analyzer.simplify(index * FACTORS)
    return Text(Lvalue.element(printer.place(load.source).name, printer.scalar(index)).address)


def scales_down(printer: ScalarPrinter, call: Expr, lanes: int = 1) -> bool:
    """Whether a call scales numbers of so many lanes by so many bits that it takes fewer instructions."""
    if operator(call) != _SCALE or not printer.context.vectors.scale_down:
        return False
    scale = call.args[1].value if isinstance(call.args[1], tirx.Broadcast) else call.args[1]
    if isinstance(scale, tirx.IntImm):
        return int(scale.value) & _SHIFT >= (LEAST_SHIFT if lanes == 1 else LEAST_VECTOR_SHIFT)
    return isinstance(scale, ir.TensorLoad) and bool(printer.place(scale.source).scales)


def scales_once(printer: ScalarPrinter, call: Expr) -> bool:
    """Whether a call scales by a constant, rounded once, by so many bits that a zero point adds to the product."""
    if operator(call) != _ONCE or not printer.context.vectors.scaled_byte_once:
        return False
    scale = call.args[1].value if isinstance(call.args[1], tirx.Broadcast) else call.args[1]
    return isinstance(scale, tirx.IntImm) and 1 <= int(scale.value) & _SHIFT <= _MOST_SHIFT_ONCE


def _integer_operation(printer: ScalarPrinter, name: str, of: Element, values: list[Text]) -> Text | None:
    need = printer.context.need
    if name in (*FIXED_POINT, _SCALE_DOWN, "q_multiply_shift"):
        return called(need(f"{name}:i32"), *values)
    if name == "pow":
        return called(need(f"pow:{of.value_short}"), *values)
    if name == "fabs" and of.kind == "int":
        return called(need(f"abs:{of.value_short}"), *values)
    return values[0] if name in ("fabs", "floor", "ceil", "trunc", "nearbyint") else None


def _float_operation(printer: ScalarPrinter, name: str, of: Element, values: list[Text]) -> Text | None:
    need, double = printer.context.need, of.value_bits == 64
    suffix = "" if double else "f"
    if name in ("isnan", "isinf", "isfinite"):
        return Text(operation("__builtin_{}({}) != 0", name, values[0]), LOOSE)
    if name in _EXTREMES:
        return called(need(f"{name}:{of.value_short}"), *values)
    if name in POLYNOMIALS and not double:
        return called(need(f"{name}:f32"), *values)
    if name == "sigmoid":
        return called(need("sigmoid:f64"), *values)
    if name == "rsqrt":
        return joined(Text(Code(f"1.0{suffix}")), "/", called(f"__builtin_sqrt{suffix}", *values))
    if name == "exp10":
        return called(f"__builtin_pow{suffix}", f"10.0{suffix}", *values)
    if name == "ldexp":
        return called(f"__builtin_ldexp{suffix}", values[0], code("(int){}", values[1].at(UNARY)))
    if name == "fma" or (name in _UNARY and len(values) == 1) or (name in _BINARY and len(values) == 2):
        return called(f"__builtin_{name}{suffix}", *values)
    return None


def _external(printer: ScalarPrinter, e: Expr) -> Text:
    name = str(e.args[0].value)
    values = [printer.scalar(arg) for arg in list(e.args)[1:]]
    of = element_and_lanes(e.ty)[0]
    single = name.endswith("f") and name[:-1] in _UNARY | _BINARY | {
        "round",
        "rint",
        "roundeven",
        "fmin",
        "fmax",
        "fma",
    }
    base = name[:-1] if single else name
    if base not in _UNARY | _BINARY | {"round", "rint", "roundeven", "fmin", "fmax", "fma"}:
        raise KernelFailed(f"the kernel calls {name!r}, which is not a function of the C mathematics library")
    operands = element_and_lanes(e.args[1].ty)[0]
    if (operands.value_bits == 64) == single or of.value_bits != operands.value_bits:
        raise KernelFailed(f"the kernel calls {name!r} with {operands.dtype}, which that function does not take")
    if base == "roundeven":
        base = "nearbyint"
    return called(f"__builtin_{base}{'f' if single else ''}", *values)


def _reinterpreted(printer: ScalarPrinter, of: Element, to: Element, a: Text) -> Text:
    if of.half or to.half or of.kind == "bool" or to.kind == "bool" or of.bits != to.bits:
        raise KernelFailed(f"reinterpreting {of.dtype} as {to.dtype} cannot be printed")
    if of.short == to.short:
        return a
    if of.kind != "float" and to.kind != "float":
        return cast(to.value, a)
    return called(printer.context.need(f"reinterpret:{of.short}_{to.short}"), a)
