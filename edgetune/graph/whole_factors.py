"""Whole factors: an index that is `(a * i + b) // d` at all places of an axis is written so.

A resize by two computes its indices in floating point, clamped to the tensor: `max(min(ceil((i + 0.5) * 0.5 - 1), 27),
0)` is `i // 2` for 56 places. Schedules divide no floats, and have vectors for the short form. Both are compared at all
places, in the arithmetic of the long one, so no algebra has to know the operator.
"""

from __future__ import annotations

import numpy as np
import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.values import integers_at
from edgetune.graph.reduction_stage import with_fields
from edgetune.tvm_types import BufferLoad, Expr, Node, PrimFunc, SBlock, Var

_MOST_DIVISOR = 8
_MOST_PLACES = 1 << 16


def with_whole_factors(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, with such indices of its stages without a reduction in their short form."""
    return tvm_ffi.structural_map(function, (s_tir.SBlock, _with_short_indices))


def _with_short_indices(block: SBlock) -> SBlock:
    if block.init is not None or not isinstance(block.body, tirx.BufferStore):
        return block
    replaced: list[BufferLoad] = []

    def load(one: BufferLoad) -> BufferLoad:
        indices = [_short(index, block) for index in one.indices]
        if all(a.same_as(b) for a, b in zip(indices, one.indices, strict=True)):
            return one
        replaced.append(tirx.BufferLoad(one.source, indices))
        return replaced[-1]

    body = tvm_ffi.structural_map(block.body, (ir.TensorLoad, load))
    if not replaced:
        return block
    loads: list[BufferLoad] = []
    tvm_ffi.structural_walk(body, (ir.TensorLoad, loads.append))

    def region(item: Node) -> Node:
        """The element that is read, where that is one."""
        own = [one for one in loads if one.source.same_as(item.source)]
        if len(own) != 1 or not any(own[0].source.same_as(one.source) for one in replaced):
            return item
        ranges = [ir.Range.from_min_extent(index, tirx.IntImm(str(index.ty.dtype), 1)) for index in own[0].indices]
        return tirx.BufferRegion(item.source, ranges)

    reads = [region(item) for item in block.reads]
    return with_fields(block, reads=reads, body=body)


def _short(index: Expr, block: SBlock) -> Expr:
    """The short form of an index, or the index where it is no long one or has no short form."""
    used: list[Var] = []
    tvm_ffi.structural_walk(index, (ir.Var, used.append))
    axis = next((one for one in block.iter_vars if used and used[0].same_as(one.var)), None)
    if axis is None or not all(one.same_as(axis.var) for one in used) or not _is_long(index):
        return index
    extent = axis.dom.extent
    if not isinstance(extent, tirx.IntImm) or not 1 < int(extent.value) <= _MOST_PLACES:
        return index
    places = np.arange(int(extent.value))
    values = integers_at(index, {axis.var: places})
    form = None if values is None else whole_factor(values, places)
    return index if form is None else _written(axis.var, str(index.ty.dtype), *form)


def whole_factor(values: np.ndarray, places: np.ndarray) -> tuple[int, int, int] | None:
    """The factor, the offset and the least divisor, as in `(factor * i + offset) // divisor`; None where none fits."""
    for divisor in range(1, min(_MOST_DIVISOR, len(places) - 1) + 1):
        factor = int(values[divisor]) - int(values[0])
        for offset in range(int(values[0]) * divisor, (int(values[0]) + 1) * divisor):
            if factor > 0 and np.array_equal((factor * places + offset) // divisor, values):
                return factor, offset, divisor
    return None


def _written(variable: Var, dtype: str, factor: int, offset: int, divisor: int) -> Expr:
    value: Expr = variable if str(variable.ty.dtype) == dtype else tirx.Cast(dtype, variable)
    value = value if factor == 1 else value * tirx.IntImm(dtype, factor)
    value = value if offset == 0 else value + tirx.IntImm(dtype, offset)
    return value if divisor == 1 else tirx.floordiv(value, tirx.IntImm(dtype, divisor))


def _is_long(index: Expr) -> bool:
    """Whether an index has more than sums, products, floor divisions and remainders."""
    if isinstance(index, tirx.Add | tirx.Sub | tirx.Mul | tirx.FloorDiv | tirx.FloorMod):
        return _is_long(index.a) or _is_long(index.b)
    return not isinstance(index, ir.Var | tirx.IntImm)
