"""Calls of fixed-point scaling in Relax functions: how they are made, what they scale by, and the numbers they make.

One scale of all elements is part of the code, several are a table. Scales are as in `edgetune.graph.fixed_point`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax, te, tirx
from tvm.ir import GenericConst, GlobalVar
from tvm.tirx import PrimFunc as Function

from edgetune.graph.fixed_point import fixed_point_scale, fixed_point_scale_once
from edgetune.graph.rewrite import constant_of
from edgetune.tvm_types import Expr

SCALING = "edgetune.fixed_point_scaling"
"""Attribute of a function that only scales: the one scale, -1 where it has a table, and 1 where it rounds once."""
_NAMES = ("fixed_point_scale", "fixed_point_scale_once")


@dataclass(frozen=True)
class FixedPoint:
    """int32 numbers `value` times `scale`, a tensor or the one number, rounded `once` or twice."""

    value: relax.Expr
    scale: relax.Expr | int
    once: bool

    def of_channels(self, known: Callable[[relax.Expr], np.ndarray | None]) -> np.ndarray | None:
        """The scales (uint32), one for all or one for each channel; None where they are not known, or not such."""
        if isinstance(self.scale, int):
            return np.array([self.scale], "uint32")
        table = known(self.scale)
        return table.reshape(-1) if table is not None and table.size in {1, *table.shape[-1:]} else None


def fixed_point_call(builder: relax.BlockBuilder, found: FixedPoint) -> relax.Expr:
    """A variable bound to the scaled numbers."""
    scaling = fixed_point_scale_once if found.once else fixed_point_scale
    number = _number(found.scale)

    def scaled_elements(x: te.Tensor, *tables: te.Tensor) -> te.Tensor:
        def at(*i: tirx.Var) -> Expr:
            return scaling(x(*i), _element(tables[0], i) if tables else tirx.const(number, "uint32"))

        return te.compute(x.shape, at, name=_NAMES[0])

    tables = [found.scale] if number is None else []
    call = builder.call_te(scaled_elements, found.value, *tables, primfunc_name_hint=_NAMES[0])
    made = builder.get()[call.args[0]].with_attr(SCALING, [-1 if number is None else number, int(found.once)])
    builder.update_func(call.args[0], made)
    return builder.emit(call)


def fixed_point_of(call: relax.Call, module: tvm.IRModule) -> FixedPoint | None:
    """What a call of a function computes, if it only scales."""
    callee = call.args[0] if call.args else None
    function = module[callee] if isinstance(callee, GlobalVar) else None
    if not isinstance(function, Function) or SCALING not in (function.attrs or {}):
        return None
    number, once = (int(one) for one in function.attrs[SCALING])
    value, *tables = call.args[1].fields if isinstance(call.args[1], relax.Tuple) else [call.args[1]]
    return FixedPoint(value, tables[0] if tables else number, bool(once))


def with_scales(found: FixedPoint, value: relax.Expr, scales: np.ndarray) -> FixedPoint:
    """The same of other numbers, with these scales."""
    return FixedPoint(value, constant_of(scales) if scales.size > 1 else int(scales.reshape(-1)[0]), found.once)


def scaled(value: np.ndarray, scale: np.ndarray, *, once: bool) -> np.ndarray:
    """The numbers that the calls make (int64), of `value` (int64) and `scale` (uint32)."""
    digits = scale.astype("int64")
    product, right = value * (((digits >> 5) + (1 << 27)) << 3), digits & 31
    if once:
        return np.asarray((product + (np.int64(1 << 30) << right)) >> (right + 31))
    high = (product + (1 << 30)) >> 31
    mask = (np.int64(1) << right) - 1
    half = (mask >> 1) + (high < 0)
    return np.asarray((high >> right) + ((high & mask) > half))


def _number(scale: relax.Expr | int) -> int | None:
    """The one element of a constant, None of any other operand."""
    if isinstance(scale, int):
        return scale
    if not isinstance(scale, GenericConst):
        return None
    array = scale.value.numpy()
    return int(array.reshape(-1)[0]) if array.size and np.all(array == array.reshape(-1)[0]) else None


def _element(tensor: te.Tensor, index: tuple[tirx.Var, ...]) -> Expr:
    """The element that broadcasts to `index`."""
    own = index[len(index) - len(tensor.shape) :]
    return tensor(*(0 if int(extent) == 1 else at for extent, at in zip(tensor.shape, own, strict=True)))
