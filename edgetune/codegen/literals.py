"""Constants as C literals of exactly their type and value."""

from __future__ import annotations

import math
import re

import numpy as np

from edgetune.codegen.dtypes import Element
from edgetune.codegen.text import ADD, ATOM, UNARY, Text, joined


def float_literal(value: float, of: Element) -> Text:
    """A float constant: hexadecimal if decimal digits might be inexact, so that it is bit exact."""
    double = of.value_bits == 64
    value = value if double else float(np.float32(value))
    if math.isnan(value):
        return Text('__builtin_nan("")' if double else '__builtin_nanf("")')
    if math.isinf(value):
        text = "__builtin_inf()" if double else "__builtin_inff()"
        return Text(text) if value > 0 else Text(f"-{text}", UNARY)
    suffix = "" if double else "f"
    if value == int(value) and abs(value) < 1e6 and not (value == 0 and math.copysign(1, value) < 0):
        text = f"{value:.1f}{suffix}"
    else:
        mantissa, exponent = float(value).hex().split("p")
        head, _, digits = mantissa.partition(".")
        text = f"{head}.{digits.rstrip('0') or '0'}p{int(exponent):+d}{suffix}"
    return Text(text, UNARY if text.startswith("-") else ATOM)


def int_literal(value: int, of: Element) -> Text:
    """An integer constant of exactly the type; narrow types get a cast."""
    if of.bits == 64:
        if value == -(2**63):
            return Text("(-INT64_C(9223372036854775807) - 1)")
        return Text(f"{'U' if of.kind == 'uint' else ''}INT64_C({value})", ATOM, True)
    if of.kind == "bool":
        return Text("1" if value else "0", ATOM, True)
    if value == -(2**31):
        return Text("(-2147483647 - 1)")
    if of.bits == 32:
        text = f"{value}u" if of.kind == "uint" else str(value)
        return Text(text, UNARY if value < 0 else ATOM, True)
    return Text(f"({of.value}){value}" if value >= 0 else f"({of.value})({value})", UNARY, True)


_LAST_STEP = re.compile(r"(.*[^ ]) ([+-]) (\d+)$")


def plus(base: Text, step: int | str, of: Element) -> Text:
    """`base + step` for indices, with constants combined; `step` is a number or the name of a variable."""
    if isinstance(step, str):
        return joined(base, "+", Text(step, ATOM, True))
    if step == 0:
        return base
    constant = re.fullmatch(r"(?:INT64_C\()?(-?\d+)\)?", base.code)
    if constant is not None:
        return int_literal(int(constant[1]) + step, of)
    last = _LAST_STEP.match(base.code) if base.level == ADD and base.index else None
    if last is not None:
        return plus(Text(last[1], ADD, True), int(last[2] + last[3]) + step, of)
    sign = "+" if step > 0 else "-"
    return joined(base, sign, int_literal(abs(step), of))
