"""Transpositions: a stage that copies a tensor in another order is two loops, the rows and the columns of a matrix.

Axes that are neighbours in both tensors become one first: of channels last and channels first, the rows are the pixels.
The printer makes one call of the two loops (see `edgetune.codegen.transposition`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm import ir, tirx
from tvm.s_tir import Schedule

from edgetune.graph.tvm_types import LoopRV, SBlock
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of

_FEWEST_LANES = 4
_FEWEST_ELEMENTS = 64


def transpose(sch: Schedule, stage: BlockStage, loops: Sequence[LoopRV], native_lanes: int) -> bool:
    """Order the `loops` of a stage as those of a transposition; False, and no change, where it is none."""
    order = _order_of_reads(stage.block) if native_lanes >= _FEWEST_LANES else None
    extents = [extent_of(axis) for axis in stage.spatial]
    whole = [int(sch.get(loop).extent.value) for loop in loops] == extents
    if order is None or not whole or not stage.writes_its_axes():
        return False
    written = [number for number in range(len(extents)) if extents[number] > 1]
    order = [number for number in order if extents[number] > 1]
    if not written or sorted(order) != written or order[-1] == written[-1]:
        return False
    rows, columns = _neighbours(order, written, order[-1]), _neighbours(written, order, written[-1])
    sizes = [prod(extents[number] for number in group) for group in (rows, columns)]
    if prod(sizes) < _FEWEST_ELEMENTS or max(sizes) < native_lanes:
        return False
    outer = [loop for number, loop in enumerate(loops) if number not in (*rows, *columns)]
    inner = [[loops[number] for number in group] for group in (rows, columns)]
    inner.sort(key=lambda group: prod(int(sch.get(loop).extent.value) for loop in group), reverse=True)
    sch.reorder(*outer, *inner[0], *inner[1])  # the longer one is outside, for threads share it
    for group in inner:
        if len(group) > 1:
            sch.fuse(*group)
    return True


def _order_of_reads(block: SBlock) -> list[int] | None:
    """The axes of a block as the indices of the only tensor that it copies; None if it does anything else."""
    store = block.body
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, ir.TensorLoad):
        return None
    if any(str(one.ty.dtype) != "float32" for one in (store.buffer, store.value.source)):
        return None
    found: list[int] = []
    for index, extent in zip(store.value.indices, store.value.source.ty.shape, strict=True):
        axis = next((number for number, axis in enumerate(block.iter_vars) if index.same_as(axis.var)), None)
        if axis is not None and extent_of(block.iter_vars[axis]) == int(extent):
            found.append(axis)
        elif int(extent) != 1:
            return None
    return found


def _neighbours(order: Sequence[int], other: Sequence[int], last: int) -> list[int]:
    """The longest run of axes that ends with `last` in both orders."""
    run, place, beside = [last], order.index(last), other.index(last)
    while place and beside and order[place - 1] == other[beside - 1]:
        place, beside = place - 1, beside - 1
        run.insert(0, order[place])
    return run
