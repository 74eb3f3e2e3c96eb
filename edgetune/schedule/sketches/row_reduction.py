"""Vectorised row reduction: along a contiguous axis, lane i takes elements i, i + lanes, ..; the lanes join at the end.

Examples are softmax sums, means and variances of a row. This changes the order of float sums and makes them more
accurate: the error bound grows with the number of terms per lane (N. J. Higham, Accuracy and Stability of Numerical
Algorithms, 2nd edition, SIAM 2002, section 4.2).
"""

from __future__ import annotations

from collections.abc import Container

from tvm.s_tir import Schedule

from edgetune.affine.expressions import mentions
from edgetune.affine.steps import step_along
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of
from edgetune.schedule.sketches.tile import lanes_for

_FEWEST_LANES = 4


def split_lanes(sch: Schedule, stage: BlockStage, native_lanes: int) -> str | None:
    """Divide a reduction stage into one sum per lane and the sum of the lanes; None if it does not fit.

    The result is the name of the stage of sums per lane. The stage itself keeps its name and joins the lanes.
    """
    lanes = _lanes(stage, native_lanes)
    if lanes is None:
        return None
    loop = sch.get_loops(sch.get_sblock(stage.name))[-1]
    _, lane = sch.split(loop, [None, lanes])
    try:
        partial = sch.rfactor(lane, len(stage.spatial))
    except RuntimeError:  # ScheduleError: TVM does not know that this reduction is commutative
        return None
    return str(sch.get(partial).name_hint)


def vectorize_lanes(sch: Schedule, partial: str, joined: str, moved: Container[str]) -> None:
    """Vectorise the sums per lane in registers and unroll their join; stages in `moved` run at another's loop."""
    block = sch.get_sblock(partial)
    own = sch.get_loops(block)[-len(sch.get(block).iter_vars) :]
    if partial in moved:  # then its loops are in the order of its axes, the lane first
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


def _lanes(stage: BlockStage, native_lanes: int) -> int | None:
    """Lanes of a stage with one reduction axis that is the last, contiguous index of every read; None otherwise."""
    if len(stage.reduction) != 1 or len(stage.block.writes) != 1 or not stage.spatial:
        return None
    axis = stage.reduction[0]
    for region in stage.reads():
        indices = [item.min for item in region.region]
        if any(mentions(index, axis.var) for index in indices[:-1]):
            return None
        if indices and mentions(indices[-1], axis.var) and step_along(indices[-1], axis.var) != 1:
            return None
    lanes = lanes_for(extent_of(axis), native_lanes)
    return lanes if lanes >= _FEWEST_LANES and extent_of(axis) >= 2 * lanes else None
