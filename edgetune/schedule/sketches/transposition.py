"""Transpositions: a stage that copies a tensor in another order is two loops, the rows and the columns of a matrix.

Axes that are neighbours in both tensors become one first: of channels last and channels first, the rows are the pixels.
The printer makes one call of the two loops (see `edgetune.codegen.transposition`).

Neighbours along the last axis of a stage may also read the same columns of neighbouring short rows: of a batch of 3x3
matrices, `x[b, 1, 2]` for neighbours b lies nine elements apart. The printer turns four columns at a time out of eight
rows (see `edgetune.codegen.column_loads`); a formula sets that against a scalar loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm import ir, tirx
from tvm.s_tir import Schedule

from edgetune.affine.domain import simplified
from edgetune.affine.expressions import expressions, is_branch, mentions, with_places
from edgetune.codegen.column_loads import COLUMNS, LONGEST_ROW
from edgetune.codegen.shuffles import has_shuffles
from edgetune.graph.element_type import type_of
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, known_extent, loop_extent, stores
from edgetune.schedule.sketches.inlining import is_costly
from edgetune.target.costs import MARGINS, Costs
from edgetune.tvm_types import BufferLoad, Expr, LoopRV, SBlock, Var

COLUMN_LANES = 8
"""Lanes of vectors of columns: longer ones take as many shuffles, and more to join their parts."""

_FEWEST_LANES = 4
_FEWEST_ELEMENTS = 64
_MOST_SHARED = 4  # results of the same columns: each group of four columns is in registers meanwhile
_OPERATIONS = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Min, tirx.Max)


def transpose(sch: Schedule, stage: BlockStage, loops: Sequence[LoopRV], native_lanes: int) -> bool:
    """Order the `loops` of a stage, or of a block of it, as those of a transposition.

    False, and no change, where it is none.
    """
    extents = [known_extent(sch, loop) for loop in loops]
    known = [extent for extent in extents if extent is not None]
    groups = rows_and_columns(stage, known, native_lanes) if len(known) == len(loops) else None
    if groups is None:
        return False
    outer = [loop for number, loop in enumerate(loops) if not any(number in group for group in groups)]
    inner = [[loops[number] for number in group] for group in groups]
    inner.sort(key=lambda group: prod(loop_extent(sch, loop) for loop in group), reverse=True)
    sch.reorder(*outer, *inner[0], *inner[1])  # the longer one is outside, for threads share it
    for group in inner:
        if len(group) > 1:
            sch.fuse(*group)
    return True


def rows_and_columns(
    stage: BlockStage, extents: Sequence[int], native_lanes: int
) -> tuple[list[int], list[int]] | None:
    """The axes that are the rows of the tensor that a stage copies in another order, and those of its result.

    They are those of a block of `extents` elements along each axis. None where the stage is no such copy, or the block
    is too small for vectors.
    """
    order = order_of_copy(stage.block) if native_lanes >= _FEWEST_LANES else None
    whole = [extent_of(axis) for axis in stage.spatial]
    if order is None or len(extents) != len(whole) or not stage.writes_its_axes():
        return None
    written = [number for number in range(len(whole)) if whole[number] > 1]
    order = [number for number in order if whole[number] > 1]
    if not written or sorted(order) != written or order[-1] == written[-1]:
        return None
    divided = [number for number in written if extents[number] < whole[number]]
    rows = _neighbours(order, written, order[-1], divided)
    columns = _neighbours(written, order, written[-1], divided)
    sizes = [prod(extents[number] for number in group) for group in (rows, columns)]
    return None if prod(sizes) < _FEWEST_ELEMENTS or max(sizes) < native_lanes else (rows, columns)


def order_of_copy(block: SBlock) -> list[int] | None:
    """The axes of a block as the indices of the only tensor that it copies; None if it does anything else."""
    store = block.body
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, ir.TensorLoad):
        return None
    if not all(has_shuffles(type_of(one)) for one in (store.buffer, store.value.source)):
        return None
    found: list[int] = []
    for index, extent in zip(store.value.indices, store.value.source.ty.shape, strict=True):
        axis = next((number for number, axis in enumerate(block.iter_vars) if index.same_as(axis.var)), None)
        if axis is not None and extent_of(block.iter_vars[axis]) == int(extent):
            found.append(axis)
        elif int(extent) != 1:
            return None
    return found


def _neighbours(order: Sequence[int], other: Sequence[int], last: int, divided: Sequence[int]) -> list[int]:
    """The longest run of axes that ends with `last` in both orders, and of which only the first may be `divided`."""
    run, place, beside = [last], order.index(last), other.index(last)
    while place and beside and order[place - 1] == other[beside - 1] and run[0] not in divided:
        place, beside = place - 1, beside - 1
        run.insert(0, order[place])
    return run


def reads_columns(block: SBlock, native_lanes: int, costs: Costs) -> bool:
    """Whether vectors of columns take fewer cycles than a scalar loop over the last axis of a block."""
    lanes = min(native_lanes, COLUMN_LANES)
    if lanes < _FEWEST_LANES or extent_of(block.iter_vars[-1]) < lanes:
        return False
    lane = block.iter_vars[-1].var
    nodes = [node for store in stores(block.body) for node in expressions(store.value)]
    groups: set[tuple[str, int]] = set()
    for load in (node for node in nodes if isinstance(node, ir.TensorLoad)):
        if not any(mentions(index, lane) for index in load.indices) or load.indices[-1].same_as(lane):
            continue
        group = _group(load, lane)
        if group is None:
            return False
        groups.add(group)
    if not groups or any(is_branch(node) for node in nodes):
        return False
    work = sum(_cost(node, costs) for node in nodes)
    loads = len({str(node) for node in nodes if isinstance(node, ir.TensorLoad)})
    turned = (lanes + 2 * COLUMNS) * len(groups) * costs.operation
    return turned + work < MARGINS.gain * lanes * (work + costs.operation * loads)


def axis_that_shares_columns(block: SBlock) -> int | None:
    """The short axis of a block whose results read the same columns; None where there is none."""
    nodes = [node for store in stores(block.body) for node in expressions(store.value)]
    loads = [node for node in nodes if isinstance(node, ir.TensorLoad)]
    turned = [load for load in loads if _group(load, block.iter_vars[-1].var) is not None]
    for number, axis in enumerate(block.iter_vars[:-1]):
        shared = not any(mentions(index, axis.var) for load in turned for index in load.indices)
        if shared and 1 < extent_of(axis) <= _MOST_SHARED:
            return number
    return None


def _group(load: BufferLoad, lane: Var) -> tuple[str, int] | None:
    """The tensor of a load and the first of the four columns that its column is turned with; None for other loads."""
    shape = [int(extent) for extent in load.source.ty.shape]
    along = [number for number, index in enumerate(load.indices) if mentions(index, lane)]
    if len(along) != 1 or not has_shuffles(type_of(load.source)):
        return None
    place = along[0]
    step, first = _line(load.indices[place], lane)
    inside, after = prod(shape[place + 1 :]), load.indices[place + 1 :]
    row = step * inside
    if not COLUMNS <= row <= LONGEST_ROW or first is None or not all(isinstance(one, tirx.IntImm) for one in after):
        return None
    if prod(shape[place:]) % row:
        return None  # the last row is no whole one, or the next ones begin elsewhere
    column = first
    for index, extent in zip(after, shape[place + 1 :], strict=True):
        column = column * extent + int(index.value)
    outer = " ".join(map(str, load.indices[:place]))
    start = column // row
    return f"{load.source.name} {outer} {start}", min(column % row // COLUMNS * COLUMNS, row - COLUMNS)


def _line(index: Expr, lane: Var) -> tuple[int, int | None]:
    """The step of an index along `lane`, 0 where it is not always the same, and its first value where that is known."""
    first = simplified(with_places(index, {lane: tirx.IntImm(str(lane.ty.dtype), 0)}))
    step = simplified(with_places(index, {lane: lane + 1}) - index)
    known = [int(one.value) if isinstance(one, tirx.IntImm) else None for one in (step, first)]
    return known[0] or 0, known[1]


def _cost(node: ir.Expr, costs: Costs) -> float:
    if isinstance(node, tirx.Div):
        return costs.division
    return costs.function if is_costly(node) else costs.operation * isinstance(node, _OPERATIONS)
