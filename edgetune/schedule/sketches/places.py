"""Places: integers that depend on axes alone, computed for many of their places at once."""

from __future__ import annotations

import numpy as np
from tvm import ir, tirx

from edgetune.affine.domain import MOST_PLACES
from edgetune.affine.expressions import expressions, mentions
from edgetune.affine.values import integers_at
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of
from edgetune.tvm_types import Expr, Var

_NEARLY_ALL = 0.75


def moves_in_parts(stage: BlockStage) -> bool:
    """Whether a place is kept within a row, or wraps, so that neighbours read neighbours in all but a few places.

    Not where these lie between vectors, the last of which overlaps the one before it.
    """
    store = stage.block.body
    if not stage.spatial or not isinstance(store, tirx.BufferStore) or extent_of(stage.spatial[-1]) > MOST_PLACES:
        return False
    *outer, lane = stage.spatial
    for side in (0, 1):  # the first place of the other axes, and the last
        others = {axis.var: np.asarray(side * (extent_of(axis) - 1)) for axis in outer}
        places = {**others, lane.var: np.arange(extent_of(lane))}
        for load in expressions(store.value):
            if not isinstance(load, ir.TensorLoad) or not load.indices or not mentions(load.indices[-1], lane.var):
                continue
            found = integers_at(load.indices[-1], places)
            steps = None if found is None else np.diff(found) == 1
            if steps is None or not steps.size or not _NEARLY_ALL <= float(steps.mean()) < 1.0:
                continue
            if not any(
                not np.any((np.flatnonzero(~steps) + 1) % width) for width in _widths(load.indices[-1], lane.var)
            ):
                return True
    return False


def _widths(index: Expr, lane: Var) -> set[int]:
    """The constants by which an index takes the remainder of `lane`, as 8 of `min(j // 8 * 8, 119) + j % 8`."""
    found = (node.b for node in expressions(index) if isinstance(node, tirx.FloorMod) and node.a.same_as(lane))
    return {int(one.value) for one in found if isinstance(one, tirx.IntImm)}


def divides_by_integer(value: Expr) -> bool:
    """Whether a value divides by an integer that may be 0 where the value is not chosen."""
    divisions = (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)
    found = (node for node in expressions(value) if isinstance(node, divisions))
    return any("int" in str(node.ty) and not isinstance(node.b, tirx.IntImm) for node in found)
