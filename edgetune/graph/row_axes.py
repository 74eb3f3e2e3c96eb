"""Row axes: functions that go through rows and what is in them by axes of their own, where one axis had both.

A layer that reads a window as one long vector has one axis for frames and features. To read the rows where they lie in
a ring, it must know which row it is at.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.s_tir import Schedule

from edgetune.tvm_types import BufferLoad, PrimFunc, SBlock, TvmBuffer, Var

_SPATIAL = 0  # tirx.IterVar.DataPar


def with_rows(function: PrimFunc, number: int, row: int) -> PrimFunc | None:
    """`function` whose parameter `number` has an axis of rows of `row` elements; None where it is read otherwise."""
    param = function.params[number]
    shape = [int(extent) for extent in param.shape]
    axis = next((one for one in reversed(range(len(shape))) if prod(shape[one:]) >= row), None)
    if axis is None or row % prod(shape[axis + 1 :]):
        return None
    length = row // prod(shape[axis + 1 :])
    if shape[axis] % length:
        return None
    sch = Schedule(function)
    _inline_readers(sch, param)
    for block in _readers(sch, param):
        found = _axis_of(sch.get(block), param, axis)
        if found is None:
            return None
        sch.transform_block_layout(block, _split([one.var for one in sch.get(block).iter_vars], found, length))
    readers = _readers(sch, param)
    if not readers:
        return None
    names = [str(region.source.name) for region in sch.get(readers[0]).reads]
    places = [tirx.Var(f"i{number}", one.ty) for number, one in enumerate(param.shape)]
    sch.transform_layout(readers[0], ("read", names.index(str(param.name))), _split(places, places[axis], length))
    return sch.mod["main"].with_attrs(function.attrs)


def _inline_readers(sch: Schedule, param: TvmBuffer) -> None:
    """Inlines what computes an element of one of the parameter, and no result of the function."""
    results = {str(one.name) for one in sch.mod["main"].params}
    while True:
        elementwise = [
            block
            for block in _readers(sch, param)
            if all(int(axis.iter_type) == _SPATIAL for axis in sch.get(block).iter_vars)
            and str(sch.get(block).body.buffer.name) not in results
        ]
        if not elementwise:
            return
        sch.compute_inline(elementwise[0])


def _readers(sch: Schedule, param: TvmBuffer) -> list[s_tir.schedule.SBlockRV]:
    blocks = sch.get_child_blocks(sch.get_sblock("root"))
    return [block for block in blocks if _loads(sch.get(block), param)]


def _loads(block: SBlock, param: TvmBuffer) -> list[BufferLoad]:
    found: list[BufferLoad] = []
    tvm_ffi.structural_walk(block.body, (ir.TensorLoad, found.append))
    return [load for load in found if str(load.source.name) == str(param.name)]


def _axis_of(block: SBlock, param: TvmBuffer, axis: int) -> Var | None:
    """The axis of a block along which it reads a parameter whole, from end to end; None where it reads otherwise."""
    extents = {one.var: int(one.dom.extent) for one in block.iter_vars}
    indices = [load.indices[axis] for load in _loads(block, param)]
    known = next((one for one in extents if indices and one.same_as(indices[0])), None)
    if known is None or not all(known.same_as(index) for index in indices):
        return None
    return known if extents[known] == int(param.shape[axis]) else None


def _split(axes: Sequence[Var], axis: Var, length: int) -> tirx.IndexMap:
    """A map of axes in which one of them is a number of a row, and a place in it."""
    old = [tirx.Var(str(one.name), one.ty) for one in axes]
    new: list[ir.Expr] = []
    for one, own in zip(axes, old, strict=True):
        new += [own // length, own % length] if one.same_as(axis) else [own]
    return tirx.IndexMap(old, new, None)
