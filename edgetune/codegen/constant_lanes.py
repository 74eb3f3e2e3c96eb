"""Constant lanes: the numbers of a vector expression that depends on no variable, such as which lanes overlap."""

from __future__ import annotations

import operator
from collections.abc import Callable

from tvm import tirx

from edgetune.graph.tvm_types import Expr

_OPERATIONS: dict[type, Callable[[int, int], int]] = {
    tirx.Add: operator.add,
    tirx.Sub: operator.sub,
    tirx.Mul: operator.mul,
    tirx.FloorDiv: lambda a, b: a // b if b else 0,
    tirx.FloorMod: lambda a, b: a % b if b else 0,
    tirx.EQ: operator.eq,
    tirx.NE: operator.ne,
    tirx.LT: operator.lt,
    tirx.LE: operator.le,
    tirx.GT: operator.gt,
    tirx.GE: operator.ge,
    tirx.And: operator.and_,
    tirx.Or: operator.or_,
}


def constant_lanes(e: Expr, first: int, width: int) -> list[int] | None:
    """The integers in lanes [first, first + width) of `e`, 0 or 1 for truth values; None if they are not constant."""
    if isinstance(e, tirx.IntImm):
        return [int(e.value)] * width
    if isinstance(e, tirx.Broadcast):
        return constant_lanes(e.value, 0, width)
    if isinstance(e, tirx.Ramp):
        base, stride = constant_lanes(e.base, 0, 1), constant_lanes(e.stride, 0, 1)
        if base is None or stride is None:
            return None
        return [base[0] + stride[0] * (first + lane) for lane in range(width)]
    if isinstance(e, tirx.Not):
        inner = constant_lanes(e.a, first, width)
        return None if inner is None else [1 - lane for lane in inner]
    if type(e) not in _OPERATIONS:
        return None
    a, b = (constant_lanes(side, first, width) for side in (e.a, e.b))
    if a is None or b is None:
        return None
    return [int(_OPERATIONS[type(e)](one, other)) for one, other in zip(a, b, strict=True)]
