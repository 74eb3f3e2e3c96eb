"""C expression text with operator precedence: adds parentheses only where C needs them or a compiler warns."""

from __future__ import annotations

from dataclasses import dataclass

INDENT = " " * 4
ATOM, UNARY, MUL, ADD, LOOSE, TERNARY = 6, 5, 4, 3, 2, 1


@dataclass(frozen=True)
class Text:
    """An expression. `index` means that it consists only of loop variables and constants, so it cannot overflow."""

    code: str
    level: int = ATOM
    index: bool = False

    def at(self, level: int) -> str:
        """The code, in parentheses if its precedence is lower than `level`."""
        return self.code if self.level >= level else f"({self.code})"


def joined(a: Text, sign: str, b: Text) -> Text:
    """`a sign b` for + - * / %. Sums and products keep their order, as floats need; indices may drop parentheses."""
    level = MUL if sign in "*/%" else ADD
    index = a.index and b.index
    free = sign == "+" or (sign == "*" and "/" not in b.code and "%" not in b.code)
    return Text(f"{a.at(level)} {sign} {b.at(level if index and free else level + 1)}", level, index)


def compared(a: Text, sign: str, b: Text) -> Text:
    """`a sign b` for comparisons, bit and logic operators: operands are arithmetic or in parentheses."""
    return Text(f"{a.at(ADD)} {sign} {b.at(ADD)}", LOOSE, a.index and b.index)


def cast(c_type: str, a: Text) -> Text:
    """`(c_type)a`."""
    return Text(f"({c_type}){a.at(UNARY)}", UNARY, a.index)
