"""Scalar expression printing: C for TIR expressions, or for one lane of a vector expression.

Every expression has exactly the C type of its TIR dtype (value type, see `dtypes`), so no value is converted silently.
Integer arithmetic on data wraps; index arithmetic, whose range is known, is printed plainly.

`ElementPrinter` accesses single elements of buffers: in memory, or in the registers that replace a small buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tvm import ir, tirx

from edgetune.affine.expressions import loads_in
from edgetune.codegen import intrinsics
from edgetune.codegen.constant_lanes import constant_lanes
from edgetune.codegen.context import BufferStorage, Context
from edgetune.codegen.dtypes import Element, element_and_lanes
from edgetune.codegen.lines import CLOSING, ELSE, Line, assignment, branch, declaration
from edgetune.codegen.literals import float_literal, int_literal, plus
from edgetune.codegen.narrowing import printed_scaled_byte
from edgetune.codegen.subexpression_names import is_step
from edgetune.codegen.text import (
    ADD,
    LOOSE,
    MUL,
    TERNARY,
    UNARY,
    Code,
    Lvalue,
    Text,
    called,
    cast,
    code,
    compared,
    joined,
    operation,
)
from edgetune.codegen.work import DIVIDE, INDEX_DIVISION, SELECT
from edgetune.errors import KernelFailed
from edgetune.tvm_types import Expr, TvmBuffer, Var


def wrapped(a: Text, sign: str, b: Text, of: Element) -> Text:
    """C for a sum, a difference or a product of data of one type, which wraps where that is an integer."""
    if of.kind == "float" or (of.kind == "uint" and of.bits >= 32):
        return joined(a, sign, b)
    wide = "uint64_t" if of.bits == 64 else "uint32_t"
    return cast(of.value, Text(joined(cast(wide, a), sign, cast(wide, b)).code, ADD))


class ElementPrinter:
    """The part of the scalar printer that reads and writes memory. `lane` is as in `ScalarPrinter`."""

    context: Context
    lane: int | Code | None

    if TYPE_CHECKING:

        def scalar(self, e: Expr) -> Text:
            """See ScalarPrinter."""

        def without_lane(self, e: Expr) -> Text:
            """See ScalarPrinter."""

    def place(self, buffer: TvmBuffer) -> BufferStorage:
        """The storage of `buffer`; KernelFailed if nothing allocated it."""
        found = self.context.places.get(buffer)
        if found is None:
            raise KernelFailed(f"buffer {buffer.name} is used, but no parameter or allocation defines it")
        return found

    def flat_index(self, buffer: TvmBuffer, indices: Sequence[Expr]) -> Expr:
        """The single index of an access in elements of the buffer: row-major if there are several indices."""
        if len(indices) == 0:
            return tirx.IntImm("int32", 0)
        index = indices[0]
        for extent, following in zip(list(buffer.ty.shape)[1:], list(indices)[1:], strict=True):
            index = index * extent + following
        return index

    def element_text(self, buffer: TvmBuffer, indices: Sequence[Expr]) -> Lvalue:
        """The C lvalue of one element: of a scalar access, or of lane `self.lane` of a vector access."""
        place = self.place(buffer)
        index = self.flat_index(buffer, indices)
        _, index_lanes = element_and_lanes(index.ty)
        within: int | Code = 0
        if place.lanes > 1:
            if index_lanes > 1:
                raise KernelFailed(f"buffer {buffer.name} of vectors is indexed by a vector")
            within = self.lane if self.lane is not None else 0
            position = self.without_lane(index * place.lanes)
            position = plus(position, within, element_and_lanes(index.ty)[0]) if within != 0 else position
        else:
            position = self.scalar(index)
        if place.registers is None:
            return Lvalue.element(place.name, position)
        wanted = position.constant
        for first, (name, width) in place.registers.items():
            if wanted is not None and first <= wanted < first + width:
                return Lvalue.of(name) if width == 1 else Lvalue.element(name, wanted - first)
        raise KernelFailed(f"element {position} of {buffer.name} has no register")

    def _load(self, e: Expr) -> Text:
        place = self.place(e.source)
        text = self.element_text(e.source, e.indices)
        if place.registers is not None:
            return Text(text.value, index=e.source in self.context.counters)
        if place.of.half:
            return called(self.context.need(f"from_{place.of.short}:f32"), text.value)
        return Text(operation("{} != 0", text.value), LOOSE) if place.of.kind == "bool" else Text(text.value)

    def stored(self, value: Text, place: BufferStorage) -> Text:
        """The C expression that is assigned to an element of `place` to store `value`."""
        if place.registers is None and place.of.half:
            return called(self.context.need(f"to_{place.of.short}:f32"), value)
        return cast("uint8_t", value) if place.of.kind == "bool" else value


_COMPARISONS = {tirx.EQ: "==", tirx.NE: "!=", tirx.LT: "<", tirx.LE: "<=", tirx.GT: ">", tirx.GE: ">="}
_ARITHMETIC = {tirx.Add: "+", tirx.Sub: "-", tirx.Mul: "*"}
_BITS = {tirx.BitwiseAnd: "&", tirx.BitwiseOr: "|", tirx.BitwiseXor: "^"}
_DIVISIONS = {tirx.Div: "div", tirx.Mod: "mod", tirx.FloorDiv: "floordiv", tirx.FloorMod: "floormod"}


class ScalarPrinter(ElementPrinter):
    """Prints scalar expressions. `lane` is a vector expression's lane: a number, or the name of a C variable."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.lane: int | Code | None = None
        self._by_type: dict[type, Callable[[Expr], Text]] = {
            ir.Var: self._variable,
            tirx.IntImm: lambda e: int_literal(int(e.value), element_and_lanes(e.ty)[0]),
            tirx.FloatImm: lambda e: float_literal(float(e.value), element_and_lanes(e.ty)[0]),
            ir.TensorLoad: self._load,
            tirx.Cast: self._cast,
            tirx.Not: lambda e: Text(operation("!{}", self.scalar(e.a).at(UNARY)), UNARY),
            tirx.And: lambda e: compared(self.scalar(e.a), "&&", self.scalar(e.b)),
            tirx.Or: lambda e: compared(self.scalar(e.a), "||", self.scalar(e.b)),
            tirx.Select: lambda e: self.choose(e.condition, e.true_value, e.false_value),
            tirx.Ramp: self._ramp,
            tirx.Broadcast: lambda e: self.without_lane(e.value),
            tirx.Shuffle: self._shuffle,
            tirx.Let: self._let,
            tirx.Min: lambda e: self._extreme(e, "min"),
            tirx.Max: lambda e: self._extreme(e, "max"),
            tirx.LShift: lambda e: self._shift(e, "shl"),
            tirx.RShift: lambda e: self._shift(e, "shr"),
            tirx.BitwiseNot: self._bitwise_not,
            ir.Call: self._call,
            **dict.fromkeys(_COMPARISONS, self._comparison),
            **dict.fromkeys(_ARITHMETIC, self._arithmetic),
            **dict.fromkeys(_BITS, self._bits),
            **dict.fromkeys(_DIVISIONS, self._division),
        }

    def scalar(self, e: Expr) -> Text:
        """C for `e` (or for lane `self.lane` of it); statements that it needs are emitted first."""
        printer = self._by_type.get(type(e))
        if printer is None:
            raise KernelFailed(f"the C printer does not know the expression {type(e).__name__}: {str(e)[:80]}")
        return printer(e)

    def lane_of(self, e: Expr, lane: int | Code) -> Text:
        """C for one lane of a vector expression."""
        outer, self.lane = self.lane, lane
        try:
            return self.scalar(e)
        finally:
            self.lane = outer

    def without_lane(self, e: Expr) -> Text:
        """C for a scalar expression inside a vector one: a base, a condition, a broadcast value."""
        outer, self.lane = self.lane, None
        try:
            return self.scalar(e)
        finally:
            self.lane = outer

    def _variable(self, e: Expr) -> Text:
        known = self.context.variables.get(e)
        if known is None:
            raise KernelFailed(f"variable {e.name} is used, but no loop or let defines it")
        if isinstance(known, Text):
            return known
        return self._vector_variable(known)

    def _vector_variable(self, known: list[tuple[int, int, Code]] | Expr) -> Text:
        if isinstance(known, list):  # (first lane, lanes, C variable) of each piece
            if not isinstance(self.lane, int):
                raise KernelFailed("a vector variable is used at a lane that is not constant")
            for first, width, name in known:
                if first <= self.lane < first + width:
                    return Text(name if width == 1 else Lvalue.element(name, self.lane - first).value)
        return self.scalar(known)  # a TIR expression that replaces it

    def _ramp(self, e: Expr) -> Text:
        lane = self.lane
        base = self.without_lane(e.base)
        if lane is None or lane == 0:
            return base
        stride = self.without_lane(e.stride)
        of, _ = element_and_lanes(e.ty)
        step = int_literal(lane, of) if isinstance(lane, int) else Text(lane, index=True)
        if of.bits == 64 and isinstance(lane, Code):
            step = cast(of.value, step)
        if isinstance(e.stride, tirx.IntImm) and isinstance(lane, int):
            return plus(base, lane * int(e.stride.value), of)
        return joined(base, "+", step if stride.constant == 1 and not stride.wide else joined(step, "*", stride))

    def _shuffle(self, e: Expr) -> Text:
        index = e.indices[self.lane if isinstance(self.lane, int) else 0]
        if not isinstance(index, tirx.IntImm) or isinstance(self.lane, Code):
            raise KernelFailed("a shuffle with indices that are not constant cannot be printed")
        wanted = int(index.value)
        for vector in e.vectors:
            _, lanes = element_and_lanes(vector.ty)
            if wanted < lanes:
                return self.lane_of(vector, wanted) if lanes > 1 else self.without_lane(vector)
            wanted -= lanes
        raise KernelFailed("a shuffle takes a lane that its vectors do not have")

    def _let(self, e: Expr) -> Text:
        self.bind(e.var, e.value)
        return self.scalar(e.body)

    def bind(self, var: Var, value: Expr) -> None:
        """Emit a constant for a let-bound variable (for vectors see `VectorPrinter`)."""
        of, _ = element_and_lanes(value.ty)
        text = self.without_lane(value)
        if text.index and of.short == "i32" and is_step(value):
            self.context.variables[var] = text  # inline use is shorter than a name
        else:
            name = self.context.temporary(of.value, text, self.context.stems.get(var, var.name))
            self.context.variables[var] = Text(name, index=text.index)
        if text.index and of.kind in ("int", "uint") and not loads_in([value]):  # what is loaded may change
            self.context.analyzer.bind(var, value)
            self.context.iterations.bind(var, value)

    def _comparison(self, e: Expr) -> Text:
        return compared(self.scalar(e.a), _COMPARISONS[type(e)], self.scalar(e.b))

    def _arithmetic(self, e: Expr) -> Text:
        sign, of = _ARITHMETIC[type(e)], element_and_lanes(e.ty)[0]
        a, b = self.scalar(e.a), self.scalar(e.b)
        if of.kind == "float":
            return joined(a, sign, b)
        if of.kind == "bool":
            return compared(a, {"+": "||", "*": "&&", "-": "!="}[sign], b)
        if a.index and b.index and of.bits >= 32:
            if sign in "+-" and isinstance(e.b, tirx.IntImm):
                return plus(a, int(f"{sign}1") * int(e.b.value), of)
            return joined(a, sign, b)
        if of.bits >= 32 and self._fits(e, of):
            return joined(a, sign, b)
        return wrapped(a, sign, b, of)

    def _fits(self, e: Expr, of: Element) -> bool:
        if element_and_lanes(e.ty)[1] > 1:
            return False
        bound = self.context.analyzer.const_int_bound(e)
        return bool(bound.min_value >= -(2 ** (of.bits - 1)) and bound.max_value < 2 ** (of.bits - 1) and of.bits == 32)

    def _bits(self, e: Expr) -> Text:
        of = element_and_lanes(e.ty)[0]
        text = compared(self.scalar(e.a), _BITS[type(e)], self.scalar(e.b))
        return cast(of.value, text) if of.bits < 32 and of.kind != "bool" else text

    def _bitwise_not(self, e: Expr) -> Text:
        of = element_and_lanes(e.ty)[0]
        a = self.scalar(e.a)
        if of.kind == "bool":
            return Text(operation("!{}", a.at(UNARY)), UNARY)
        return cast(of.value, Text(operation("~{}", a.at(UNARY)), UNARY))

    def _extreme(self, e: Expr, word: str) -> Text:
        of = element_and_lanes(e.ty)[0]
        a, b = self.scalar(e.a), self.scalar(e.b)
        if of.kind == "bool":
            return compared(a, "||" if word == "max" else "&&", b)
        name = self.context.need(f"{word}:{of.value_short}")
        return called(name, a, b, index=a.index and b.index)

    def _shift(self, e: Expr, word: str) -> Text:
        of = element_and_lanes(e.ty)[0]
        name = self.context.need(f"{word}:{of.value_short}")
        return called(name, self.scalar(e.a), self.scalar(e.b))

    def _division(self, e: Expr) -> Text:
        of = element_and_lanes(e.ty)[0]
        word = _DIVISIONS[type(e)]
        known = None if isinstance(self.lane, Code) or of.bits < 32 else constant_lanes(e, self.lane or 0, 1)
        if known is not None:
            return int_literal(known[0], of)
        a, b = self.scalar(e.a), self.scalar(e.b)
        if of.kind == "float":
            if word == "div":
                return joined(a, "/", b)
            raise KernelFailed(f"{word} of floating-point values is not defined")
        constant = isinstance(e.b, tirx.IntImm) and int(e.b.value) > 0 and of.bits >= 32
        if constant and (of.kind == "uint" or word in ("div", "mod") or self._not_negative(e.a)):
            sign = "/" if "div" in word else "%"
            text = code("{} {} {}", a.at(UNARY), sign, b.at(UNARY))
            kind = INDEX_DIVISION if a.index else DIVIDE
            return Text(text.computed(kind), MUL, a.index, divides=True)
        return called(self.context.need(f"{word}:{of.value_short}"), a, b, index=a.index and b.index)

    def _not_negative(self, e: Expr) -> bool:
        if element_and_lanes(e.ty)[1] > 1:
            return (
                isinstance(e, tirx.Ramp)
                and isinstance(e.stride, tirx.IntImm)
                and int(e.stride.value) >= 0
                and (self._not_negative(e.base))
            )
        return bool(self.context.analyzer.const_int_bound(e).min_value >= 0)

    def _cast(self, e: Expr) -> Text:
        if (byte := printed_scaled_byte(self, e)) is not None:
            return byte
        to, source = element_and_lanes(e.ty)[0], element_and_lanes(e.value.ty)[0]
        a = self.scalar(e.value)
        if to.kind == "bool":
            return a if source.kind == "bool" else Text(operation("{} != 0", a.at(ADD)), LOOSE)
        if to.half:
            a = a if source.value == "float" else cast("float", a)
            return a if source.short == to.short else self._rounded(a, to)
        if source.kind == "float" and to.kind != "float":
            return called(self.context.need(f"{source.value_short}_to:{to.short}"), a)
        return a if source.value == to.value else cast(to.value, a)

    def _rounded(self, a: Text, to: Element) -> Text:
        stored = self.context.need(f"to_{to.short}:f32")
        loaded = self.context.need(f"from_{to.short}:f32")
        return called(loaded, called(stored, a))

    def choose(self, condition: Expr, yes: Expr, no: Expr) -> Text:
        """`condition ? yes : no`; evaluates only the chosen operand, including the statements that it needs."""
        chosen = self.without_lane(condition) if element_and_lanes(condition.ty)[1] == 1 else self.scalar(condition)
        with self.context.captured() as before_yes:
            a = self.scalar(yes)
        with self.context.captured() as before_no:
            b = self.scalar(no)
        if not before_yes and not before_no:
            # The condition is in parentheses, because compilers warn about a comparison before "?".
            divides = chosen.divides or a.divides or b.divides
            text = operation("{} ? {} : {}", chosen.at(UNARY), a.at(LOOSE), b.at(LOOSE), kind=SELECT)
            return Text(text, TERNARY, a.index and b.index, divides=divides)
        return self.branches(element_and_lanes(yes.ty)[0].value, chosen, (before_yes, a), (before_no, b))

    def branches(self, c_type: str, condition: Text, yes: tuple[list[Line], Text], no: tuple[list[Line], Text]) -> Text:
        """Emit an `if` that gives a new variable a value; each branch has lines, captured here, before its value.

        A call in a branch stays single: what others would wait for lies in the branch.
        """
        name = self.context.local("chosen")
        self.context.emit(declaration(c_type, name))
        self.context.emit(branch(code("if ({}) {{", condition)))
        for number, (lines, value) in enumerate((yes, no)):
            if number:
                self.context.emit(ELSE)
            self.context.lines += [replace(line, depth=line.depth + 1, single=True) for line in lines]
            with self.context.indented():
                self.context.emit(assignment(Lvalue.of(name), value))
        self.context.emit(CLOSING)
        return Text(name)

    def _call(self, e: Expr) -> Text:
        return intrinsics.scalar_call(self, e)
