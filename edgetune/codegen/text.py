"""C expression text with operator precedence: adds parentheses only where C needs them or a compiler warns.

Text knows the variables in it and what a core does for it, so that nobody has to read C again: what is made of several
texts is made by `code`, and has the variables and the operations of them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self

from edgetune.codegen.work import (
    ARITHMETIC,
    DIVIDE,
    INDEX_DIVISION,
    INSERT,
    LOAD,
    MULTIPLY,
    MULTIPLY_ADD,
    Operation,
    kind_of,
)

INDENT = " " * 4
ATOM, UNARY, MUL, ADD, LOOSE, TERNARY = 6, 5, 4, 3, 2, 1

Zero = Literal["", "integer", "float", "vector"]


class Code(str):
    """C text, the names of the variables that it mentions, and the operations of a core that compute it, in order."""

    __slots__ = ("operations", "variables")

    variables: frozenset[str]
    operations: tuple[Operation, ...]

    def __new__(cls, text: str, variables: Iterable[str] = (), operations: tuple[Operation, ...] = ()) -> Self:
        """`text`, which mentions these variables."""
        made = super().__new__(cls, text)
        made.variables = frozenset(variables)
        made.operations = operations
        return made

    def computed(self, kind: str, of: Code | None = None, elements: int = 1, offset: int = 0) -> Code:
        """The same text as the result of one more operation; `of` is what is computed, if that has another text."""
        result = self if of is None else of
        one = Operation(kind, str(result), result.variables, elements, offset)
        return Code(self, self.variables, (*self.operations, one))


class Lvalue(Code):
    """What can be assigned: `variable`, which is the `whole` of it, or some of its elements, or a `single` one."""

    __slots__ = ("at", "offset", "single", "variable", "whole")

    variable: str
    whole: bool
    single: bool
    offset: int  # elements, beside an index that is computed
    at: tuple[str, int]  # of one element: what is computed of the index, and the constant that it ends in

    @classmethod
    def of(cls, variable: str) -> Lvalue:
        """A variable."""
        return cls._made(Code(variable, (variable,)), variable, whole=True)

    @classmethod
    def in_variable(cls, variable: str, text: Code, offset: int = 0) -> Lvalue:
        """Elements of a variable, or of what it points to, as C has them."""
        return cls._made(text, variable, offset=offset)

    @classmethod
    def element(cls, variable: Code, index: object) -> Lvalue:
        """One element."""
        at = _parts(index)
        made = cls._made(code("{}[{}]", variable, index), variable, single=True, offset=at[1] if at[0] else 0)
        made.at = at
        return made

    @property
    def address(self) -> Address:
        """Its address."""
        return Address.of(self)

    @property
    def value(self) -> Code:
        """What is there, which takes a load or the like unless it is a whole variable."""
        return self if self.whole else self.computed(LOAD, offset=self.offset)

    @classmethod
    def _made(cls, text: Code, variable: str, *, whole: bool = False, single: bool = False, offset: int = 0) -> Lvalue:
        made = cls(text, text.variables, text.operations)
        made.variable, made.whole, made.single, made.offset, made.at = variable, whole, single, offset, ("", 0)
        return made


class Address(Code):
    """The address of a `place`; what is called with it may write there."""

    __slots__ = ("place",)

    place: Lvalue

    @classmethod
    def of(cls, place: Lvalue) -> Address:
        """`&place`."""
        made = cls(f"&{place}", place.variables, place.operations)
        made.place = place
        return made

    @classmethod
    def first(cls, variable: Code) -> Address:
        """An array, or a pointer, as the address of its first element."""
        made = cls(variable, variable.variables, variable.operations)
        made.place = Lvalue.element(variable, Text(Code("0"), constant=0))
        return made


@dataclass(frozen=True)
class Text:
    """An expression. `index` means that it consists only of loop variables and constants, so it cannot overflow.

    `constant` is the value of an integer literal, which is `wide` as INT64_C(1); `summand` is what a constant is added
    to and that constant, where the text ends in it. `zero` tells which zero it is, if its type needs no suffix. `typed`
    means that it begins with a vector literal, so that it has the type of that and not one of unaligned vectors.
    `divides`: it has a quotient or a remainder in it.
    """

    code: Code
    level: int = ATOM
    index: bool = False
    constant: int | None = None
    wide: bool = False
    summand: tuple[Text, int] | None = None
    zero: Zero = ""
    typed: bool = False
    divides: bool = False

    def __str__(self) -> str:
        """The code."""
        return self.code

    @property
    def variable(self) -> Code | None:
        """The variable that it is; None for any other expression."""
        return self.code if self.code in self.code.variables else None

    def at(self, level: int) -> Code:
        """The code, in parentheses if its precedence is lower than `level`."""
        return self.code if self.level >= level else code("({})", self.code)


def code(template: str, *parts: object) -> Code:
    """`template`, as of `str.format`, with the parts in it; it mentions the variables of those that are texts."""
    return _made_of(template.format(*parts), parts)


def listed(parts: Iterable[object], between: str = ", ") -> Code:
    """The parts, one after the other."""
    every = [*parts]
    return _made_of(between.join(map(str, every)), every)


def operation(template: str, *parts: object, kind: str = ARITHMETIC) -> Code:
    """As `code`, and a core takes one more operation for it."""
    offsets = (one.place.offset for one in parts if isinstance(one, Address))
    return code(template, *parts).computed(kind, offset=sum(offsets))


def _parts(index: object) -> tuple[str, int]:
    """What is computed of an index, and the constant that it ends in."""
    if not isinstance(index, Text):
        return str(index), 0
    if index.constant is not None:
        return "", index.constant
    return (str(index), 0) if index.summand is None else (str(index.summand[0]), index.summand[1])


def _made_of(text: str, parts: Iterable[object]) -> Code:
    codes = [part.code if isinstance(part, Text) else part for part in parts]
    texts = [part for part in codes if isinstance(part, Code)]
    variables = frozenset().union(*(part.variables for part in texts))
    return Code(text, variables, sum((part.operations for part in texts), ()))


def joined(a: Text, sign: str, b: Text) -> Text:
    """`a sign b` for + - * / %. Sums and products keep their order, as floats need; indices may drop parentheses."""
    level = MUL if sign in "*/%" else ADD
    index = a.index and b.index
    free = sign == "+" or (sign == "*" and not b.divides)
    after = level if index and free else level + 1
    summand = _summand(a, sign, b) if index and level == ADD else None
    typed = a.typed and a.level >= level
    divides = a.divides or b.divides or sign in "/%"
    text = code("{} {} {}", a.at(level), sign, b.at(after))
    if not index:
        text = _computed(text, sign, a, b)
    elif sign in "/%":
        text = text.computed(INDEX_DIVISION)
    return Text(text, level, index, summand=summand, typed=typed, divides=divides)


def _computed(text: Code, sign: str, a: Text, b: Text) -> Code:
    """`a sign b` as an operation: a product that is added to something is one with the sum."""
    if sign not in "+-":
        return text.computed(_KINDS.get(sign, ARITHMETIC))
    product = next((last for side in (b, a) for last in side.code.operations[-1:] if last.text == side.code), None)
    if product is None or product.kind != MULTIPLY:
        return text.computed(ARITHMETIC)
    left = list(text.operations)
    left.remove(product)
    return Code(text, text.variables, tuple(left)).computed(MULTIPLY_ADD)


_KINDS = {"*": MULTIPLY, "/": DIVIDE, "%": DIVIDE}


def added(target: Code, value: object) -> Code:
    """`target += value;`."""
    plain = value if isinstance(value, Text) else Text(value if isinstance(value, Code) else Code(str(value)))
    return _computed(code("{} += {};", target, value), "+", Text(target), plain)


def _summand(a: Text, sign: str, b: Text) -> tuple[Text, int] | None:
    """The constant that a sum or difference of indices ends in, and what it is added to."""
    if b.constant is not None and not b.wide and b.constant >= 0:
        rest = a if a.level >= ADD else Text(a.at(ADD), ADD, index=True, divides=a.divides)
        return rest, b.constant if sign == "+" else -b.constant
    if sign != "+" or b.summand is None:
        return None
    rest, constant = b.summand
    return joined(a, sign, rest), constant


def compared(a: Text, sign: str, b: Text) -> Text:
    """`a sign b` for comparisons, bit and logic operators: operands are arithmetic or in parentheses."""
    divides, index = a.divides or b.divides, a.index and b.index
    text = code("{} {} {}", a.at(ADD), sign, b.at(ADD))
    return Text(text if index else text.computed(ARITHMETIC), LOOSE, index, divides=divides)


def cast(c_type: str, a: Text) -> Text:
    """`(c_type)a`."""
    zero: Zero = "integer" if a.zero == "integer" else ""
    return Text(code("({}){}", c_type, a.at(UNARY)), UNARY, a.index, zero=zero, divides=a.divides)


def called(function: str, *operands: object, index: bool = False) -> Text:
    """`function(operands)`."""
    divides = any(isinstance(one, Text) and one.divides for one in operands)
    text = code("{}({})", function, listed(operands))
    return Text(text if index else text.computed(kind_of(function)), ATOM, index, divides=divides)


def zero_vector(c_type: str) -> Text:
    """A vector of zeroes."""
    return Text(code("({}){{0}}", c_type), zero="vector", typed=True)


def vector_literal(c_type: str, lanes: Iterable[object]) -> Text:
    """A vector of other lanes."""
    every = [*lanes]
    text = code("({}){{{}}}", c_type, listed(every))
    made = (*text.operations, *(Operation(INSERT, f"{text} {place}", text.variables) for place in range(len(every))))
    return Text(Code(text, text.variables, made), typed=True)
