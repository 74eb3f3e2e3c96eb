"""Lowering of vector calls: TIR calls and masks as vector C, and the test if an expression can be vectorised.

Masks represent truth values of vector expressions: integer vectors of 0 and -1, of any element width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import ir, tirx

from edgetune.affine.expressions import operands
from edgetune.codegen.column_loads import group_in_use
from edgetune.codegen.constant_lanes import constant_lanes
from edgetune.codegen.context import CallResult
from edgetune.codegen.dtypes import Element, element_and_lanes
from edgetune.codegen.intrinsics import FIXED_POINT, POLYNOMIALS, operator, scale_address, scales_down, table_load
from edgetune.codegen.lines import call, declaration, variable
from edgetune.codegen.powers import exponent_of, product, root
from edgetune.codegen.strided_loads import strided
from edgetune.codegen.text import UNARY, Code, Lvalue, Text, called, code, joined, operation, vector_literal
from edgetune.codegen.vector_division import DIVISIONS, divides_by_constant
from edgetune.codegen.vector_snippets import ROUNDINGS
from edgetune.codegen.work import VECTOR_LOAD
from edgetune.tvm_types import Expr

if TYPE_CHECKING:
    from edgetune.codegen.vectors import VectorPrinter

_COMPARISONS = {tirx.EQ: "==", tirx.NE: "!=", tirx.LT: "<", tirx.LE: "<=", tirx.GT: ">", tirx.GE: ">="}


def _truth(e: Expr) -> Expr | None:
    """The truth value that a comparison with zero asks of its number, as the condition of an ONNX Where; or None."""
    positive = {tirx.LT: (e.a, e.b), tirx.GT: (e.b, e.a), tirx.NE: (e.b, e.a)}.get(type(e))
    if positive is None:
        return None
    zero, number = positive
    zero = zero.value if isinstance(zero, tirx.Broadcast) else zero
    if not isinstance(zero, tirx.IntImm) or zero.value != 0 or not isinstance(number, tirx.Cast):
        return None
    return number.value if element_and_lanes(number.value.ty)[0].kind == "bool" else None


class MaskPrinter:
    """Prints lanes of boolean vector expressions as masks."""

    def __init__(self, printer: VectorPrinter) -> None:
        self.printer = printer

    def mask(self, e: Expr, first: int, width: int, bits: int) -> Text:
        """Mask of `width` lanes with elements of `bits` bits."""
        known = constant_lanes(e, first, width)
        if known is None:
            return self._varying(e, first, width, bits)
        return vector_literal(self._type(bits, width), [-lane for lane in known])

    def _varying(self, e: Expr, first: int, width: int, bits: int) -> Text:
        kind = type(e)
        if kind in (tirx.And, tirx.Or):
            a, b = (self.mask(side, first, width, bits).at(UNARY) for side in (e.a, e.b))
            return Text(operation("({} {} {})", a, "&" if kind is tirx.And else "|", b))
        if kind is tirx.Not:
            return Text(operation("~{}", self.mask(e.a, first, width, bits).at(UNARY)), UNARY)
        if kind is tirx.Broadcast:
            truth = self.printer.without_lane(e.value)
            return Text(operation("(({}){{0}} - (int{}_t){})", self._type(bits, width), bits, truth.at(UNARY)))
        if kind in _COMPARISONS:
            return self._comparison(e, first, width, bits)
        if kind is tirx.Cast and element_and_lanes(e.value.ty)[0].kind != "bool":
            of = element_and_lanes(e.value.ty)[0]
            value = self.printer.vector(e.value, first, width).at(UNARY)
            return self._as_mask(operation("{} != 0", value), of, width, bits)
        if kind is tirx.Cast:
            return self.mask(e.value, first, width, bits)
        if kind is ir.Call and operator(e) == "isnan":
            of = element_and_lanes(e.args[0].ty)[0]
            name = self.printer.named(self.printer.vector(e.args[0], first, width), self.printer.type(of, width))
            return self._as_mask(operation("{} != {}", name, name), of, width, bits)
        if kind is ir.Var and not isinstance(self.printer.context.variables.get(e), (Text, list, type(None))):
            return self.mask(self.printer.context.variables[e], first, width, bits)
        if kind is ir.TensorLoad:
            return self._load(e, first, width, bits)
        # Where int is wider, the result of the minus has to be converted back.
        template = "-(int{0}_t){1}" if bits >= 32 else "(int{0}_t)(-(int{0}_t){1})"
        lanes = [operation(template, bits, self.printer.lane_of(e, first + lane).at(UNARY)) for lane in range(width)]
        return vector_literal(self._type(bits, width), lanes)

    def _type(self, bits: int, width: int) -> str:
        return self.printer.context.need(f"type:i{bits}x{width}")

    def _as_mask(self, comparison: Code, of: Element, width: int, bits: int) -> Text:
        text = code("({})({})", self._type(of.value_bits, width), comparison)
        if of.value_bits == bits:
            return Text(text, UNARY)
        return called("__builtin_convertvector", text, self._type(bits, width))

    def _comparison(self, e: Expr, first: int, width: int, bits: int) -> Text:
        of = element_and_lanes(e.a.ty)[0]
        truth = _truth(e)
        if truth is not None:
            return self.mask(truth, first, width, bits)
        if of.kind == "bool":
            a, b = (self.mask(side, first, width, bits).at(UNARY) for side in (e.a, e.b))
            if type(e) is tirx.NE:
                return Text(operation("({} ^ {})", a, b))
            if type(e) is tirx.EQ:
                return Text(operation("~({} ^ {})", a, b), UNARY)
        a, b = (self.printer.vector(side, first, width).at(UNARY) for side in (e.a, e.b))
        return self._as_mask(operation("{} {} {}", a, _COMPARISONS[type(e)], b), of, width, bits)

    def _load(self, e: Expr, first: int, width: int, bits: int) -> Text:
        start = self.printer.contiguous(e.source, e.indices)
        if start is None or self.printer.place(e.source).registers is not None:
            single = [self.printer.lane_of(e, first + lane).at(UNARY) for lane in range(width)]
            lanes = [operation("(int{}_t)-{}", bits, lane) for lane in single]
            return vector_literal(self._type(bits, width), lanes)
        loose, pointer = self.printer.context.need(f"type:u8x{width}u"), self.printer.pointer(e.source, start, first)
        loaded = operation("*(const {} *){}", loose, pointer, kind=VECTOR_LOAD)
        text = operation("({})({} != 0)", self._type(8, width), loaded)
        if bits == 8:
            return Text(text, UNARY)
        return called("__builtin_convertvector", text, self._type(bits, width))


_ROUNDINGS = {**{word: word for word in sorted(ROUNDINGS)}, "round": "nearbyint"}
# Of float64, they are vector literals, of which compilers may make one instruction (of roots with -fno-math-errno).
_LANEWISE = {"sqrt": "sqrt", **_ROUNDINGS}
_RESULTS = {
    "exp": "exponential",
    "log": "logarithm",
    "log1p": "logarithm",
    "tanh": "tangent",
    "sigmoid": "sigmoid",
    "erf": "error",
    "sin": "sine",
    "cos": "cosine",
    **dict.fromkeys(_ROUNDINGS, "rounded"),
    "sqrt": "root",
}
_FUNCTIONS = {**_LANEWISE, "rsqrt": "sqrt"}
_EXTREMES = {"maximum": "larger", "minimum": "smaller"}
_PASSED = ("likely", "ignore_loop_partition")


def vector_call(printer: VectorPrinter, e: Expr, first: int, width: int) -> Text:
    """Lanes [first, first + width) of a call."""
    name = operator(e)
    of = element_and_lanes(e.ty)[0]
    if name == "if_then_else" and element_and_lanes(e.args[0].ty)[1] == 1:
        return printer.choose_vector(e.args[0], e.args[1], e.args[2], first, width)
    if name in _PASSED:
        return printer.vector(e.args[0], first, width)
    if name in FIXED_POINT:
        return _scaled(printer, e, first, width)
    if of.kind != "float" or not _has_form(name, e):
        return printer.by_lanes(e, first, width)
    if name in _EXTREMES:
        return printer.extreme(e, (e.args[0], e.args[1]), name, _EXTREMES[name], first, width)
    c_type = printer.type(of, width)
    exponent = exponent_of(e) if name == "pow" else None
    if exponent is not None:
        other = root(e, exponent)
        if other is not None:
            return vector_call(printer, other, first, width)
        base = printer.named(printer.vector(e.args[0], first, width), c_type, "base")
        return Text(code("({})", product(base, exponent, of.value_bits)))
    if name in POLYNOMIALS or (name in _FUNCTIONS and of.value_bits == 32):
        value = printer.context.result_of(e, first, width) or _called(printer, e, first, width)
        return joined(Text(Code("1.0f")), "/", Text(value)) if operator(e) == "rsqrt" else Text(value)
    a = printer.vector(e.args[0], first, width)
    if name == "fabs":
        mask = printer.type(of, width, "mask")
        limit = "0x7fffffff" if of.value_bits == 32 else "INT64_C(0x7fffffffffffffff)"
        return Text(operation("({})(({}){} & {})", c_type, mask, a.at(UNARY), limit), UNARY)
    kept = printer.named(a, c_type)
    suffix = "" if of.value_bits == 64 else "f"
    function = f"__builtin_{_LANEWISE.get(name, 'sqrt')}{suffix}"
    literal = vector_literal(c_type, [called(function, Lvalue.element(kept, lane).value) for lane in range(width)])
    return joined(Text(Code(f"1.0{suffix}")), "/", literal) if name == "rsqrt" else literal


def _called(printer: VectorPrinter, e: Expr, first: int, width: int) -> Code:
    """The variable that a function has replaced by its result."""
    context, of = printer.context, element_and_lanes(e.ty)[0]
    name = _FUNCTIONS.get(operator(e), operator(e))
    a = printer.vector(e.args[0], first, width)
    value = context.local(_RESULTS[name], e)
    context.emit(variable(printer.type(of, width), value, a))
    kind = f"{of.value_short}x{width}"
    if name in POLYNOMIALS:
        context.call_of_vector(name, kind, value)
    else:
        context.emit(call(context.need(f"{name}:{kind}"), Lvalue.of(value).address))
    if context.results is not None:
        context.results.append(CallResult(e, first, width, value))
    return value


def _scaled(printer: VectorPrinter, e: Expr, first: int, width: int) -> Text:
    """Lanes of integers that are scaled in fixed point."""
    of, scale_of = element_and_lanes(e.ty)[0], element_and_lanes(e.args[1].ty)[0]
    factors = _factors_of_scale(printer, e, first, width)
    if factors is not None:
        kind, operand = factors
        value = printer.context.local("scaled", e)
        printer.context.emit(variable(printer.type(of, width), value, printer.vector(e.args[0], first, width)))
        function = printer.context.need(f"vscale_{kind}:i32x{width}")
        printer.context.emit(call(function, Lvalue.of(value).address, operand))
        return Text(value)
    x, scale = (printer.vector(operand, first, width) for operand in e.args)
    name = printer.named(scale, printer.type(scale_of, width), "scale")
    value = printer.context.local("scaled", e)
    printer.context.emit(variable(printer.type(of, width), value, x))
    function = printer.context.need(f"v{operator(e)}:i32x{width}")
    printer.context.emit(call(function, Lvalue.of(value).address, Lvalue.of(name).address))
    return Text(value)


def _factors_of_scale(printer: VectorPrinter, e: Expr, first: int, width: int) -> tuple[str, Text] | None:
    """How lanes are scaled where that is no scale of each lane: by factors from a table on, or down by one scale."""
    load, address = table_load(e), scale_address(printer, e, first)
    if load is not None and address is not None:
        of_all = "all_" if isinstance(e.args[1], tirx.Broadcast) else ""
        return of_all + ("little" if printer.place(load.source).scales == "byte table" else "by"), address
    same = isinstance(e.args[1], tirx.Broadcast) and isinstance(e.args[1].value, tirx.IntImm)
    if same and scales_down(printer, e, width) and width in printer.context.vectors.scale_down:
        return "down", printer.without_lane(e.args[1].value)
    return None


def _has_form(name: str, e: Expr) -> bool:
    of = element_and_lanes(e.args[0].ty)[0]
    if name in POLYNOMIALS:
        return of.value_bits == 32 and of.kind == "float"
    if name == "pow":
        return exponent_of(e) is not None
    return name in _LANEWISE or name in _EXTREMES or name in ("rsqrt", "fabs")


def float_to_int(printer: VectorPrinter, e: Expr, of: Element, to: Element, first: int, width: int) -> Text:
    """A float vector as integers: NaN gives 0, values out of range saturate; a clamped value is only converted."""
    if of.value_bits != 32 or to.bits > 32 or (to.bits == 32 and to.kind == "uint"):
        return printer.by_lanes(e, first, width)
    low, high = (0, 2**to.bits - 1) if to.kind == "uint" else (-(2 ** (to.bits - 1)), 2 ** (to.bits - 1) - 1)
    kind = "whole" if _within(e.value, low, high) else f"saturated_{to.short}"
    ints = printer.context.need(f"type:i32x{width}")
    a = printer.context.temporary(printer.type(of, width), printer.vector(e.value, first, width), "real")
    value = printer.context.local("whole", e if to.short == "i32" else None)
    printer.context.emit(declaration(ints, value))
    addresses = Lvalue.of(a).address, Lvalue.of(value).address
    printer.context.emit(call(printer.context.need(f"{kind}:f32x{width}"), *addresses))
    if to.short == "i32":
        return Text(value)
    if to.bits == 8:
        name = printer.context.local("narrow", e)
        printer.context.emit(declaration(printer.type(to, width), name))
        addresses = Lvalue.of(value).address, Lvalue.of(name).address
        printer.context.emit(call(printer.context.need(f"narrow:{to.short}x{width}"), *addresses))
        return Text(name)
    return called("__builtin_convertvector", value, printer.type(to, width))


def _within(e: Expr, low: int, high: int) -> bool:
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


def has_vector_form(printer: VectorPrinter, e: Expr) -> bool:
    """Whether a vector expression prints completely as vector operations, without a lane-by-lane part."""
    of, lanes = element_and_lanes(e.ty)
    if lanes == 1 or isinstance(e, (tirx.Broadcast, tirx.Ramp, ir.Var)):
        return not isinstance(e, tirx.Ramp) or isinstance(e.stride, tirx.IntImm)
    if isinstance(e, ir.TensorLoad):
        return _load_has_form(printer, e, lanes)
    if isinstance(e, tirx.Not) or keeps_last_bits(e):
        return has_vector_form(printer, e.a)
    if isinstance(e, (tirx.Shuffle, tirx.Let, tirx.BitwiseNot)):
        return False
    if isinstance(e, DIVISIONS) and of.kind != "float":
        return divides_by_constant(e) and has_vector_form(printer, e.a)
    if isinstance(e, (tirx.LShift, tirx.RShift)):
        return isinstance(e.b, tirx.Broadcast) and isinstance(e.b.value, tirx.IntImm) and has_vector_form(printer, e.a)
    if isinstance(e, ir.Call):
        return _call_has_form(printer, e)
    if isinstance(e, tirx.Cast):
        widened = of.value_bits == 32 and printer.bytes_apart(e.value, lanes) is not None
        return widened or (_cast_has_form(of, element_and_lanes(e.value.ty)[0]) and has_vector_form(printer, e.value))
    if isinstance(e, tirx.Select):
        return all(has_vector_form(printer, part) for part in (e.condition, e.true_value, e.false_value))
    return has_vector_form(printer, e.a) and has_vector_form(printer, e.b)


def keeps_last_bits(e: Expr) -> bool:
    """Whether a value is the remainder of integers by a power of two."""
    if (
        not isinstance(e, tirx.FloorMod)
        or not isinstance(e.b, tirx.Broadcast)
        or not isinstance(e.b.value, tirx.IntImm)
    ):
        return False
    return int(e.b.value.value).bit_count() == 1 and int(e.b.value.value) > 0


def _load_has_form(printer: VectorPrinter, e: Expr, lanes: int) -> bool:
    if printer.contiguous(e.source, e.indices) is not None:
        place = printer.place(e.source)
        return not place.of.half or printer.takes_halves(place, min(lanes, printer.context.lanes_limit))
    in_steps = strided(printer, e, min(lanes, printer.context.lanes_limit)) is not None
    return in_steps or group_in_use(printer, e) is not None


def calls_functions(e: Expr) -> bool:
    """Whether an expression calls a function that costs more than copying an element."""
    here = isinstance(e, ir.Call) and operator(e) not in (*_PASSED, "if_then_else")
    return here or any(map(calls_functions, operands(e)))


def _call_has_form(printer: VectorPrinter, e: Expr) -> bool:
    name = operator(e)
    if name == "if_then_else":
        scalar = element_and_lanes(e.args[0].ty)[1] == 1
        return scalar and has_vector_form(printer, e.args[1]) and has_vector_form(printer, e.args[2])
    if name in _PASSED or name == "isnan":
        return has_vector_form(printer, e.args[0])
    if name in FIXED_POINT:
        return all(has_vector_form(printer, operand) for operand in e.args)
    varying = e.args[:1] if name == "pow" else e.args
    known = len(e.args) == 1 or name == "pow" or name in _EXTREMES
    return known and _has_form(name, e) and all(has_vector_form(printer, operand) for operand in varying)


def _cast_has_form(to: Element, of: Element) -> bool:
    if to.half or (of.half and to.kind != "float"):
        return False
    if of.kind == "float" and to.kind not in ("float", "bool"):
        return of.value_bits == 32 and (to.bits < 32 or to.short == "i32")
    return True
