"""Repeated operands: a sum whose lanes read one element several times reads a copy that repeats it.

A depthwise convolution with two results for each channel reads `x[i + a, j + b, o // 2]`, and a grouped one
`x[i + a, j + b, o // 8 * 4 + c]`: lanes along o would be as few as the results of a channel or a group. In the copy,
`x[i, j, o // 8 * 4 + c]` is at [i, j, c, o], and lanes read neighbours. A circular convolution reads `x[(t - k) % n]`:
in the copy the row goes on at its start.
"""

from __future__ import annotations

from math import prod

import numpy as np
import tvm_ffi
from tvm import sym, tirx

from edgetune.frontend.tensor_expression.operand_copies import (
    CORE,
    GAIN,
    LANE,
    MOVE,
    OperandCopy,
    all_loads,
    analyzer_of,
    copying,
)
from edgetune.graph.tvm_types import BufferLoad, Expr, IterVar, TvmBuffer
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, mentions
from edgetune.schedule.sketches.idle_steps import substituted
from edgetune.schedule.sketches.places import integers_at
from edgetune.schedule.tile_costs import divisors


def repeated(total: BlockStage, buffer: TvmBuffer) -> OperandCopy | None:
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
    cycles = total.work / CORE.lanes + MOVE * prod(copied)
    if extent_of(lane) < CORE.lanes or cycles > GAIN * total.work / _lanes_in_turn(along):
        return None
    written = tirx.decl_buffer(copied, str(buffer.ty.dtype), f"{buffer.name}_repeated")
    zero = tirx.IntImm(str(lane.var.ty.dtype), 0)
    replaced = []
    for load in loads:
        rest = [sym.Analyzer().simplify(substituted(load.indices[-1], {lane.var: zero}))] if length > 1 else []
        replaced.append((load, tirx.BufferLoad(written, [*load.indices[:-1], *rest, lane.var])))
    target = [tirx.Var(f"v_ax{number}", "int32") for number in range(len(copied))]
    index = substituted(place, {lane.var: target[-1]})
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
    analyzer = sym.Analyzer()
    for axis in (*total.spatial, *total.reduction):
        analyzer.bind(axis.var, axis.dom)
    others = [axis.var for axis in (*total.spatial, *total.reduction) if not axis.same_as(lane)]
    start = {one: tirx.IntImm(str(one.ty.dtype), 0) for one in others}
    place = analyzer.simplify(substituted(last, start))
    rest = analyzer.simplify(substituted(last, {lane.var: tirx.IntImm(str(lane.var.ty.dtype), 0)}))
    bound = analyzer.const_int_bound(rest)
    if int(bound.min_value) < 0 or not analyzer.can_prove_equal(last, place + rest):
        return None
    return place, int(bound.max_value) + 1


def _lanes_in_turn(along: np.ndarray) -> int:
    """The lanes of vectors that hold one element, or neighbours, where lanes read the places `along`."""
    steps = np.diff(along)
    for lanes in reversed([width for width in divisors(len(along), CORE.lanes) if width & (width - 1) == 0]):
        inside = steps[np.arange(len(steps)) % lanes != lanes - 1]
        if not np.any(inside) or np.all(inside == 1):
            return lanes
    return 1


def wrapped(total: BlockStage, buffer: TvmBuffer) -> OperandCopy | None:
    """The copy of a tensor whose rows go on at their start, as `x[(t - k) % n]`; None where there is none such."""
    analyzer, loads = analyzer_of(total), all_loads(total, buffer)
    places = [_unwrapped(total, load, analyzer) for load in loads]
    known = [place for place in places if place is not None]
    if not known or len(known) < len(places):
        return None
    bounds = [analyzer.const_int_bound(place) for place in known]
    first, last = min(int(one.min_value) for one in bounds), max(int(one.max_value) for one in bounds)
    *outer, extent = (int(extent) for extent in buffer.ty.shape)
    copied = [*outer, last - first + 1]
    if MOVE * prod(copied) > GAIN * LANE * total.work:
        return None
    written = tirx.decl_buffer(copied, str(buffer.ty.dtype), f"{buffer.name}_wrapped")
    target = [tirx.Var(f"v_ax{number}", "int32") for number in range(len(copied))]
    at = tirx.floormod(target[-1] + first % extent, extent)
    replaced = [
        (load, tirx.BufferLoad(written, [*load.indices[:-1], analyzer.simplify(place - first)]))
        for load, place in zip(loads, known, strict=True)
    ]
    made = copying(written, target, tirx.BufferLoad(buffer, [*target[:-1], at]), buffer)
    return OperandCopy(buffer, made, tuple(replaced))


def _unwrapped(total: BlockStage, load: BufferLoad, analyzer: sym.Analyzer) -> Expr | None:
    """Where a load would be in a row that does not end, if neighbours along lanes or terms are neighbours there."""
    last = load.indices[-1] if load.indices else None
    if not isinstance(last, tirx.FloorMod) or not analyzer.can_prove_equal(last.b, load.source.ty.shape[-1]):
        return None
    axes = [axis for axis in (total.spatial[-1], *total.reduction) if mentions(last, axis.var)]
    for axis in (one for one in axes if not any(mentions(index, one.var) for index in load.indices[:-1])):
        moved = analyzer.simplify(substituted(last.a, {axis.var: axis.var + 1}) - last.a)
        if isinstance(moved, tirx.IntImm) and int(moved.value) == 1:
            return last.a
    return None
