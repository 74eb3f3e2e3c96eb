"""Rows shorter than a vector: their stages are computed with lanes across rows, between transpositions.

In a softmax over 7 elements, `exp` would fill 7 lanes of a vector at most, and sums of a row have no vectors. With the
rows' axis last, each of 7 steps computes as many rows as a vector has lanes. The tensors that have both axes are
transposed by kernels of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm import tirx

from edgetune.frontend.tensor_expression.reordered import (
    OrderConflict,
    Orders,
    among,
    mentioned,
    place_of,
    written_by,
)
from edgetune.graph.tvm_types import Stmt, TvmBuffer
from edgetune.schedule.sketches.block_analysis import BlockStage, expressions, extent_of, stores
from edgetune.schedule.sketches.lane_loads import calls_function

_WIDEST = 16
"""Lanes of the widest vectors."""

_NARROW = 8
"""Lanes of narrower vectors: what a row has beyond a multiple of them takes as long as a vector."""

_LONGEST = 32
"""Elements from which on a row has so many vectors that its rest does not matter."""

_MOST_ELEMENTS = 1 << 17
"""Elements of longer rows up to which L2 holds them: beyond it, copies cost more than rests of vectors."""

_FEWEST_ROWS = 64
_LEAST_ELEMENTS = 1 << 12
"""Elements of the results below which calls of more kernels cost more than lanes save."""


def with_rows_as_lanes(
    stages: Sequence[BlockStage], constants: Sequence[TvmBuffer], needed: Sequence[TvmBuffer]
) -> list[list[Stmt]]:
    """The statements of the kernels that compute `stages` with the longest axis of rows last; empty where none helps.

    Only the last stage may write a tensor that is `needed` by others, because that one alone is transposed back. A row
    is what a stage sums or compares, and another one computes again element by element, with a function or a division,
    as in a softmax.
    """
    last = stages[-1]
    extents = last.spatial_extents
    if len(extents) < 2 or prod(extents) < _LEAST_ELEMENTS or not _is_short(extents[-1], prod(extents)):
        return []
    if not any(stage.reduction_extents == extents[-1:] for stage in stages) or not any(map(_is_costly, stages)):
        return []
    if not all(_has_rows(stage, extents) for stage in stages):
        return []
    written = [written_by(stage) for stage in stages]
    if any(among(buffer, needed) for buffer in written[:-1]):
        return []
    row = max(range(len(extents) - 1), key=lambda number: extents[number])
    if extents[row] < _FEWEST_ROWS:
        return []
    return with_axis_last(stages, row, constants)


def with_axis_last(stages: Sequence[BlockStage], number: int, constants: Sequence[TvmBuffer]) -> list[list[Stmt]]:
    """The statements of the kernels that compute `stages` with their axis `number` last; empty where one cannot.

    The tensors that have this axis are transposed by kernels of their own, the result of the last stage too.
    """
    orders = Orders()
    written = [written_by(stage) for stage in stages]
    try:
        for stage in stages:
            _order(stage, number, constants, orders)
    except OrderConflict:
        return []
    copies = [[orders.copy(buffer)] for buffer in orders.buffers() if not among(buffer, written)]
    made = [orders.stage(stage, stage.name, stage.reduction) for stage in stages]
    back = [[orders.copy_back(written[-1])]] if orders.axis(written[-1]) is not None else []
    return [*copies, made, *back]


def _is_short(extent: int, elements: int) -> bool:
    """Whether a row fills no vector and no part of one that is a power of two, or a few vectors and a rest."""
    if extent > _WIDEST:
        return extent < _LONGEST and extent % _NARROW > 0 and elements <= _MOST_ELEMENTS
    return 1 < extent < _WIDEST and extent & (extent - 1) != 0


def _has_rows(stage: BlockStage, extents: Sequence[int]) -> bool:
    """Whether a stage has one result for each element of the rows, or for each row."""
    if not stage.writes_its_axes() or str(written_by(stage).ty.dtype) != "float32":
        return False
    return stage.spatial_extents in (tuple(extents), tuple(extents[:-1]))


def _is_costly(stage: BlockStage) -> bool:
    """Whether a stage calls a function or divides by what is no constant, for each of its elements."""
    values = [node for store in stores(stage.block.body) for node in expressions(store.value)]
    divides = any(isinstance(node, tirx.Div) and not isinstance(node.b, tirx.FloatImm) for node in values)
    return calls_function(stage.block) or divides


def _order(stage: BlockStage, row: int, constants: Sequence[TvmBuffer], orders: Orders) -> None:
    """Move the axis of rows to the end of all tensors of a stage; raises OrderConflict where that is not possible."""
    axis = stage.spatial[row]
    written = written_by(stage)
    if row != len(stage.spatial) - 1:
        orders.add(written, row)
    for region in stage.reads():
        if not mentioned(region, axis) or extent_of(axis) == 1:
            continue
        place = place_of(region, axis)
        fixed = among(region.source, constants) or str(region.source.ty.dtype) != "float32"
        if fixed or place is None:
            raise OrderConflict
        if place != len(region.region) - 1:
            orders.add(region.source, place)
