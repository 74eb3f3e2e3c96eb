"""Rows shorter than a vector: their stages are computed with lanes across rows, between transpositions.

In a softmax over 7 elements, `exp` would fill 7 lanes of a vector at most, and sums of a row have no vectors. With the
rows' axis last, each of 7 steps computes as many rows as a vector has lanes. The tensors that have both axes are
transposed by kernels of their own. This serves at least 64 rows that a function or a division is applied to: rows of 3,
5 to 7 or 9 to 15 elements, and rows of 17 to 31 that are no multiple of 8, up to 2^17 elements in all.

In the gravity of bodies, `x[j, c]` are three places for each of many bodies, and every pair of bodies needs them.
Lanes run along the bodies, also in the sums, and would gather every third element. A kernel of its own copies x to
[c, j], a structure of arrays, where rows have up to 7 elements. So do the corners of boxes, all pairs of which are
compared: where a stage computes them from centres and sizes, a kernel does so once, and writes the columns.
Expressions with one sum have rules that know more (`product_lanes.py`, `copies_for_lanes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import prod

from tvm import tirx

from edgetune.affine.expressions import expressions, is_among, mentions
from edgetune.graph.element_type import is_floating
from edgetune.rewrites.reordered import OrderConflict, Orders, mentioned, place_of, written_by
from edgetune.schedule.rules.tiling import loads_of
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, stores
from edgetune.schedule.sketches.lane_loads import calls_function
from edgetune.target.core import WIDEST, Core
from edgetune.tvm_types import BufferLoad, IterVar, Stmt, TvmBuffer

_NARROW = 8
"""Lanes of narrower vectors: what a row has beyond a multiple of them takes as long as a vector."""

_LONGEST = 32
"""Elements from which on a row has so many vectors that its rest does not matter."""

_MOST_ELEMENTS = 1 << 17
"""Elements of longer rows up to which L2 holds them: beyond it, copies cost more than rests of vectors."""

_FEWEST_ROWS = 64

_LONGEST_COPIED = 7
"""Elements of a row that is copied; eight are a vector of many cores."""

_FEWEST_LANES = 16


def with_rows_as_lanes(
    stages: Sequence[BlockStage], constants: Sequence[TvmBuffer], needed: Sequence[TvmBuffer], core: Core = WIDEST
) -> list[list[Stmt]]:
    """The statements of the kernels that compute `stages` with the longest axis of rows last; empty where none helps.

    Only the last stage may write a tensor that is `needed` by others, because that one alone is transposed back. A row
    is what a stage sums or compares, and another one computes again element by element, with a function or a division,
    as in a softmax.
    """
    last = stages[-1]
    extents = last.spatial_extents
    few = len(extents) < 2 or prod(extents) < core.margins.elements_of_rows
    if few or not _is_short(extents[-1], prod(extents), core):
        return []
    if not any(stage.reduction_extents == extents[-1:] for stage in stages) or not any(map(_is_costly, stages)):
        return []
    if not all(_has_rows(stage, extents) for stage in stages):
        return []
    written = [written_by(stage) for stage in stages]
    if any(is_among(buffer, needed) for buffer in written[:-1]):
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
    copies = [[orders.copy(buffer)] for buffer in orders.buffers() if not is_among(buffer, written)]
    made = [orders.stage(stage, stage.name, stage.reduction) for stage in stages]
    back = [[orders.copy_back(written[-1])]] if orders.axis(written[-1]) is not None else []
    return [*copies, made, *back]


def _is_short(extent: int, elements: int, core: Core) -> bool:
    """Whether a row fills no vector and no part of one that is a power of two, or a few vectors and a rest."""
    if extent > core.lanes:
        return extent < _LONGEST and extent % _NARROW > 0 and elements <= _MOST_ELEMENTS
    return 1 < extent < core.lanes and extent & (extent - 1) != 0


def _has_rows(stage: BlockStage, extents: Sequence[int]) -> bool:
    """Whether a stage has one result for each element of the rows, or for each row."""
    if not stage.writes_its_axes() or not is_floating(written_by(stage)):
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
        fixed = is_among(region.source, constants) or not is_floating(region.source)
        if fixed or place is None:
            raise OrderConflict
        if place != len(region.region) - 1:
            orders.add(region.source, place)


def with_turned_rows(
    stages: Sequence[BlockStage], constants: Sequence[TvmBuffer], needed: Sequence[TvmBuffer], core: Core = WIDEST
) -> list[list[Stmt | BlockStage]]:
    """The kernels that compute `stages`, each as its new statements and the stages that stay as they are.

    Empty where there are no such rows. Without a reduction, the first stages may write them, if their results are used
    often and not `needed` by others: they are computed once, by kernels of their own.
    """
    reductions = sum(bool(stage.reduction) for stage in stages)
    if reductions == 1:
        return []
    before = [] if reductions else list(takewhile(lambda one: _is_used_often(one, stages, needed, core), stages[:-1]))
    rest = stages[len(before) :]
    others = [*constants, *map(written_by, rest)]
    orders = Orders()
    for stage in rest:
        for load in loads_of(stage):
            often = stage.work >= _least_work(prod(map(int, load.source.ty.shape)), core)
            if often and not is_among(load.source, others) and _is_crossed(load, stage):
                orders.add(load.source, 0)
    if not orders.buffers():
        return []

    def turned(stage: BlockStage) -> Stmt | BlockStage:
        tensors = [written_by(stage), *(load.source for load in loads_of(stage))]
        changed = any(is_among(tensor, orders.buffers()) for tensor in tensors)
        return orders.stage(stage, stage.name, stage.reduction) if changed else stage

    own = [written_by(stage) for stage in before]
    copies = [[orders.copy(buffer)] for buffer in orders.buffers() if not is_among(buffer, own)]
    return [*copies, *([turned(stage)] for stage in before), list(map(turned, rest))]


def _least_work(elements: int, core: Core) -> float:
    """Executions of a stage from which on another kernel for so many elements that it reads pays."""
    return max(core.least_terms, core.margins.uses_of_stored * elements)


def _is_used_often(stage: BlockStage, stages: Sequence[BlockStage], needed: Sequence[TvmBuffer], core: Core) -> bool:
    """Whether all that read a stage need each of its results several times."""
    made = written_by(stage)
    readers = [one for one in stages if any(region.source.same_as(made) for region in one.reads())]
    often = all(one.work >= _least_work(stage.work, core) for one in readers)
    return stage.writes_its_axes() and often and not is_among(made, needed)


def _is_crossed(load: BufferLoad, stage: BlockStage) -> bool:
    """Whether lanes cross the rows of a load: those of the terms of a stage, or those of its results.

    The tile of a sum packs what the lanes of its results cross by itself, if it reads the tensor at one place.
    """
    if stage.reduction and _crosses(load, stage.reduction[-1]):
        return True
    places = [other for other in loads_of(stage) if other.source.same_as(load.source)]
    packs = bool(stage.reduction) and len(places) == 1
    return bool(stage.spatial) and not packs and _crosses(load, stage.spatial[-1])


def _crosses(load: BufferLoad, lane: IterVar) -> bool:
    """Whether lanes along an axis read the same element of one short row after another."""
    if len(load.indices) != 2 or not is_floating(load.source):
        return False
    row, element = load.indices
    short = 1 < int(load.source.ty.shape[-1]) <= _LONGEST_COPIED
    along = row.same_as(lane.var) and not mentions(element, lane.var)
    return short and along and extent_of(lane) >= _FEWEST_LANES
