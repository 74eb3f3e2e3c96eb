"""C expression text with operator precedence: adds parentheses only where C needs them or a compiler warns.

Text knows the variables in it, so that nobody has to read C again: what is made of several texts is made by `code`, and
has the variables of them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self

INDENT = " " * 4
ATOM, UNARY, MUL, ADD, LOOSE, TERNARY = 6, 5, 4, 3, 2, 1

Zero = Literal["", "integer", "float", "vector"]


class Code(str):
    """C text, and the names of the variables that it mentions."""

    __slots__ = ("variables",)

    variables: frozenset[str]

    def __new__(cls, text: str, variables: Iterable[str] = ()) -> Self:
        """`text`, which mentions these variables."""
        made = super().__new__(cls, text)
        made.variables = frozenset(variables)
        return made


class Lvalue(Code):
    """What can be assigned: `variable`, which is the `whole` of it, or one of its elements."""

    __slots__ = ("variable", "whole")

    variable: str
    whole: bool

    @classmethod
    def of(cls, variable: str) -> Lvalue:
        """A variable."""
        return cls._made(Code(variable, (variable,)), variable, whole=True)

    @classmethod
    def in_variable(cls, variable: str, text: Code) -> Lvalue:
        """Elements of a variable, or of what it points to, as C has them."""
        return cls._made(text, variable, whole=False)

    @classmethod
    def element(cls, variable: Code, index: object) -> Lvalue:
        """One element."""
        return cls.in_variable(variable, code("{}[{}]", variable, index))

    @property
    def address(self) -> Address:
        """Its address."""
        return Address.of(self)

    @classmethod
    def _made(cls, text: Code, variable: str, *, whole: bool) -> Lvalue:
        made = cls(text, text.variables)
        made.variable, made.whole = variable, whole
        return made


class Address(Code):
    """The address of a `place`; what is called with it may write there."""

    __slots__ = ("place",)

    place: Lvalue

    @classmethod
    def of(cls, place: Lvalue) -> Address:
        """`&place`."""
        made = cls(f"&{place}", place.variables)
        made.place = place
        return made

    @classmethod
    def first(cls, variable: Code) -> Address:
        """An array, or a pointer, as the address of its first element."""
        made = cls(variable, variable.variables)
        made.place = Lvalue.element(variable, "0")
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
    return Code(template.format(*parts), _variables(parts))


def listed(parts: Iterable[object], between: str = ", ") -> Code:
    """The parts, one after the other."""
    every = [*parts]
    return Code(between.join(map(str, every)), _variables(every))


def _variables(parts: Iterable[object]) -> frozenset[str]:
    codes = (part.code if isinstance(part, Text) else part for part in parts)
    return frozenset().union(*(part.variables for part in codes if isinstance(part, Code)))


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
    return Text(text, level, index, summand=summand, typed=typed, divides=divides)


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
    divides = a.divides or b.divides
    return Text(code("{} {} {}", a.at(ADD), sign, b.at(ADD)), LOOSE, a.index and b.index, divides=divides)


def cast(c_type: str, a: Text) -> Text:
    """`(c_type)a`."""
    zero: Zero = "integer" if a.zero == "integer" else ""
    return Text(code("({}){}", c_type, a.at(UNARY)), UNARY, a.index, zero=zero, divides=a.divides)


def called(function: str, *operands: object, index: bool = False) -> Text:
    """`function(operands)`."""
    divides = any(isinstance(one, Text) and one.divides for one in operands)
    return Text(code("{}({})", function, listed(operands)), ATOM, index, divides=divides)


def zero_vector(c_type: str) -> Text:
    """A vector of zeroes."""
    return Text(code("({}){{0}}", c_type), zero="vector", typed=True)


def vector_literal(c_type: str, lanes: Iterable[object]) -> Text:
    """A vector of other lanes."""
    return Text(code("({}){{{}}}", c_type, listed(lanes)), typed=True)
