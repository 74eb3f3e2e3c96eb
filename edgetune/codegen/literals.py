"""Constants as C literals of exactly their type and value."""

from __future__ import annotations

import math

import numpy as np

from edgetune.codegen.dtypes import Element
from edgetune.codegen.text import ATOM, UNARY, Code, Text, called, code, joined


def float_literal(value: float, of: Element) -> Text:
    """A float constant: hexadecimal if decimal digits might be inexact, so that it is bit exact."""
    double = of.value_bits == 64
    value = value if double else float(np.float32(value))
    if math.isnan(value):
        return Text(Code('__builtin_nan("")' if double else '__builtin_nanf("")'))
    if math.isinf(value):
        infinity = called("__builtin_inf" if double else "__builtin_inff")
        return infinity if value > 0 else Text(code("-{}", infinity), UNARY)
    suffix = "" if double else "f"
    if value == int(value) and abs(value) < 1e6 and not (value == 0 and math.copysign(1, value) < 0):
        text = f"{value:.1f}{suffix}"
    else:
        mantissa, exponent = float(value).hex().split("p")
        head, _, digits = mantissa.partition(".")
        text = f"{head}.{digits.rstrip('0') or '0'}p{int(exponent):+d}{suffix}"
    negative = math.copysign(1, value) < 0
    return Text(Code(text), UNARY if negative else ATOM, zero="" if value or negative else "float")


def int_literal(value: int, of: Element) -> Text:
    """An integer constant of exactly the type; narrow types get a cast."""
    if of.bits == 64:
        if value == -(2**63):
            return Text(Code("(-INT64_C(9223372036854775807) - 1)"))
        if of.kind == "uint":
            return Text(Code(f"UINT64_C({value})"), index=True)
        return Text(Code(f"INT64_C({value})"), index=True, constant=value, wide=True)
    if of.kind == "bool":
        return digits(int(bool(value)))
    if value == -(2**31):
        return Text(Code("(-2147483647 - 1)"))
    if of.bits == 32 and of.kind == "uint":
        return Text(Code(f"{value}u"), UNARY if value < 0 else ATOM, index=True)
    if of.bits == 32:
        return digits(value)
    number = Code(str(value) if value >= 0 else f"({value})")
    return Text(code("({}){}", of.value, number), UNARY, index=True, zero="" if value else "integer")


def digits(value: int) -> Text:
    """An int32 constant, a truth value, or a number without a type."""
    level = UNARY if value < 0 else ATOM
    return Text(Code(str(value)), level, index=True, constant=value, zero="" if value else "integer")


def plus(base: Text, step: int | Code, of: Element) -> Text:
    """`base + step` for indices, with constants combined; `step` is a number or the name of a variable."""
    if isinstance(step, Code):
        return joined(base, "+", Text(step, index=True))
    if step == 0:
        return base
    if base.constant is not None:
        return int_literal(base.constant + step, of)
    if base.summand is not None:
        rest, constant = base.summand
        return plus(rest, constant + step, of)
    sign = "+" if step > 0 else "-"
    return joined(base, sign, int_literal(abs(step), of))
