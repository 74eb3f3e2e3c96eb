"""Sums of interleaved results, as the parts of complex numbers or the colours of pixels: two to seven in a row.

Vectors along such a row have two or four lanes, and where its place decides, as between the parts of a complex product,
they compute both sides to keep one lane of each. So results get another order: the short axis outside, the one before
it last. Lanes run along that, and a tile of results holds all places of the short axis, each with its own case, without
a test. A kernel of its own interleaves the results; others copy operands in which neighbours have gaps. The cycles of
all kernels must be at most `Margins.gain_of_rewrite` of those of the sum as it is (`_cycles_now`).

Where its terms are the longer axis, as in a few products of complex vectors, lanes may run along them: then operands
alone are copied, in which the parts of neighbours lie between.

A short axis may be a remainder, as in `y[i] = sum(x[i // 3 + t] * w[t, i % 3])`: three results for each place of x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.domain import Domain
from edgetune.affine.expressions import expressions, mentions, with_places
from edgetune.affine.steps import step_along
from edgetune.graph.reduction_stage import Axis, ReductionStage, buffer_of, variable
from edgetune.rewrites.copies_for_lanes import with_copies_for_lanes
from edgetune.rewrites.reordered import OrderConflict, Orders, elements_of, made_stage, written_by
from edgetune.schedule.algorithms.overlapped_tail.function import loops_around, point_region
from edgetune.schedule.rules.factored_reduction import FactoredReduction, contiguous_axes, factored_sizes
from edgetune.schedule.rules.tiling import loads_of
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, stores
from edgetune.target.core import WIDEST, Core
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, IterVar, Node, Stmt, TvmBuffer

_MOST_IN_ROW = 7


@dataclass(frozen=True)
class _Way:
    """The kernels of a sum in another order, with predicted cycles; its rows have `in_row` results."""

    cycles: float
    in_row: int
    kernels: list[list[Stmt | BlockStage]]


def with_interleaved_sums(
    stages: Sequence[BlockStage], constants: Sequence[TvmBuffer], core: Core = WIDEST
) -> list[list[Stmt | BlockStage]]:
    """The kernels that compute `stages`, each as its new statements and the stages that stay as they are.

    Empty where no sum has short rows of results, or where other vectors serve it as well.
    """
    found = [stage for stage in stages if stage.reduction]
    if len(found) != 1 or found[0].work < core.least_terms or not found[0].writes_its_axes():
        return []
    total, place = found[0], stages.index(found[0])
    ways = [way for way in (_apart(total, constants, core), _along_terms(total, core)) if way is not None]
    best = min(ways, key=lambda way: way.cycles, default=None)
    if best is None or best.cycles > core.margins.gain_of_rewrite * _cycles_now(total, best.in_row, core):
        return []
    first = [[*stages[:place]]] if place else []
    *others, last = best.kernels
    return [*first, *others, [*last, *stages[place + 1 :]]]


def _apart(total: BlockStage, constants: Sequence[TvmBuffer], core: Core) -> _Way | None:
    """The sum with its short rows outside, and lanes along the axis before; None where neighbours are none there."""
    rows = _in_rows(total, core)
    orders = None if rows is None else _orders(rows, core)
    if rows is None or orders is None:
        return None
    result = written_by(rows)
    copied = [buffer for buffer in orders.buffers() if not buffer.same_as(result)]
    cycles = rows.work / core.lanes * core.costs.unaligned_operation
    cycles += core.move("interleaved") * sum(map(elements_of, [*copied, result]))
    made = orders.stage(rows, rows.name, rows.reduction)
    kernels = with_copies_for_lanes([made_stage(made)], constants, core) or [[made]]
    last = _interleaved(total, orders.moved(result))
    return _Way(cycles, extent_of(rows.spatial[-1]), [*([orders.copy(one)] for one in copied), *kernels, [last]])


def _along_terms(total: BlockStage, core: Core) -> _Way | None:
    """The sum with lanes along its terms, of which operands are copied whose elements have other ones between them."""
    in_row = total.spatial_extents[-1] if total.spatial else 1
    ways = []
    for number, axis in enumerate(total.reduction):
        orders = Orders()
        if not 1 < in_row <= _MOST_IN_ROW or extent_of(axis) < 2 * core.lanes or not _ordered(total, axis, orders):
            continue
        made = orders.stage(total, total.name, total.reduction)
        stage = made_stage(made)
        if orders.buffers() and number in contiguous_axes(stage):
            cycles = _factored(stage, number, core)
            cycles += core.move("interleaved") * sum(map(elements_of, orders.buffers()))
            ways.append(_Way(cycles, in_row, [*([orders.copy(one)] for one in orders.buffers()), [made]]))
    return min(ways, key=lambda way: way.cycles, default=None)


def _in_rows(total: BlockStage, core: Core) -> BlockStage | None:
    """The sum with its short rows as the last axis; None where it has none."""
    extents = total.spatial_extents
    if len(extents) > 1 and 1 < extents[-1] <= _MOST_IN_ROW:
        return total
    return _divided(total, core) if extents else None


def results_in_turns(total: BlockStage, core: Core = WIDEST) -> int:
    """How many results side by side a remainder of the place along the last axis distinguishes; 1 if none does."""
    axis = total.spatial[-1]
    nodes = [node for store in stores(total.block.body) for node in expressions(store.value)]
    by = {
        int(node.b.value)
        for node in nodes
        if isinstance(node, tirx.FloorMod) and node.a.same_as(axis.var) and isinstance(node.b, tirx.IntImm)
    }
    factor = max(by, default=1)
    return factor if factor <= core.lanes and extent_of(axis) % factor == 0 else 1


def _divided(total: BlockStage, core: Core) -> BlockStage | None:
    """The sum with a last axis of the remainders by which indices divide its last axis; None where none do."""
    axis, factor = total.spatial[-1], results_in_turns(total, core)
    if not 1 < factor <= _MOST_IN_ROW:
        return None
    dtype, name = str(axis.var.ty.dtype), str(axis.var.name)
    row, phase = variable(name, dtype), variable(f"{name}_phase", dtype)
    axes = [
        *((one.var, extent_of(one)) for one in total.spatial[:-1]),
        (row, extent_of(axis) // factor),
        (phase, factor),
    ]
    summed = [(one.var, extent_of(one)) for one in total.reduction]
    analyzer = Domain.of((*axes, *summed)).analyzer
    out = buffer_of(f"{total.name}_rows", axes, str(written_by(total).ty.dtype))
    at = [one for one, _ in axes]

    def simplified(index: Expr) -> Expr:
        return analyzer.simplify(with_places(index, {axis.var: row * factor + phase}))

    def load(node: BufferLoad) -> BufferLoad:
        if node.source.same_as(written_by(total)):
            return tirx.BufferLoad(out, at)
        return tirx.BufferLoad(node.source, [simplified(index) for index in node.indices])

    def store(node: BufferStore) -> BufferStore:
        return tirx.BufferStore(out, node.value, at)

    def changed(node: Node) -> Node:
        body = tvm_ffi.structural_map(node, [(ir.TensorLoad, load), (tirx.BufferStore, store)])
        return with_places(body, {axis.var: row * factor + phase})

    block = total.block
    body = changed(block.body)
    init = None if block.init is None else changed(block.init)
    kept = [node for one in stores(body) for node in expressions(one.value) if isinstance(node, ir.TensorLoad)]
    reads = [point_region(one.source, list(one.indices)) for one in kept if not one.source.same_as(out)]
    made = s_tir.SBlock([], reads, [point_region(out, at)], "", body, init)
    kinds = [*([0] * len(axes)), *(int(one.iter_type) for one in total.reduction)]
    every = [*axes, *summed]
    return made_stage(loops_around(total.name, [one for one, _ in every], [extent for _, extent in every], kinds, made))


def _orders(rows: BlockStage, core: Core) -> Orders | None:
    """The order of tensors with lanes along the last axis but one of a sum; None where neighbours are none there."""
    number = len(rows.spatial) - 2
    axis, orders = rows.spatial[number], Orders()
    if extent_of(axis) < core.lanes or rows.branches_along(axis):
        return None
    orders.add(written_by(rows), number)
    return orders if _ordered(rows, axis, orders) else None


def _ordered(total: BlockStage, axis: IterVar, orders: Orders) -> bool:
    """Whether each operand that mentions an axis can have it last: these are added to `orders`."""
    for load in loads_of(total):
        places = [place for place, index in enumerate(load.indices) if mentions(index, axis.var)]
        if not places:
            continue
        if len(places) > 1 or not _moves_evenly(load.indices[places[0]], axis):
            return False
        try:
            if places[0] != len(load.indices) - 1:
                orders.add(load.source, places[0])
        except OrderConflict:
            return False
    return True


def _moves_evenly(index: Expr, axis: IterVar) -> bool:
    """Whether an index moves by a few elements, always as many, from one place of an axis to the next."""
    found = step_along(index, axis.var, Domain.of_block([axis]))
    return found is not None and 1 <= found <= _MOST_IN_ROW


def _cycles_now(total: BlockStage, in_row: int, core: Core) -> float:
    """Predicted cycles with vectors along rows of `in_row` results, or with lanes along the terms."""
    along = [_factored(total, axis, core) for axis in contiguous_axes(total)]
    row = total.spatial[-1]
    values = [node for store in stores(total.block.body) for node in expressions(store.value)]
    cases = any(isinstance(node, tirx.Select) and mentions(node.condition, row.var) for node in values)
    across = total.work / (1 << in_row.bit_length() - 1) * core.costs.unaligned_operation
    return min([across * core.costs.both_cases if cases else across, *along])


def _factored(total: BlockStage, axis: int, core: Core) -> float:
    """Predicted cycles with lanes along a reduction axis."""
    if total.reduction_extents[axis] < 2 * core.lanes:
        return inf
    return factored_sizes(FactoredReduction(total, axis, core.lanes), core)[0] * total.work / core.lanes


def _interleaved(total: BlockStage, apart: TvmBuffer) -> Stmt:
    """The stage that writes the results of a sum from those whose short axis comes before the last."""
    axes: list[Axis] = [(variable(str(one.var.name), str(one.var.ty.dtype)), extent_of(one)) for one in total.spatial]
    at = [one for one, _ in axes]
    factor = int(apart.ty.shape[-2])
    if len(apart.ty.shape) == len(axes):
        places = [*at[:-2], at[-1], at[-2]]
    else:
        places = [*at[:-1], tirx.floormod(at[-1], factor), tirx.floordiv(at[-1], factor)]
    name = f"{total.name}_interleaved"
    return ReductionStage(
        name, written_by(total), tuple(at), tuple(axes), (), tirx.BufferLoad(apart, places)
    ).statement()
