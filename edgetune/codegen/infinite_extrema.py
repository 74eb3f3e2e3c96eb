"""Maxima that start from minus infinity, and minima that start from infinity, as reductions that threads may share.

TVM divides a reduction among threads only where it knows its combiner and its start. It knows maxima and minima that
start from the largest finite numbers, which are wrong where all elements are infinite; here it learns the others, and
those that find the place of an extreme.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import inf

import tvm_ffi
from tvm import tirx

from edgetune.graph.places_of_extremes import PLACES_OF_EXTREMES, PlaceOfExtreme
from edgetune.tvm_types import Expr, Var

_REGISTER = "s_tir.schedule.RegisterReducer"


@cache
def register_infinite_extrema() -> None:
    """Tell TVM of them; they are known to all later schedules and passes of this process.

    The functions are global ones of TVM, which are never freed: its table of reductions is freed after the interpreter.
    """
    register = tvm_ffi.get_global_func(_REGISTER)
    for name, joined, start, whole in (
        ("edgetune.maximum", tirx.max, -inf, tirx.min_value),
        ("edgetune.minimum", tirx.min, inf, tirx.max_value),
    ):
        tvm_ffi.register_global_func(f"{name}.joined", _combiner(joined), override=True)
        tvm_ffi.register_global_func(f"{name}.start", _identity(start, whole), override=True)
        register(1, *(tvm_ffi.get_global_func(f"{name}.{part}") for part in ("joined", "start")))
    for kind in PLACES_OF_EXTREMES:
        name = f"edgetune.{kind.name}"
        tvm_ffi.register_global_func(f"{name}.joined", _pairs_joined(kind), override=True)
        tvm_ffi.register_global_func(f"{name}.start", _first_pair(kind), override=True)
        register(2, *(tvm_ffi.get_global_func(f"{name}.{part}") for part in ("joined", "start")))


def _combiner(joined: Callable[[Var, Var], Expr]) -> Callable[[Sequence[Var], Sequence[Var]], list[Expr]]:
    return lambda left, right: [joined(left[0], right[0])]


def _pairs_joined(kind: PlaceOfExtreme) -> Callable[[Sequence[Var], Sequence[Var]], list[Expr]]:
    return lambda left, right: list(kind.joined((left[0], left[1]), (right[0], right[1])))


def _first_pair(kind: PlaceOfExtreme) -> Callable[[Sequence[Expr]], list[Expr]]:
    return lambda values: list(kind.start(*(str(value.ty) for value in values)))


def _identity(start: float, whole: Callable[[str], Expr]) -> Callable[[Sequence[Expr]], list[Expr]]:
    """The start of a reduction of such values: infinite for floats, the end of their range for whole numbers."""

    def identity(values: Sequence[Expr]) -> list[Expr]:
        dtype = str(values[0].ty)
        return [tirx.const(start, dtype) if "float" in dtype else whole(dtype)]

    return identity
