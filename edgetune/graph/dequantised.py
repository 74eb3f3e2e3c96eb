"""Dequantised integers: what a tensor of floats or of int32 is made of, in the forms that the importers write.

`edgetune.frontend.onnx.converters.quantisation` writes these chains: change both together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
import tvm
from tvm import relax

from edgetune.graph.rewrite import DefUse, attributes, constant, constant_of

LAYOUT_MOVES = ("relax.reshape", "relax.permute_dims")
"""Operators that give the elements of a tensor other places."""
SCALED = "float32"
"""The type of scales, and of what is dequantised."""
_STORED = ("int8", "uint8", "int16", "uint16")


@dataclass(frozen=True)
class Dequantised:
    """(integers - zero_point) * scale, with one zero point and one scale, or one for each channel.

    Integers of a range that is found at run time have their zero point in `computed_zero`, a tensor of one element that
    was a number of their type; `zero_point` is 0 then.
    """

    integers: relax.Expr
    zero_point: np.ndarray
    scale: np.ndarray
    computed_zero: relax.Expr | None = None

    @property
    def is_uniform(self) -> bool:
        """Whether all integers have one scale and one zero point, so that they may be moved."""
        return self.scale.size == 1 and self.zero_point.size == 1

    def of(self, integers: relax.Expr, dtype: str) -> relax.Expr:
        """Other integers with the zero point and the scale of these, which must be uniform, in floats or int32."""
        value = relax.op.astype(integers, "int32")
        if self.computed_zero is not None:
            value = relax.op.subtract(value, relax.op.reshape(self.computed_zero, []))
        elif self.zero_point.any():
            value = relax.op.subtract(value, constant_of(self.zero_point.reshape(())))
        if dtype == "int32":
            return value
        return relax.op.multiply(relax.op.astype(value, dtype), constant_of(self.scale.reshape(())))


def dequantised(expr: relax.Expr, chains: DefUse) -> Dequantised | None:
    """What a tensor of float32 or int32 is made of, of int32 without a scale; None if it is computed in another way."""
    found = _made_of(expr, chains)
    return found if found is not None and _shape(found.integers) == _shape(expr) else None


def _shape(expr: relax.Expr) -> list[int]:
    return [int(extent) for extent in expr.ty.shape]


def _made_of(expr: relax.Expr, chains: DefUse) -> Dequantised | None:
    dtype = str(expr.ty.dtype)
    if dtype == "int32":
        return _narrow_constant(expr) or _centred_integers(expr, chains, np.ones((), SCALED))
    product = chains.call(expr, "relax.multiply") if dtype == SCALED else None
    scale = constant(product.args[1]) if product is not None else None
    widened = chains.call(product.args[0], "relax.astype") if product is not None else None
    return None if scale is None or widened is None else _centred_integers(widened.args[0], chains, scale)


def _narrow_constant(expr: relax.Expr) -> Dequantised | None:
    """A constant of int32 whose numbers fit 8 bits: constant folding widens small constants."""
    value, ends = constant(expr), np.iinfo("int8")
    if value is None or value.min(initial=0) < ends.min or value.max(initial=0) > ends.max:
        return None
    return Dequantised(constant_of(value.astype("int8")), np.zeros((), "int32"), np.ones((), SCALED))


def _centred_integers(inner: relax.Expr, chains: DefUse, scale: np.ndarray) -> Dequantised | None:
    zero_point, computed = np.zeros((), "int32"), None
    difference = chains.call(inner, "relax.subtract")
    if difference is not None:
        inner, subtracted = difference.args
        value = constant(subtracted)
        if value is None:
            computed = subtracted
        else:
            zero_point = value
    integers = chains.call(inner, "relax.astype")
    if integers is None or str(integers.args[0].ty.dtype) not in _STORED:
        return None
    if computed is not None and not _is_number_of(computed, str(integers.args[0].ty.dtype), chains):
        return None
    return Dequantised(integers.args[0], zero_point, scale, computed)


Known: TypeAlias = "Mapping[int, np.ndarray] | None"
"""Parameters of `main` that are constants, by number."""


def known_parameters(module: tvm.IRModule, known: Known) -> dict[relax.Var, np.ndarray]:
    """The values of parameters of `main` that are constants."""
    return {module["main"].params[number]: array for number, array in (known or {}).items()}


def _is_number_of(expr: relax.Expr, dtype: str, chains: DefUse) -> bool:
    """Whether a tensor is one number of a narrow type, widened."""
    if prod(int(extent) for extent in expr.ty.shape) != 1:
        return False
    while (moved := chains.call(expr, "relax.reshape")) is not None:
        expr = moved.args[0]
    cast = chains.call(expr, "relax.astype")
    return cast is not None and str(cast.args[0].ty.dtype) == dtype


def known_value(expr: relax.Expr, chains: DefUse, known: Mapping[relax.Var, np.ndarray]) -> np.ndarray | None:
    """The value of a constant, maybe moved or of another type; None where it is computed at run time."""
    call = chains.call(expr, *LAYOUT_MOVES, "relax.astype")
    if call is None:
        return known.get(expr) if isinstance(expr, relax.Var) else constant(expr)
    source = known_value(call.args[0], chains, known)
    if source is None:
        return None
    if call.op.name == "relax.astype":
        return source.astype(str(call.ty.dtype))
    if call.op.name == "relax.reshape":
        return source.reshape([int(extent) for extent in call.ty.shape])
    axes = attributes(call)["axes"]
    return source.transpose(None if axes is None else [int(axis) for axis in axes])
