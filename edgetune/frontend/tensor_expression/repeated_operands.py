"""Repeated operands: a sum whose lanes read one element several times in turn reads a copy that repeats it.

A depthwise convolution with two results for each channel reads `x[i + a, j + b, o // 2]`, and a grouped one
`x[i + a, j + b, o // 8 * 4 + c]`: lanes along o would be as few as the results of a channel or a group. In the copy,
`x[i, j, o // 8 * 4 + c]` is at [i, j, c, o], and lanes read neighbours.
"""

from __future__ import annotations

from math import prod

import numpy as np
import tvm_ffi
from tvm import sym, tirx

from edgetune.frontend.tensor_expression.operand_copies import CORE, GAIN, MOVE, OperandCopy, all_loads, copying
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
