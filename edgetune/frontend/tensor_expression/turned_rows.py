"""Turned rows: a tensor of short rows, which the lanes of several stages cross, is copied with its rows as columns.

In the gravity of bodies, `x[j, c]` are three places for each of many bodies, and every pair of bodies needs them.
Lanes run along the bodies, also in the sums, and would gather every third element. A kernel of its own copies x to
[c, j], a structure of arrays. Expressions with one sum have rules that know more (`product_lanes.py`,
`copied_operands.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from edgetune.frontend.tensor_expression.reordered import Orders, among, written_by
from edgetune.frontend.tensor_expression.stored_values import FEWEST_USES
from edgetune.graph.tvm_types import BufferLoad, IterVar, Stmt, TvmBuffer
from edgetune.schedule.rules.tiling import loads_of
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, mentions

_LONGEST_ROW = 7
"""Elements of a row; eight are a vector of many cores."""

_FEWEST_LANES = 16
_LEAST_WORK = 1 << 15
"""Executions of a stage below which the call of one more kernel costs more than it saves."""


def with_turned_rows(stages: Sequence[BlockStage], constants: Sequence[TvmBuffer]) -> list[list[Stmt | BlockStage]]:
    """The kernels that compute `stages`, each as its new statements and the stages that stay as they are.

    Empty where there are no such rows.
    """
    if sum(bool(stage.reduction) for stage in stages) < 2:
        return []
    others = [*constants, *(written_by(stage) for stage in stages)]
    loads = [(stage, load) for stage in stages for load in loads_of(stage) if not among(load.source, others)]
    orders = Orders()
    for stage, load in loads:
        if _is_crossed(load, stage) and stage.work >= max(
            _LEAST_WORK, FEWEST_USES * prod(map(int, load.source.ty.shape))
        ):
            orders.add(load.source, 0)
    if not orders.buffers():
        return []
    made = [
        orders.stage(stage, stage.name, stage.reduction)
        if any(among(load.source, orders.buffers()) for load in loads_of(stage))
        else stage
        for stage in stages
    ]
    return [*([orders.copy(buffer)] for buffer in orders.buffers()), made]


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
    if len(load.indices) != 2 or str(load.source.ty.dtype) != "float32":
        return False
    row, element = load.indices
    short = 1 < int(load.source.ty.shape[-1]) <= _LONGEST_ROW
    along = row.same_as(lane.var) and not mentions(element, lane.var)
    return short and along and extent_of(lane) >= _FEWEST_LANES
