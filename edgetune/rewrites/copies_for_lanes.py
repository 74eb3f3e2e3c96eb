"""Copies for lanes: whether a sum along whose lanes an operand has gaps, repeats or ends reads a copy.

The copy has no gaps, as between every fourth element: the phases of the operand lie one after another. Where a lane
reads past the operand's end and its only condition is a bounds check, the copy has zeros around it (`copy_layouts.py`
makes both). Where lanes read an element several times in turn, the copy repeats it. Or lanes run along another axis of
the results, which no window and no condition mentions: then operands and results are transposed, if that takes fewer
cycles. A sum that has lanes neither along its results nor along its terms, as the trace of a product, reads a
transposed copy, along whose rows it has terms. Each copy is a kernel of its own, and so is padding along rows that at
least 8 results of a sum read (4 where it steps over elements). The cycles of a sum and of its copies must be at most
`Margins.gain` of those of the sum as it is.

A depthwise convolution with two results for each channel reads `x[i + a, j + b, o // 2]`, and a grouped one
`x[i + a, j + b, o // 8 * 4 + c]`: lanes along o would be as few as the results of a channel or a group. In the copy,
`x[i, j, o // 8 * 4 + c]` is at [i, j, c, o], and lanes read neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import tvm_ffi
from tvm import tirx

from edgetune.affine.domain import simplified
from edgetune.affine.expressions import is_among, mentions, with_places
from edgetune.affine.steps import step_along
from edgetune.affine.values import integers_at
from edgetune.graph.element_type import is_floating
from edgetune.rewrites.copy_layouts import (
    OperandCopy,
    all_loads,
    copying,
    in_phases,
    padded,
    reading,
    turned,
)
from edgetune.rewrites.reordered import OrderConflict, Orders, elements_of, made_stage, written_by
from edgetune.schedule.rules.tiling import loads_of
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of
from edgetune.schedule.tile_costs import divisors
from edgetune.target.core import WIDEST, Core
from edgetune.tvm_types import BufferLoad, Expr, IterVar, Stmt, TvmBuffer

_SHARING = 8
"""Results of the same padded rows from which on a kernel that pads costs little beside the sums."""

_SHARING_GAPS = 4
"""The same number where the sums step over elements: in one kernel they would have no vectors."""


def with_copies_for_lanes(
    stages: Sequence[BlockStage], constants: Sequence[TvmBuffer], core: Core = WIDEST
) -> list[list[Stmt | BlockStage]]:
    """The kernels that compute `stages`, each as its new statements and the stages that stay as they are.

    Empty where no copy is worth its time.
    """
    found = [stage for stage in stages if stage.reduction]
    if len(found) != 1 or found[0].work < core.least_terms or not found[0].spatial or not found[0].writes_its_axes():
        return []
    total, place = found[0], stages.index(found[0])
    before, after = list(stages[:place]), list(stages[place + 1 :])
    borders = _copies_of(total, constants, padded, core)
    inside = made_stage(reading(total, borders)) if borders else total
    phases = [copy for of in (in_phases, _repeated) for copy in _copies_of(inside, constants, of, core)]
    if not borders and not phases:
        across = turned(total, constants, core)
        if across:
            first = [[*before]] if before else []
            return [*first, *([copy.made] for copy in across), [reading(total, across), *after]]
        return _with_padded_rows(before, [total, *after])
    skipped = [copy for copy in borders if copy.skipped]
    rows = made_stage(reading(total, skipped, selecting=True)) if skipped else total
    orders = _lanes_elsewhere(rows, constants, [*borders, *phases], core)
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
    sharing = _SHARING if all(step_along(index, lane) == 1 for index in along) else _SHARING_GAPS
    shared = any(
        extent_of(axis) >= sharing and not any(mentions(one, axis.var) for places in indices for one in places)
        for axis in total.spatial
    )
    return bool(along) and shared and not stage.reduction and stage.branches_along(stage.spatial[-1])


def _copies_of(
    total: BlockStage,
    constants: Sequence[TvmBuffer],
    copy_of: Callable[[BlockStage, TvmBuffer, Core], OperandCopy | None],
    core: Core,
) -> list[OperandCopy]:
    """The copies that `copy_of` makes of what a sum reads and is no constant."""
    others = [*constants, written_by(total)]
    sources = {str(load.source.name): load.source for load in loads_of(total) if not is_among(load.source, others)}
    floats = filter(is_floating, sources.values())
    return [copy for buffer in floats if (copy := copy_of(total, buffer, core)) is not None]


def _lanes_elsewhere(
    total: BlockStage, constants: Sequence[TvmBuffer], copies: Sequence[OperandCopy], core: Core
) -> Orders | None:
    """The order of tensors in which lanes run along another axis of the results; None where copies are cheaper.

    `copies` are those with the lanes where they are. Vectors along an axis that no window or condition mentions are
    whole and aligned, but results are copied too.
    """
    moved = sum(elements_of(new.source) for copy in copies for _, new in copy.replaced[:1])
    least = total.work / core.lanes * core.costs.unaligned_operation + core.move("into_copy") * moved
    best = None
    for number, axis in enumerate(total.spatial[:-1]):
        extent = extent_of(axis)
        if extent < core.lanes or total.branches_along(axis):
            continue
        orders = _last_in(total, number, constants)
        if orders is None:
            continue
        elements = sum(map(elements_of, orders.buffers()))
        cycles = total.work / extent * -(-extent // core.lanes) * core.costs.operation
        cycles += core.move("into_copy") * elements
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
        if len(places) > 1 or not load.indices[places[0]].same_as(axis.var) or is_among(load.source, constants):
            return None
        try:
            orders.add(load.source, places[0])
        except OrderConflict:
            return None
    return orders


def _repeated(total: BlockStage, buffer: TvmBuffer, core: Core) -> OperandCopy | None:
    """The copy of a tensor whose last index divides the lanes of a sum; None where that is no gain."""
    lane, loads = total.spatial[-1], all_loads(total, buffer)
    found = [_divided(total, load, lane) for load in loads]
    if not found or any(one is None for one in found):
        return None
    (place, length), *others = [one for one in found if one is not None]
    if any(not tvm_ffi.structural_equal(place, other) for other, _ in others):
        return None
    length = max(length, *(other for _, other in others), 1)
    places = np.arange(extent_of(lane))
    along = integers_at(place, {lane.var: places})
    *outer, last = (int(extent) for extent in buffer.ty.shape)
    if along is None or np.min(along) < 0 or not np.any(np.diff(np.broadcast_to(along, places.shape)) == 0):
        return None
    if int(along.max()) + length > last or total.branches_along(lane):
        return None
    copied = [*outer, *([length] if length > 1 else []), extent_of(lane)]
    each = core.costs.unaligned_operation
    cycles = total.work / core.lanes * each + core.move("into_copy") * prod(copied)
    if extent_of(lane) < core.lanes or cycles > core.margins.gain * total.work / _lanes_in_turn(along, core) * each:
        return None
    written = tirx.decl_buffer(copied, str(buffer.ty.dtype), f"{buffer.name}_repeated")
    zero = tirx.IntImm(str(lane.var.ty.dtype), 0)
    replaced = []
    for load in loads:
        rest = [simplified(with_places(load.indices[-1], {lane.var: zero}))] if length > 1 else []
        replaced.append((load, tirx.BufferLoad(written, [*load.indices[:-1], *rest, lane.var])))
    target = [tirx.Var(f"v_ax{number}", "int32") for number in range(len(copied))]
    index = with_places(place, {lane.var: target[-1]})
    source = [*target[: len(outer)], index + target[-2] if length > 1 else index]
    made = copying(written, target, tirx.BufferLoad(buffer, source), buffer, source)
    return OperandCopy(buffer, made, tuple(replaced))


def _divided(total: BlockStage, load: BufferLoad, lane: IterVar) -> tuple[Expr, int] | None:
    """The part of a load's last index that depends on the lanes alone, and how many places the rest of it has.

    None where no index divides the lanes, or where others than the last one depend on them.
    """
    *outer, last = load.indices
    if any(mentions(index, lane.var) for index in outer) or not mentions(last, lane.var):
        return None
    if str(last.ty.dtype) != "int32":
        return None
    analyzer = total.analyzer()
    others = [axis.var for axis in (*total.spatial, *total.reduction) if not axis.same_as(lane)]
    start = {one: tirx.IntImm(str(one.ty.dtype), 0) for one in others}
    place = analyzer.simplify(with_places(last, start))
    rest = analyzer.simplify(with_places(last, {lane.var: tirx.IntImm(str(lane.var.ty.dtype), 0)}))
    bound = analyzer.const_int_bound(rest)
    if int(bound.min_value) < 0 or not analyzer.can_prove_equal(last, place + rest):
        return None
    return place, int(bound.max_value) + 1


def _lanes_in_turn(along: np.ndarray, core: Core) -> int:
    """The lanes of vectors that hold one element, or neighbours, where lanes read the places `along`."""
    steps = np.diff(along)
    for lanes in reversed([width for width in divisors(len(along), core.lanes) if width & (width - 1) == 0]):
        inside = steps[np.arange(len(steps)) % lanes != lanes - 1]
        if not np.any(inside) or np.all(inside == 1):
            return lanes
    return 1
