"""Reductions along the contiguous axis by vectors: lane i takes elements i, i + lanes, ..; the lanes join last.

Softmax sums, means and variances of a row are such. Float sums change their order by it, and get more accurate: the
error bound grows with the number of terms per lane (N. J. Higham, Accuracy and Stability of Numerical Algorithms,
2nd edition, SIAM 2002, section 4.2).
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule

from edgetune.tuning.sketches.anatomy import Stage, extent_of, mentions
from edgetune.tuning.sketches.tile import lanes_for

_FEWEST_LANES = 4


def split_lanes(sch: Schedule, stage: Stage, native_lanes: int) -> str | None:
    """Divide a reduction stage into one sum per lane and the sum of the lanes; the name of the former, None if unfit.

    The stage itself keeps its name and joins the lanes.
    """
    lanes = _lanes(stage, native_lanes)
    if lanes is None:
        return None
    loop = sch.get_loops(sch.get_sblock(stage.name))[-1]
    _, lane = sch.split(loop, [None, lanes])
    try:
        partial = sch.rfactor(lane, len(stage.spatial))
    except RuntimeError:  # ScheduleError: not a reduction that TVM knows to be commutative
        return None
    return str(sch.get(partial).name_hint)


def vectorize_lanes(sch: Schedule, partial: str, joined: str, moved: Container[str]) -> None:
    """Vectorise the sums per lane in registers, unroll their joining; `moved`: stages computed at a loop of another."""
    block = sch.get_sblock(partial)
    own = sch.get_loops(block)[-len(sch.get(block).iter_vars) :]
    if partial in moved:  # its loops are in the order of its axes then, and the lane is the first of them
        lane, *rest = own
        sch.reorder(*rest, lane)
        sch.set_scope(block, 0, "local")
    else:
        *rest, lane = own
    sch.vectorize(lane)
    sch.decompose_reduction(block, rest[-1])
    block = sch.get_sblock(joined)
    own = sch.get_loops(block)[-len(sch.get(block).iter_vars) :]
    sch.unroll(own[0] if joined in moved else own[-1])


def _lanes(stage: Stage, native_lanes: int) -> int | None:
    """Lanes for a stage with one reduction axis that everything it reads has last, and contiguous; None otherwise."""
    if len(stage.reduction) != 1 or len(stage.block.writes) != 1 or not stage.spatial:
        return None
    axis = stage.reduction[0]
    for region in stage.reads():
        indices = [item.min for item in region.region]
        if any(mentions(index, axis.var) for index in indices[:-1]):
            return None
        if indices and mentions(indices[-1], axis.var) and not _steps_by_one(indices[-1], axis.var):
            return None
    lanes = lanes_for(extent_of(axis), native_lanes)
    return lanes if lanes >= _FEWEST_LANES and extent_of(axis) >= 2 * lanes else None


def _steps_by_one(index: Any, variable: Any) -> bool:
    """Whether `index` is `variable`, or that and something that does not depend on it."""
    if isinstance(index, tirx.Add):
        for one, other in ((index.a, index.b), (index.b, index.a)):
            if not mentions(one, variable):
                return _steps_by_one(other, variable)
    return bool(index.same_as(variable))
