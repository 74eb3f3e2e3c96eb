"""Vector expression printing: C for TIR vector expressions, one native vector (a piece of the lanes) at a time.

Expressions without a vector version are written lane by lane into a vector literal, so every expression can be printed.
Vectors are typedefs with GCC vector extensions (f32x16); masks are integer vectors of 0 and -1 as wide as the values
they choose between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir, tirx

from edgetune.affine.expressions import is_branch, is_one
from edgetune.codegen import vector_calls
from edgetune.codegen.column_loads import group_in_use, printed_column
from edgetune.codegen.constant_lanes import constant_lanes
from edgetune.codegen.context import BufferStorage, Context
from edgetune.codegen.dtypes import Element, element_and_lanes
from edgetune.codegen.lines import call, constant, declaration, variable
from edgetune.codegen.literals import plus
from edgetune.codegen.memory import is_number
from edgetune.codegen.multiply_add import bytes_of_product, narrow_product
from edgetune.codegen.narrowing import narrowing, printed_limited, printed_narrowing
from edgetune.codegen.scalars import ScalarPrinter
from edgetune.codegen.strided_loads import printed_strided, strided
from edgetune.codegen.text import (
    ADD,
    MUL,
    TERNARY,
    UNARY,
    Address,
    Code,
    Lvalue,
    Text,
    called,
    cast,
    code,
    joined,
    operation,
    vector_literal,
    zero_vector,
)
from edgetune.codegen.vector_calls import MaskPrinter
from edgetune.codegen.vector_division import loads, quotient_or_remainder
from edgetune.codegen.work import BROADCAST, SELECT, VECTOR_LOAD
from edgetune.tvm_types import Expr, TvmBuffer, Var

_BYTE = 8
_LEAST_REGISTER = 64
"""Bits of the smallest vectors that GCC has in registers."""

_ARITHMETIC = {tirx.Add: "+", tirx.Sub: "-", tirx.Mul: "*", tirx.Div: "/"}
_BITS = {tirx.BitwiseAnd: "&", tirx.BitwiseOr: "|", tirx.BitwiseXor: "^"}


class VectorPrinter(ScalarPrinter):
    """Prints lanes [first, first + width) of vector expressions; width 1 is a scalar."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.masks = MaskPrinter(self)
        self.column_groups: frozenset[str] = frozenset()  # of the statement that is being printed
        self.pairs: frozenset[str] = frozenset()  # of the statements that are being printed (see `strided_loads.py`)
        self.together: int | None = None  # number of a group of statements whose loads may be shared; None outside
        self._vector_by_type: dict[type, Callable[[Expr, int, int], Text]] = {
            tirx.Broadcast: self._broadcast_vector,
            tirx.Ramp: self._ramp_vector,
            ir.TensorLoad: self._load_vector,
            ir.Var: self._variable_vector,
            tirx.Cast: self._cast_vector,
            tirx.Select: self._select_vector,
            tirx.Min: lambda e, first, width: self._extreme_vector(e, "min", first, width),
            tirx.Max: lambda e, first, width: self._extreme_vector(e, "max", first, width),
            tirx.LShift: lambda e, first, width: self._shift_vector(e, "<<", first, width),
            tirx.RShift: lambda e, first, width: self._shift_vector(e, ">>", first, width),
            tirx.FloorMod: self._remainder_vector,
            tirx.Let: self._let_vector,
            ir.Call: lambda e, first, width: vector_calls.vector_call(self, e, first, width),
            **dict.fromkeys(_ARITHMETIC, self._arithmetic_vector),
            **dict.fromkeys(_BITS, self._arithmetic_vector),
            **dict.fromkeys(
                (tirx.FloorDiv, tirx.Mod),
                lambda e, first, width: quotient_or_remainder(self, e, first, width),
            ),
        }

    def type(self, of: Element, width: int, kind: str = "value") -> str:
        """Name of a vector type: of values ("value"), of masks of such values ("mask"), or unsigned ("unsigned")."""
        short = of.value_short
        if kind == "mask":
            short = f"i{of.value_bits}"
        elif kind == "unsigned":
            short = f"u{of.value_bits}"
        return self.context.need(f"type:{short}x{width}")

    def vector(self, e: Expr, first: int, width: int) -> Text:
        """C for some lanes of `e`: a vector, or a scalar for width 1. Statements that it needs are emitted first."""
        if width == 1:
            return self.lane_of(e, first)
        of = element_and_lanes(e.ty)[0]
        if of.kind == "bool":
            truth = self.masks.mask(e, first, width, 8)
            return Text(operation("({})({} & 1)", self.context.need(f"type:u8x{width}"), truth.at(ADD)), UNARY)
        printer = self._vector_by_type.get(type(e), self.by_lanes)
        return printer(e, first, width)

    def by_lanes(self, e: Expr, first: int, width: int) -> Text:
        """A vector literal of the lanes, each printed as a scalar."""
        of = element_and_lanes(e.ty)[0]
        lanes = [self.lane_of(e, first + lane) for lane in range(width)]
        return vector_literal(self.type(of, width), lanes)

    def _broadcast_vector(self, e: Expr, _: int, width: int) -> Text:
        return self.splat(self.without_lane(e.value), element_and_lanes(e.ty)[0], width)

    def splat(self, a: Text, of: Element, width: int) -> Text:
        """A vector whose lanes are all `a`. Subtracting +0.0 changes no float, not even -0.0; "|" needs no check."""
        c_type = self.type(of, width)
        if a.zero:
            return zero_vector(c_type)
        if of.kind == "float":
            return Text(operation("({} - {})", a.at(MUL), zero_vector(c_type), kind=BROADCAST))
        return Text(operation("({} | {})", a.at(UNARY), zero_vector(c_type), kind=BROADCAST))

    def operand(self, e: Expr, first: int, width: int) -> Text:
        """Like `vector`, but a broadcast stays a scalar: vector arithmetic accepts one scalar operand."""
        return self.without_lane(e.value) if isinstance(e, tirx.Broadcast) else self.vector(e, first, width)

    def named(self, a: Text, c_type: str, role: str = "operand") -> Code:
        """`a` if it is a variable, otherwise a temporary that holds it, named by its `role`."""
        return a.variable or self.context.temporary(c_type, a, role)

    def blend(self, of: Element, width: int, mask: Code, yes: Text, no: Text) -> Text:
        """Lanes of `yes` where `mask` (a name) is -1, lanes of `no` where it is 0."""
        value, bits = self.type(of, width), self.type(of, width, "mask")
        nothing = no.zero == "vector"
        yes, no = (a if value == bits else cast(bits, a) for a in (yes, no))
        chosen = operation("{} & {}", yes.at(UNARY), mask)
        mixed = chosen if nothing else operation("({}) | ({} & ~{})", chosen, no.at(UNARY), mask)
        return Text(code("({})", mixed)) if value == bits else Text(code("({})({})", value, mixed), UNARY)

    def _arithmetic_vector(self, e: Expr, first: int, width: int) -> Text:
        of = element_and_lanes(e.ty)[0]
        sign = _ARITHMETIC.get(type(e)) or _BITS[type(e)]
        if sign == "/" and of.kind != "float":
            return quotient_or_remainder(self, e, first, width)
        if isinstance(e.a, tirx.Broadcast) and isinstance(e.b, tirx.Broadcast):
            return self.splat(self.without_lane(type(e)(e.a.value, e.b.value)), of, width)
        if of.kind == "int" and sign in "+-*":
            return self._wrapping_arithmetic(e, sign, first, width)
        a, b = self.operand(e.a, first, width), self.operand(e.b, first, width)
        if sign in "&|^":
            return Text(operation("({} {} {})", a.at(UNARY), sign, b.at(UNARY)))
        return joined(a, sign, b)

    def _wrapping_arithmetic(self, e: Expr, sign: str, first: int, width: int) -> Text:
        """Signed sums and products: a multiply-add if the factors are narrow, otherwise unsigned vectors."""
        of = element_and_lanes(e.ty)[0]
        if sign == "+" and (narrow_product(e.a) or narrow_product(e.b)):
            product, other = (e.b, e.a) if narrow_product(e.b) else (e.a, e.b)
            halves = bytes_of_product(product) if width in self.context.vectors.multiply_add_halves else None
            if halves is not None:
                name = self.context.need_macro(f"mac_halves:{of.short}x{width}")
                factors = (self._of_16_bits(one, first, width) for one in halves)
                return called(name, self.vector(other, first, width), *factors)
            a, b = (product.b, product.a) if isinstance(product.b, tirx.Broadcast) else (product.a, product.b)
            name = self.context.need_macro(f"mac:{of.short}x{width}")
            parts = (self.vector(other, first, width), self.operand(a, first, width), self.vector(b, first, width))
            return called(name, *parts)
        a, b = (self._unsigned(side, first, width) for side in (e.a, e.b))
        return cast(self.type(of, width), Text(joined(a, sign, b).code, ADD))

    def _of_16_bits(self, e: Expr, first: int, width: int) -> Text:
        """Bytes as numbers of 16 bits: a vector, or a scalar where all lanes have the same."""
        lanes = element_and_lanes(e.ty)[1]
        if lanes == 1:
            return self.without_lane(tirx.Cast("int16", e))
        return self.vector(tirx.Cast(f"int16x{lanes}", e), first, width)

    def _unsigned(self, e: Expr, first: int, width: int) -> Text:
        """A signed operand as unsigned numbers: a vector, or a scalar for a broadcast."""
        of = element_and_lanes(e.ty)[0]
        if isinstance(e, tirx.Broadcast):
            return cast(f"uint{of.bits}_t", self.without_lane(e.value))
        sign = _ARITHMETIC.get(type(e), "/")
        splat = sign != "/" and isinstance(e.a, tirx.Broadcast) and isinstance(e.b, tirx.Broadcast)
        if sign == "/" or splat:
            return cast(self.type(of, width, "unsigned"), self.vector(e, first, width))
        return joined(self._unsigned(e.a, first, width), sign, self._unsigned(e.b, first, width))

    def _shift_vector(self, e: Expr, sign: str, first: int, width: int) -> Text:
        of = element_and_lanes(e.ty)[0]
        amount = e.b.value if isinstance(e.b, tirx.Broadcast) else None
        if not isinstance(amount, tirx.IntImm) or not 0 <= int(amount.value) < of.bits:
            return self.by_lanes(e, first, width)
        a, c_type = self.vector(e.a, first, width), self.type(of, width)
        if sign == "<<" and of.kind == "int":
            wide = self.type(of, width, "unsigned")
            return Text(operation("({})(({}){} << {})", c_type, wide, a.at(UNARY), int(amount.value)), UNARY)
        return Text(operation("({} {} {})", a.at(UNARY), sign, int(amount.value)))

    def _remainder_vector(self, e: Expr, first: int, width: int) -> Text:
        """The last bits are the remainder by a power of two, also of negative numbers in two's complement."""
        if not vector_calls.keeps_last_bits(e):
            return quotient_or_remainder(self, e, first, width)
        return Text(operation("({} & {})", self.vector(e.a, first, width).at(UNARY), int(e.b.value.value) - 1))

    def _extreme_vector(self, e: Expr, word: str, first: int, width: int) -> Text:
        bounded = isinstance(e.b, tirx.Broadcast)
        role = ("at_least" if bounded else "larger") if word == "max" else "at_most" if bounded else "smaller"
        return self.extreme(e, (e.a, e.b), word, role, first, width)

    def extreme(self, e: Expr, operands: tuple[Expr, Expr], word: str, role: str, first: int, width: int) -> Text:
        """Lanes of `e`, which the snippet v`word` computes from two operands, in a variable named by its `role`."""
        of = element_and_lanes(e.ty)[0]
        c_type = self.type(of, width)
        a, b = (self.vector(operand, first, width) for operand in operands)
        bounded = isinstance(operands[1], tirx.Broadcast)
        value = self.context.local(role, e)
        self.context.emit(variable(c_type, value, a))
        if b.zero == "vector":
            other = code("&{}", b)
        else:
            other = Lvalue.of(self.named(b, c_type, "bound" if bounded else "other")).address
        name = self.context.need(f"v{word}{self._special_case(operands, word, of, width)}:{of.value_short}x{width}")
        self.context.emit(call(name, Lvalue.of(value).address, other))
        return Text(value)

    def _special_case(self, operands: tuple[Expr, Expr], word: str, of: Element, width: int) -> str:
        """What the snippet of an extreme is called where the target has an instruction for operands like these."""
        first, second = operands
        if of.short != "f32" or word not in ("max", "min"):
            return ""
        if width in self.context.vectors.bounded and is_number(second):
            return "_bound"
        number = isinstance(first, ir.TensorLoad) and first.source in self.context.numbers
        return "_running" if number and width in self.context.vectors.running else ""

    def _select_vector(self, e: Expr, first: int, width: int) -> Text:
        of = element_and_lanes(e.ty)[0]
        if element_and_lanes(e.condition.ty)[1] == 1:
            return self.choose_vector(e.condition, e.true_value, e.false_value, first, width)
        known = constant_lanes(e.condition, first, width)
        if known is not None and len(set(known)) == 1:
            return self.vector(e.true_value if known[0] else e.false_value, first, width)
        mask, c_type = self.masks.mask(e.condition, first, width, of.value_bits), self.type(of, width, "mask")
        name = self.named(mask, c_type, "mask") if known is None else self._constant(c_type, mask, "mask")
        yes, no = (self.vector(side, first, width) for side in (e.true_value, e.false_value))
        return self.blend(of, width, name, yes, no)

    def _constant(self, c_type: str, value: Text, role: str) -> Code:
        """The name of a constant, which is declared once in a scope."""
        shared = self.context.shared
        if (key := f"{c_type} {value}") not in shared:
            shared[key] = self.context.names.unique(role)
            self.context.emit(constant(c_type, shared[key], value))
        return shared[key]

    def choose_vector(self, condition: Expr, yes: Expr, no: Expr, first: int, width: int) -> Text:
        """`condition ? yes : no` with a scalar condition: evaluates only the chosen vector, including its loads."""
        of = element_and_lanes(yes.ty)[0]
        chosen = self.without_lane(condition)
        with self.context.captured() as before_yes:
            a = self.vector(yes, first, width)
        with self.context.captured() as before_no:
            b = self.vector(no, first, width)
        if not before_yes and not before_no:
            # Loads have the unaligned type, but GCC requires both arms to have the same type.
            c_type = self.type(of, width)
            a, b = (text if text.typed else cast(c_type, text) for text in (a, b))
            return Text(operation("{} ? {} : {}", chosen.at(UNARY), a, b, kind=SELECT), TERNARY)
        return self.branches(self.type(of, width), chosen, (before_yes, a), (before_no, b))

    def _let_vector(self, e: Expr, first: int, width: int) -> Text:
        self.bind(e.var, e.value)
        return self.vector(e.body, first, width)

    def bind(self, var: Var, value: Expr) -> None:
        """Emit constants for a let-bound variable, one per native vector; ramps and broadcasts are used directly."""
        of, lanes = element_and_lanes(value.ty)
        if lanes == 1:
            super().bind(var, value)
        elif isinstance(value, (tirx.Ramp, tirx.Broadcast)) or of.kind == "bool":
            self.context.variables[var] = value
        else:
            from edgetune.codegen.memory import pieces

            parts = []
            for first, width in pieces(lanes, self.context.lanes_limit):
                text = self.vector(value, first, width)
                c_type = of.value if width == 1 else self.type(of, width)
                name = self.context.temporary(c_type, text, self.context.stems.get(var, var.name))
                parts.append((first, width, name))
            self.context.variables[var] = parts

    def _variable_vector(self, e: Expr, first: int, width: int) -> Text:
        known = self.context.variables.get(e)
        if isinstance(known, list):
            for start, lanes, name in known:
                if (start, lanes) == (first, width):
                    return Text(name)
            return self.by_lanes(e, first, width)
        return self.scalar(e) if known is None or isinstance(known, Text) else self.vector(known, first, width)

    def _ramp_vector(self, e: Expr, first: int, width: int) -> Text:
        of = element_and_lanes(e.ty)[0]
        if not isinstance(e.stride, tirx.IntImm):
            return self.by_lanes(e, first, width)
        stride = int(e.stride.value)
        steps = [(first + lane) * stride for lane in range(width)]
        return joined(self.without_lane(e.base), "+", vector_literal(self.type(of, width), steps))

    # Memory

    def contiguous(self, buffer: TvmBuffer, indices: Sequence[Expr]) -> tuple[Expr, int] | None:
        """(index of the first element, factor) of an access to adjacent elements; None if they are not adjacent."""
        place = self.place(buffer)
        index = self.flat_index(buffer, indices)
        if isinstance(index, ir.Var) and index in self.context.variables:
            known = self.context.variables[index]
            index = known if isinstance(known, tirx.Ramp) else index
        if element_and_lanes(index.ty)[1] == 1:
            return index, place.lanes
        if place.lanes == 1 and isinstance(index, tirx.Ramp) and is_one(index.stride):
            return index.base, 1
        return None

    def pointer(self, buffer: TvmBuffer, start: tuple[Expr, int], first: int) -> Address:
        """Address of element `first` of a contiguous access to memory."""
        index, factor = start
        position = self.without_lane(index * factor if factor > 1 else index)
        text = plus(position, first, element_and_lanes(index.ty)[0])
        name = self.place(buffer).name
        return Address.first(name) if text.zero else Lvalue.element(name, text).address

    def register(self, place: BufferStorage, start: tuple[Expr, int], first: int, width: int) -> Code | None:
        """Name of the register that holds exactly these elements, None if no single one does."""
        index, factor = start
        if place.registers is None or not isinstance(index, tirx.IntImm):
            return None
        name, lanes = place.registers.get(int(index.value) * factor + first, (None, 0))
        return name if lanes == width else None

    def _load_vector(self, e: Expr, first: int, width: int) -> Text:
        place = self.place(e.source)
        start = self.contiguous(e.source, e.indices)
        group = group_in_use(self, e) if start is None else None
        if group is not None:
            return printed_column(self, e, group, first, width)
        steps = strided(self, e, width) if start is None else None
        if steps is not None:
            return printed_strided(self, e, steps, first, width)
        if start is None:
            return self.by_lanes(e, first, width)
        if place.of.half:
            return self._halves(e, start, first, width)
        if place.registers is not None:
            name = self.register(place, start, first, width)
            return Text(name) if name is not None else self._joined_lanes(e, first, width)
        loose = self.context.need(f"type:{place.of.value_short}x{width}u")
        return Text(operation("*(const {} *){}", loose, self.pointer(e.source, start, first), kind=VECTOR_LOAD), UNARY)

    def _joined_lanes(self, e: Expr, first: int, width: int) -> Text:
        """Lanes that are in a register each."""
        of = element_and_lanes(e.ty)[0]
        if of.short != "i32" or width not in self.context.vectors.joined:
            return self.by_lanes(e, first, width)
        lanes = [self.lane_of(e, first + lane) for lane in range(width)]
        name = self.context.local("sums")
        self.context.emit(declaration(self.type(of, width), name))
        self.context.emit(call(self.context.need(f"joined:i32x{width}"), *lanes, Lvalue.of(name).address))
        return Text(name)

    def takes_halves(self, place: BufferStorage, width: int) -> bool:
        """Whether an instruction loads floats of 16 bits from memory, and another one stores them."""
        vectors = self.context.vectors
        whole = self.context.has_float16 and place.of.short == "f16" and place.registers is None
        return whole and width in vectors.from_half and width in vectors.to_half

    def _halves(self, e: Expr, start: tuple[Expr, int], first: int, width: int) -> Text:
        """Floats of 16 bits as vectors of float; constants are converted once per scope."""
        place = self.place(e.source)
        if not self.takes_halves(place, width):
            return self.by_lanes(e, first, width)
        pointer = self.pointer(e.source, start, first)
        shared, key = self.context.shared, f"f32x{width} {pointer}"
        name = shared.get(key)
        if name is None:
            name = self.context.names.unique(f"{place.name}_wide")
            self.context.emit(declaration(self.context.need(f"type:f32x{width}"), name))
            self.context.emit(call(self.context.need(f"from_half:f32x{width}"), pointer, Lvalue.of(name).address))
            if not place.written and not any(map(loads, e.indices)):
                shared[key] = name
        return Text(name)

    def _cast_vector(self, e: Expr, first: int, width: int) -> Text:
        to, of = element_and_lanes(e.ty)[0], element_and_lanes(e.value.ty)[0]
        if to.half or (of.half and to.kind != "float"):
            return self.by_lanes(e, first, width)
        if of.half and of.value_short == to.value_short:
            return self.vector(e.value, first, width)
        if (narrow := narrowing(e)) is not None:
            return printed_narrowing(self, e, narrow, first, width)
        c_type = self.type(to, width)
        if of.kind == "bool":
            truth = self.masks.mask(e.value, first, width, to.value_bits)
            if to.kind != "float":
                return Text(operation("({})({} & 1)", c_type, truth.at(UNARY)), UNARY)
            return _converted(operation("{} & 1", truth.at(UNARY)), c_type)
        if of.kind == "float" and to.kind != "float":
            return vector_calls.float_to_int(self, e, of, to, first, width)
        halves = to.short == "i16" and width in self.context.vectors.widen_halves
        if of.kind in ("int", "uint") and of.bits == 8 and (to.value_bits == 32 or halves):
            return self._widened_bytes(e, of, to, first, width)
        a = self.vector(e.value, first, width)
        if of.value_short == to.value_short:
            return a
        if of.kind != "float" and of.bits == to.bits and to.kind != "float":
            return cast(c_type, a)
        if to.kind == "float" and of.kind != "float" and of.bits < to.value_bits:
            middle = self.context.need(f"type:i{to.value_bits}x{width}")
            a = _converted(a, middle)
        return _converted(a, c_type)

    def _widened_bytes(self, e: Expr, of: Element, to: Element, first: int, width: int) -> Text:
        """8-bit integers as numbers of 16 or 32 bits.

        Those of a branch are widened in it: where they fill no register of 64 bits, GCC widens them one by one.
        """
        if is_branch(e.value) and width * of.bits < _LEAST_REGISTER and element_and_lanes(e.value.args[0].ty)[1] == 1:
            condition, *sides = e.value.args
            yes, no = (tirx.Cast(str(e.ty.dtype), side) for side in sides)
            return self.choose_vector(condition, yes, no, first, width)
        if isinstance(e.value, tirx.Broadcast):
            return self.splat(self.without_lane(tirx.Cast(to.dtype, e.value.value)), to, width)
        limits = isinstance(e.value, tirx.Cast) and width in self.context.vectors.limited
        found = narrowing(e.value) if limits and (of.short, to.short) == ("i8", "i32") else None
        if found is not None and not found.is_float:
            return Text(printed_limited(self, found, first, width))
        return self._widened(e.value, of, to, first, width)

    def _widened(self, e: Expr, of: Element, to: Element, first: int, width: int) -> Text:
        """8-bit integers as numbers of 16 or 32 bits; those loaded from constant memory are widened once per scope."""
        c_type, rest = self.type(to, width), f"{of.short}x{width}"
        halves = to.short == "i16"
        ints = c_type if halves else self.context.need(f"type:i32x{width}")
        start = self.contiguous(e.source, e.indices) if isinstance(e, ir.TensorLoad) else None
        if start is not None and self.place(e.source).registers is None:
            pointer = self.pointer(e.source, start, first)
            shared, key = self.context.shared, f"{ints} {pointer}"
            name = shared.get(key)
            if name is None:
                name = self.context.names.unique(f"{self.place(e.source).name}_wide")
                self.context.emit(declaration(ints, name))
                function = self.context.need(f"{'widen_halves' if halves else 'widen'}:{rest}")
                self.context.emit(call(function, pointer, Lvalue.of(name).address))
                if not self.place(e.source).written and not any(map(loads, e.indices)):
                    shared[key] = name
            a = Text(name)
        elif not halves and (apart := self.bytes_apart(e, width)) is not None:
            name = self.context.names.unique(f"{self.place(e.source).name}_wide")
            self.context.emit(declaration(ints, name))
            pointer = self.pointer(e.source, (apart.base, 1), 0)
            self.context.emit(
                call(self.context.need(f"widen_apart:{rest}"), pointer, str(apart.stride), Lvalue.of(name).address)
            )
            a = Text(name)
        else:
            a = self.vector(e, first, width)
            middle = ints if halves else self.context.need(f"type:{of.short[0]}16x{width}")
            a = _converted(a, middle) if halves else _converted(_converted(a, middle), ints)
        if to.kind == "float":
            return _converted(a, c_type)
        return a if c_type == ints else cast(c_type, a)

    def bytes_apart(self, e: Expr, width: int) -> tirx.Ramp | None:
        """The index of bytes at a constant distance, where an instruction loads them all; else None."""
        if not isinstance(e, ir.TensorLoad) or width not in self.context.vectors.widen_apart:
            return None
        place, index = self.place(e.source), self.flat_index(e.source, e.indices)
        found = isinstance(index, tirx.Ramp) and isinstance(index.stride, tirx.IntImm) and int(index.lanes) == width
        return index if found and place.of.bits == _BYTE and place.registers is None and place.lanes == 1 else None


def _converted(vector: Text | Code, c_type: str) -> Text:
    """The lanes of a vector as another type."""
    return called("__builtin_convertvector", vector, c_type)
