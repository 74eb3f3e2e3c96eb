"""Copied operands: a sum along whose lanes an operand has gaps or repeats, or ends inside a vector, reads a copy.

Either the copy has no gaps, no ends (`operand_copies.py`) and no repeats (`repeated_operands.py`), or lanes run along
another axis of the results, which no window and no condition mentions: then operands and results are transposed. A
formula chooses. A sum that has no lanes at all reads a transposed copy, along whose rows it has terms. Each copy is a
kernel of its own, and so is padding along rows that several results of a sum read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from edgetune.frontend.tensor_expression.operand_copies import (
    CORE,
    MOVE,
    OperandCopy,
    in_phases,
    padded,
    reading,
    turned,
)
from edgetune.frontend.tensor_expression.reordered import OrderConflict, Orders, among, written_by
from edgetune.frontend.tensor_expression.repeated_operands import repeated, wrapped
from edgetune.graph.tvm_types import Stmt, TvmBuffer
from edgetune.schedule.rules.tiling import loads_of
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, mentions, stage_of
from edgetune.schedule.sketches.row_reduction import steps_by_one

_UNALIGNED = 1.0
"""Cycles of a multiply-add whose operand is a vector of its own from any place: most cross a line of the cache."""

_SHARING = 8
"""Results of the same padded rows from which on a kernel that pads costs little beside the sums."""

_SHARING_GAPS = 4
"""The same number where the sums step over elements: in one kernel they would have no vectors."""

_LEAST_WORK = 1 << 15
"""Terms below which calls of more kernels cost more than they save."""


def with_copied_operands(stages: Sequence[BlockStage], constants: Sequence[TvmBuffer]) -> list[list[Stmt | BlockStage]]:
    """The kernels that compute `stages`, each as its new statements and the stages that stay as they are.

    Empty where no copy is worth its time.
    """
    found = [stage for stage in stages if stage.reduction]
    if len(found) != 1 or found[0].work < _LEAST_WORK or not found[0].spatial or not found[0].writes_its_axes():
        return []
    total, place = found[0], stages.index(found[0])
    before, after = list(stages[:place]), list(stages[place + 1 :])
    borders = [*_copies_of(total, constants, padded), *_copies_of(total, constants, wrapped)]
    inside = _stage_of(reading(total, borders)) if borders else total
    phases = [*_copies_of(inside, constants, in_phases), *_copies_of(inside, constants, repeated)]
    if not borders and not phases:
        across = turned(total, constants)
        if across:
            first = [[*before]] if before else []
            return [*first, *([copy.made] for copy in across), [reading(total, across), *after]]
        return _with_padded_rows(before, [total, *after])
    skipped = [copy for copy in borders if copy.skipped]
    rows = _stage_of(reading(total, skipped, selecting=True)) if skipped else total
    orders = _lanes_elsewhere(rows, constants, [*borders, *phases])
    first = [[*before]] if before else []
    if orders is None:
        copies = [*borders, *phases]
        return [*first, *([copy.made] for copy in copies), [reading(inside, phases), *after]]
    ours = written_by(total)
    moved = [[orders.copy(buffer)] for buffer in orders.buffers() if not buffer.same_as(ours)]
    made = orders.stage(rows, rows.name, rows.reduction)
    return [*first, *([copy.made] for copy in skipped), *moved, [made], [orders.copy_back(ours), *after]]


def _with_padded_rows(before: Sequence[BlockStage], rest: list[BlockStage]) -> list[list[Stmt | BlockStage]]:
    """Stages with padding along rows that several results of a sum, the first of `rest`, read, as a kernel of its own.

    In the kernel of the sum, each load would test its place, or the rows would end inside a vector. Empty where there
    is no such padding.
    """
    total = rest[0]
    pads = [number for number, stage in enumerate(before) if _pads_rows_of(stage, total)]
    if not pads:
        return []
    end = pads[-1] + 1
    return [[*before[:end]], [*before[end:], *rest]]


def _pads_rows_of(stage: BlockStage, total: BlockStage) -> bool:
    """Whether neighbours along the lanes of a sum lie in rows that a stage pads, and which several results read."""
    written, lane = written_by(stage), total.spatial[-1].var
    indices = [load.indices for load in loads_of(total) if load.source.same_as(written)]
    along = [places[-1] for places in indices if mentions(places[-1], lane)]
    sharing = _SHARING if all(steps_by_one(index, lane) for index in along) else _SHARING_GAPS
    shared = any(
        extent_of(axis) >= sharing and not any(mentions(one, axis.var) for places in indices for one in places)
        for axis in total.spatial
    )
    return bool(along) and shared and not stage.reduction and stage.branches_along(stage.spatial[-1])


def _stage_of(statement: Stmt) -> BlockStage:
    stage = stage_of(statement)
    assert stage is not None, "a stage that reads copies is a stage"  # noqa: S101
    return stage


def _copies_of(
    total: BlockStage, constants: Sequence[TvmBuffer], copy_of: Callable[[BlockStage, TvmBuffer], OperandCopy | None]
) -> list[OperandCopy]:
    """The copies that `copy_of` makes of what a sum reads and is no constant."""
    others = [*constants, written_by(total)]
    sources = {str(load.source.name): load.source for load in loads_of(total) if not among(load.source, others)}
    floats = (buffer for buffer in sources.values() if str(buffer.ty.dtype) == "float32")
    return [copy for buffer in floats if (copy := copy_of(total, buffer)) is not None]


def _lanes_elsewhere(total: BlockStage, constants: Sequence[TvmBuffer], copies: Sequence[OperandCopy]) -> Orders | None:
    """The order of tensors in which lanes run along another axis of the results; None where copies are cheaper.

    `copies` are those with the lanes where they are. Vectors along an axis that no window or condition mentions are
    whole and aligned, but results are copied too.
    """
    moved = sum(_elements(new.source) for copy in copies for _, new in copy.replaced[:1])
    least = total.work / CORE.lanes * _UNALIGNED + MOVE * moved
    best = None
    for number, axis in enumerate(total.spatial[:-1]):
        extent = extent_of(axis)
        if extent < CORE.lanes or total.branches_along(axis):
            continue
        orders = _last_in(total, number, constants)
        if orders is None:
            continue
        elements = sum(map(_elements, orders.buffers()))
        cycles = total.work / extent * -(-extent // CORE.lanes) / 2 + MOVE * elements
        if cycles < least:
            least, best = cycles, orders
    return best


def _last_in(total: BlockStage, number: int, constants: Sequence[TvmBuffer]) -> Orders | None:
    """The order of tensors with a spatial axis of a sum last in each; None where a tensor does not have it as it is."""
    axis, orders = total.spatial[number], Orders()
    orders.add(written_by(total), number)
    for load in loads_of(total):
        places = [place for place, index in enumerate(load.indices) if mentions(index, axis.var)]
        if not places:
            continue
        if len(places) > 1 or not load.indices[places[0]].same_as(axis.var) or among(load.source, constants):
            return None
        try:
            orders.add(load.source, places[0])
        except OrderConflict:
            return None
    return orders


def _elements(buffer: TvmBuffer) -> int:
    return prod(int(extent) for extent in buffer.ty.shape)
