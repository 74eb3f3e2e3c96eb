"""Constant lanes: the numbers of a vector expression that depends on no variable, such as which lanes overlap."""

from __future__ import annotations

from edgetune.affine.values import integers_at
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.tvm_types import Expr


def constant_lanes(e: Expr, first: int, width: int) -> list[int] | None:
    """The integers in lanes [first, first + width) of `e`, 0 or 1 for truth values; None if they are not constant."""
    found = integers_at(e, {})
    if found is None:
        return None
    _, lanes = element_and_lanes(e.ty)
    values = [int(one) for one in (found.reshape(-1) if lanes > 1 else [found])]
    return values[first : first + width] if lanes > 1 else values * width
