"""Values of an index at places: each expression is evaluated for many places at once.

Floats have the arithmetic of their type. Integers of 32 bits have 64: an index that overflows is no index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import ir, tirx

from edgetune.tvm_types import Expr, Node, Var

Values = np.ndarray
"""A value for each place; arrays of several axes broadcast against each other."""

COMPARISONS: Mapping[type[Node], Callable[[Values, Values], Values]] = {
    tirx.LT: np.less,
    tirx.LE: np.less_equal,
    tirx.GT: np.greater,
    tirx.GE: np.greater_equal,
    tirx.EQ: np.equal,
    tirx.NE: np.not_equal,
}


class _UnknownError(Exception):
    """An expression has another operator than those below, another variable, or divides by what it may not."""


def values_at(node: Expr, places: Mapping[Var, Values]) -> Values | None:
    """What `node` is at `places` of its variables: one value for each combination of places, or a single one.

    None where it depends on anything else, divides by 0, cuts a quotient of integers below 0, as C does, or makes an
    integer of a float that has none. Lanes of a vector are known where it depends on no place.
    """
    try:
        return _value(node, places)
    except _UnknownError:
        return None


def integers_at(node: Expr, places: Mapping[Var, Values]) -> Values | None:
    """The integers, or truth values, that `node` is at `places`: for each combination, whether it changes or not."""
    found = values_at(node, places)
    if found is None or found.dtype.kind == "f":
        return None
    return np.broadcast_to(found, np.broadcast_shapes(found.shape, *(known.shape for known in places.values())))


def _value(node: Expr, places: Mapping[Var, Values]) -> Values:
    if isinstance(node, ir.Var):
        found = next((known for variable, known in places.items() if node.same_as(variable)), None)
        if found is None:
            raise _UnknownError
        return found
    if isinstance(node, tirx.IntImm | tirx.FloatImm):
        return np.asarray(node.value, dtype=_type_of(node))
    if isinstance(node, tirx.Cast):
        return _cast(_value(node.value, places), np.dtype(_type_of(node)))
    if isinstance(node, tirx.Not):
        return np.asarray(np.logical_not(_value(node.a, places)))
    if isinstance(node, tirx.Select):
        parts = (node.condition, node.true_value, node.false_value)
        return np.asarray(np.where(*(_value(part, places) for part in parts)))
    if isinstance(node, tirx.Ramp | tirx.Broadcast) and places:
        raise _UnknownError  # lanes are no dimension of places
    if isinstance(node, tirx.Ramp):
        return _value(node.base, places) + _value(node.stride, places) * np.arange(int(node.lanes))
    if isinstance(node, tirx.Broadcast):
        return np.broadcast_to(_value(node.value, places), int(node.lanes))
    if isinstance(node, ir.Call):
        function = _FUNCTIONS.get(str(getattr(node.op, "name", "")).rpartition(".")[2])
        if function is None or len(node.args) != 1:
            raise _UnknownError
        return np.asarray(function(_value(node.args[0], places)))
    operator = _OPERATORS.get(type(node))
    if operator is None:
        raise _UnknownError
    return np.asarray(operator(_value(node.a, places), _value(node.b, places)))


def _cast(values: Values, to: np.dtype[Any]) -> Values:
    """Values of another type. Raises _UnknownError for floats that are no integers of it."""
    if values.dtype.kind == "f" and to.kind in "iu":
        limits = np.iinfo(to)
        if not np.all(np.isfinite(values)) or np.any(values < limits.min) or np.any(values >= float(limits.max)):
            raise _UnknownError
    return values.astype(to)


_TYPES = {"bool": "bool", "int32": "int64", "float16": "float16", "float32": "float32", "float64": "float64"}
_TYPES |= {one: one for one in ("int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64")}


def _type_of(node: Expr) -> str:
    """The numpy type of an element; indices have 64 bits, as places have them. Raises _UnknownError."""
    found = _TYPES.get(str(node.ty.dtype).partition("x")[0])
    if found is None:
        raise _UnknownError
    return found


def _cut(a: Values, b: Values) -> Values:
    """A quotient in C, where that of integers is cut. Raises _UnknownError for integers below 0, and for 0."""
    if a.dtype.kind == "f":
        if not np.all(b):
            raise _UnknownError
        return np.asarray(a / b)
    if np.any(a < 0) or np.any(b < 0):
        raise _UnknownError
    return _floor_divided(a, b)


def _floor_divided(a: Values, b: Values) -> Values:
    if a.dtype.kind == "f" or not np.all(b):
        raise _UnknownError
    return np.asarray(a // b)


def _remainder(a: Values, b: Values) -> Values:
    if a.dtype.kind == "f" or not np.all(b):
        raise _UnknownError
    return np.asarray(a % b)


_FUNCTIONS: Mapping[str, Callable[[Values], Values]] = {"ceil": np.ceil, "floor": np.floor, "nearbyint": np.rint}
_OPERATORS: Mapping[type[Node], Callable[[Values, Values], Values]] = {
    tirx.Add: np.add,
    tirx.Sub: np.subtract,
    tirx.Mul: np.multiply,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
    tirx.And: np.logical_and,
    tirx.Or: np.logical_or,
    tirx.Div: _cut,
    tirx.FloorDiv: _floor_divided,
    tirx.FloorMod: _remainder,
    **COMPARISONS,
}
