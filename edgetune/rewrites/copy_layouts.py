"""Layouts of copies: how the elements that neighbours along the lanes of a sum read become neighbours in a copy.

Of `sum(x[4 * t + k] * w[k])`, neighbours along t read every fourth element. A copy holds the four phases of x one after
another, `x[4 * q + p]` at [p, q]: then neighbours read neighbours (the polyphase form of a decimating filter, P. P.
Vaidyanathan, Multirate Systems and Filter Banks, 1993, section 4.3). Of `sum(k <= t ? x[t - k] * w[k] : 0)`, the
condition is a bounds check of x alone: a copy with zeros around needs none. Of `sum(a[i, k] * b[k, i])`, which has no
lanes, one operand is transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

import tvm_ffi
from tvm import ir, s_tir, sym, tirx

from edgetune.affine.expressions import SLACKS, conjuncts, expressions, is_branch, mentions, with_places
from edgetune.affine.steps import step_along
from edgetune.graph.element_type import is_floating, type_of
from edgetune.schedule.algorithms.overlapped_tail.function import loops_around, point_region
from edgetune.schedule.rules.factored_reduction import FactoredReduction, contiguous_axes, factored_sizes
from edgetune.schedule.rules.tiling import MAX_TILE, axes_of, loads_of
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, stores
from edgetune.schedule.sketches.lane_loads import has_rows_of_terms
from edgetune.target.core import Core
from edgetune.tvm_types import BufferLoad, Expr, IterVar, Node, Stmt, TvmBuffer, Var

_MOST_PHASES = 8

_FEWEST_TERMS = 8
"""Terms along an axis from which on lanes along it pay."""


@dataclass(frozen=True)
class OperandCopy:
    """A copy of `source`, made by the statement `made`, and what replaces each load of it (or branch around one).

    `skipped`: terms that read its border can be left out by their place (see `schedule/sketches/idle_steps.py`).
    """

    source: TvmBuffer
    made: Stmt
    replaced: tuple[tuple[Expr, BufferLoad], ...]
    skipped: bool = False


def reading(total: BlockStage, copies: Sequence[OperandCopy], *, selecting: bool = False) -> Stmt:
    """The stage with its loads replaced; `selecting`: a branch is a selection by the same condition."""
    replaced = [pair for copy in copies for pair in copy.replaced]

    def changed(node: Node) -> Node:
        found = next((new for old, new in replaced if old.same_as(node)), None)
        if found is None:
            return node
        return tirx.Select(node.args[0], found, node.args[2]) if selecting and isinstance(node, ir.Call) else found

    block = total.block
    body = tvm_ffi.structural_map(block.body, [(ir.TensorLoad, changed), (ir.Call, changed)])
    kept = [region for region in block.reads if not any(region.source.same_as(copy.source) for copy in copies)]
    left: list[BufferLoad] = []
    tvm_ffi.structural_walk(body, (ir.TensorLoad, left.append))
    ours = [load for load in left if any(load.source.same_as(copy.source) for copy in copies)]
    read = [*ours, *(new for _, new in replaced)]
    reads = [*kept, *(point_region(load.source, list(load.indices)) for load in read)]
    made = s_tir.SBlock([], reads, block.writes, "", body, block.init)
    axes = [*total.spatial, *total.reduction]
    kinds = [int(axis.iter_type) for axis in axes]
    return loops_around(total.name, [axis.var for axis in axes], [extent_of(axis) for axis in axes], kinds, made)


def all_loads(stage: BlockStage, buffer: TvmBuffer) -> list[BufferLoad]:
    """Every load of a tensor in a stage, the same place as often as it is there."""
    values = (node for store in stores(stage.block.body) for node in expressions(store.value))
    return [node for node in values if isinstance(node, ir.TensorLoad) and node.source.same_as(buffer)]


def in_phases(total: BlockStage, buffer: TvmBuffer, core: Core) -> OperandCopy | None:
    """The copy of a tensor that the lanes read with gaps, phase after phase; None where that is no gain."""
    lane, analyzer = total.spatial[-1].var, total.analyzer()
    loads = all_loads(total, buffer)
    found = [_stride(load, lane, analyzer) for load in loads]
    steps = {stride for stride, _ in found}
    if len(steps) != 1 or not 1 < max(steps) <= _MOST_PHASES:
        return None
    stride = max(steps)
    *outer, last = (int(extent) for extent in buffer.ty.shape)
    copied = [*outer, stride, -(-last // stride)]
    with_gaps = sum(_fetched(total, load) for load in loads_of(total) if load.source.same_as(buffer))
    of_lane = core.costs.every_second / core.lanes if stride == 2 else core.costs.lane_load
    cycles = with_gaps / core.lanes * core.costs.unaligned_operation + core.move("into_copy") * prod(copied)
    least = core.margins.gain * min(of_lane * with_gaps, _along_terms(total, core))
    if total.spatial_extents[-1] < core.lanes or cycles > least:
        return None
    phases = tirx.decl_buffer(copied, str(buffer.ty.dtype), f"{buffer.name}_phases")
    replaced = []
    for load, (_, rest) in zip(loads, found, strict=True):
        phase, first = (analyzer.simplify(part) for part in (tirx.floormod(rest, stride), tirx.floordiv(rest, stride)))
        replaced.append((load, tirx.BufferLoad(phases, [*load.indices[:-1], phase, lane + first])))
    target = [tirx.Var(f"v_ax{place}", "int32") for place in range(len(copied))]
    place = target[-1] * stride + target[-2]
    value: Expr = tirx.BufferLoad(buffer, [*target[:-2], place])
    if last % stride:
        value = tirx.if_then_else(tirx.likely(place < last), value, tirx.const(0, str(buffer.ty.dtype)))
    return OperandCopy(buffer, copying(phases, target, value, buffer), tuple(replaced))


def _stride(load: BufferLoad, lane: Var, analyzer: sym.Analyzer) -> tuple[int, Expr]:
    """How far a load moves with `lane` along the last axis of its tensor, and its place where that is 0.

    The first is 0 where the load moves along another axis, by no fixed distance, or from a negative place.
    """
    if not load.indices or str(load.indices[-1].ty.dtype) != "int32":
        return 0, tirx.IntImm("int32", 0)
    *outer, last = load.indices
    first, second = (analyzer.simplify(with_places(last, {lane: tirx.IntImm("int32", at)})) for at in (0, 1))
    step = analyzer.simplify(second - first)
    if any(mentions(index, lane) for index in outer) or not isinstance(step, tirx.IntImm):
        return 0, first
    linear = analyzer.can_prove_equal(last, first + step * lane) and analyzer.can_prove(first >= 0)
    return (int(step.value), first) if linear else (0, first)


def _fetched(total: BlockStage, load: BufferLoad) -> float:
    """How often lanes load an element, where a register tile shares it among results that do not move it."""
    moving = axes_of(total, load)
    shared = prod(extent for number, extent in enumerate(total.spatial_extents) if number not in moving)
    return total.work / min(shared, MAX_TILE)


def _along_terms(total: BlockStage, core: Core) -> float:
    """Predicted cycles with lanes along terms instead."""
    found = [
        factored_sizes(FactoredReduction(total, axis, core.lanes), core)[0] * total.work / core.lanes
        for axis in contiguous_axes(total)
        if total.reduction_extents[axis] >= 2 * core.lanes
    ]
    return min(found, default=inf)


def padded(total: BlockStage, buffer: TvmBuffer, core: Core) -> OperandCopy | None:
    """The copy of a tensor with a border in place of a condition along the lanes; None where there is none such.

    Loads without a condition, as one factor of an autocorrelation, read the tensor itself.
    """
    lane, analyzer = total.spatial[-1].var, total.analyzer()
    values = [node for store in stores(total.block.body) for node in expressions(store.value)]
    branches = [node for node in values if _is_branch_around(node, buffer)]
    if not branches:
        return None
    outside = {float(branch.args[2].value) for branch in branches}
    if len(outside) != 1 or not all(_says_inside(branch, analyzer) for branch in branches):
        return None
    if not any(mentions(branch.args[0], lane) for branch in branches):
        return None
    shape = [int(extent) for extent in buffer.ty.shape]
    bounds = [[analyzer.const_int_bound(index) for index in branch.args[1].indices] for branch in branches]
    ahead = [max(0, *(-int(one[axis].min_value) for one in bounds)) for axis in range(len(shape))]
    behind = [max(0, *(int(one[axis].max_value) + 1 - shape[axis] for one in bounds)) for axis in range(len(shape))]
    copied = [sum(parts) for parts in zip(ahead, shape, behind, strict=True)]
    if core.move("into_copy") * prod(copied) > core.margins.gain * core.costs.lane_load * total.work:
        return None
    written = tirx.decl_buffer(copied, str(buffer.ty.dtype), f"{buffer.name}_padded")
    replaced = []
    for branch in branches:
        places = zip(branch.args[1].indices, ahead, strict=True)
        moved = [analyzer.simplify(index + more) if more else index for index, more in places]
        replaced.append((branch, tirx.BufferLoad(written, moved)))
    target = [tirx.Var(f"v_ax{place}", "int32") for place in range(len(shape))]
    inside = [
        condition
        for one, more, extent, whole in zip(target, ahead, shape, copied, strict=True)
        for condition in (*([one >= more] if more else []), *([one < more + extent] if whole > more + extent else []))
    ]
    source = [one - more if more else one for one, more in zip(target, ahead, strict=True)]
    value: Expr = tirx.BufferLoad(buffer, source)
    if inside:
        value = tirx.if_then_else(tirx.all(*inside), value, tirx.const(min(outside), str(buffer.ty.dtype)))
    skipped = all(type(branch.args[0]) in SLACKS for branch in branches) and outside == {0.0}
    return OperandCopy(buffer, copying(written, target, value, buffer, source), tuple(replaced), skipped)


def turned(total: BlockStage, constants: Sequence[TvmBuffer], core: Core) -> list[OperandCopy]:
    """Copies with an axis of the terms last in each, of a sum that has no lanes; empty where it has, or where none pay.

    Of the trace of a product, `sum(a[i, k] * b[k, i])`, either operand lies across. `constants` are packed instead.
    """
    axes = [axis for axis in total.reduction if extent_of(axis) >= _FEWEST_TERMS]
    if has_rows_of_terms(total) or any(extent_of(total.reduction[n]) >= _FEWEST_TERMS for n in contiguous_axes(total)):
        return []
    found = [(copies, axis) for axis in axes if (copies := _with_terms_last(total, axis.var, constants))]

    def cycles(copies: Sequence[OperandCopy], axis: IterVar) -> float:
        moved = sum(prod(int(extent) for extent in copy.source.ty.shape) for copy in copies)
        vectors = total.work / min(core.lanes, 1 << extent_of(axis).bit_length() - 1)
        return core.move("into_copy") * moved + core.costs.unaligned_operation * vectors

    best = min(found, key=lambda one: cycles(*one), default=None)
    least = core.margins.gain * core.costs.chained_term * total.work
    return [] if best is None or cycles(*best) > least else best[0]


def _with_terms_last(total: BlockStage, axis: Var, constants: Sequence[TvmBuffer]) -> list[OperandCopy]:
    """Copies of all operands that lie across an axis of the terms, with that axis last; empty where one has none."""
    across: dict[tuple[str, int], list[BufferLoad]] = {}
    for load in loads_of(total):
        places = [number for number, index in enumerate(load.indices) if mentions(index, axis)]
        if not places or any(load.source.same_as(one) for one in constants):
            continue
        if len(places) > 1 or step_along(load.indices[places[0]], axis) != 1:
            return []
        if places[0] != len(load.indices) - 1:
            across.setdefault((str(load.source.name), places[0]), []).append(load)
    copies = []
    for (name, place), loads in across.items():
        buffer = loads[0].source
        if not is_floating(buffer):
            return []
        shape = [int(extent) for extent in buffer.ty.shape]
        written = tirx.decl_buffer(
            [*shape[:place], *shape[place + 1 :], shape[place]], type_of(buffer), f"{name}_turned"
        )
        target = [tirx.Var(f"v_ax{number}", "int32") for number in range(len(shape))]
        source: list[Expr] = [*target[:place], target[-1], *target[place:-1]]
        made = copying(written, target, tirx.BufferLoad(buffer, source), buffer, source)
        same = [one for one in all_loads(total, buffer) if any(_is_same(one, load) for load in loads)]
        moved = [[*one.indices[:place], *one.indices[place + 1 :], one.indices[place]] for one in same]
        replaced = tuple((old, tirx.BufferLoad(written, new)) for old, new in zip(same, moved, strict=True))
        copies.append(OperandCopy(buffer, made, replaced))
    return copies


def _is_same(load: BufferLoad, other: BufferLoad) -> bool:
    return bool(tvm_ffi.structural_equal(list(load.indices), list(other.indices)))


def _is_branch_around(node: Expr, buffer: TvmBuffer) -> bool:
    """Whether a value is an element of a tensor under a condition, and a constant otherwise."""
    if not is_branch(node):
        return False
    _, inside, outside = node.args
    ours = isinstance(inside, ir.TensorLoad) and inside.source.same_as(buffer)
    return ours and isinstance(outside, tirx.FloatImm) and all(str(one.ty.dtype) == "int32" for one in inside.indices)


def _says_inside(branch: Expr, analyzer: sym.Analyzer) -> bool:
    """Whether the condition of a branch holds exactly where its load is inside of its tensor."""
    condition, load, _ = branch.args
    parts = list(conjuncts(condition))
    if not all(type(part) in SLACKS and "int" in str(part.a.ty.dtype) for part in parts):
        return False
    said = [SLACKS[type(part)](part) for part in parts]
    ends = zip(load.indices, load.source.ty.shape, strict=True)
    meant = [slack for index, extent in ends for slack in (index, extent - 1 - index)]

    def needed(slacks: Sequence[Expr]) -> list[Expr]:
        return [slack for slack in slacks if not analyzer.can_prove(slack >= 0)]

    def covers(some: Sequence[Expr], others: Sequence[Expr]) -> bool:
        return all(any(analyzer.can_prove_equal(one, other) for other in others) for one in some)

    return covers(needed(said), meant) and covers(needed(meant), said)


def copying(
    written: TvmBuffer, target: Sequence[Var], value: Expr, read: TvmBuffer, source: Sequence[Expr] | None = None
) -> Stmt:
    """A stage that writes `value`, an element of `read`, to each place `target` of `written`."""
    whole = [tirx.BufferRegion(read, [ir.Range(0, extent) for extent in read.ty.shape])]
    reads = whole if source is None else [point_region(read, source)]
    body = tirx.BufferStore(written, value, list(target))
    block = s_tir.SBlock([], reads, [point_region(written, list(target))], "", body)
    extents = [int(extent) for extent in written.ty.shape]
    return loops_around(str(written.name), target, extents, [0] * len(extents), block)
