"""Places: integers that depend on axes alone, computed for many of their places at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod

import numpy as np
from tvm import ir, tirx

from edgetune.graph.tvm_types import Expr, Var
from edgetune.schedule.sketches.block_analysis import BlockStage, expressions, extent_of, mentions

MOST_PLACES = 1 << 22
_NEARLY_ALL = 0.75

Places = np.ndarray
_ARITHMETIC: dict[type, Callable[[Places, Places], Places]] = {
    tirx.Add: np.add,
    tirx.Sub: np.subtract,
    tirx.Mul: np.multiply,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
    tirx.And: np.logical_and,
    tirx.Or: np.logical_or,
}
COMPARISONS: dict[type, Callable[[Places, Places], Places]] = {
    tirx.LT: np.less,
    tirx.LE: np.less_equal,
    tirx.GT: np.greater,
    tirx.GE: np.greater_equal,
    tirx.EQ: np.equal,
    tirx.NE: np.not_equal,
}
DIVISIONS: dict[type, Callable[[Places, Places], Places]] = {
    tirx.FloorDiv: np.floor_divide,
    tirx.FloorMod: np.remainder,
}


def kind_at(node: Expr, lane: Var, places: Places) -> Places | None:
    """A number for each place, which is the same where `node` can be replaced alike; None for other nodes."""
    if type(node) in COMPARISONS:
        found = integers_at(node, {lane: places})
        return None if found is None else found.astype(np.int64)
    if type(node) in DIVISIONS and isinstance(node.b, tirx.IntImm) and int(node.b.value) > 0:
        found = integers_at(node.a, {lane: places})
        return None if found is None else found // int(node.b.value)
    if isinstance(node, tirx.Min | tirx.Max):
        one, other = (integers_at(side, {lane: places}) for side in (node.a, node.b))
        return None if one is None or other is None else (one < other).astype(np.int64)
    return None


def integers_at(node: Expr, places: Mapping[Var, Places]) -> Places | None:
    """The integers, or truth values, that `node` is at `places` of axes, which broadcast against each other.

    One for each combination of places, whether they change it or not. None where it depends on anything else, or
    divides by less than 1.
    """
    found = _integers_at(node, places)
    shape = np.broadcast_shapes(*(known.shape for known in places.values()))
    return None if found is None else np.broadcast_to(found, shape)


def _integers_at(node: Expr, places: Mapping[Var, Places]) -> Places | None:
    if isinstance(node, tirx.IntImm):
        return np.asarray(int(node.value))
    if isinstance(node, ir.Var):
        return next((known for axis, known in places.items() if node.same_as(axis)), None)
    if isinstance(node, tirx.Not):
        inner = _integers_at(node.a, places)
        return None if inner is None else np.logical_not(inner)
    if isinstance(node, tirx.Cast) and str(node.ty.dtype) in {"int32", "int64"}:
        return _integers_at(node.value, places)
    if isinstance(node, tirx.Select):
        parts = (node.condition, node.true_value, node.false_value)
        chosen, one, other = (_integers_at(part, places) for part in parts)
        return None if chosen is None or one is None or other is None else np.where(chosen, one, other)
    operation = _ARITHMETIC.get(type(node)) or COMPARISONS.get(type(node)) or DIVISIONS.get(type(node))
    if operation is None:
        return None
    one, other = (_integers_at(side, places) for side in (node.a, node.b))
    if one is None or other is None or (type(node) in DIVISIONS and bool(np.any(other <= 0))):
        return None
    return operation(one, other)


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


def is_inside(index: Expr, extent: int, places: Mapping[Var, Places], known: Sequence[Expr]) -> bool:
    """Whether an index lies in an axis of `extent` at all `places` at which the conditions `known` hold.

    False where it depends on anything else, or on many places at once.
    """
    own = [axis for axis in places if mentions(index, axis)]
    if prod(len(places[axis]) for axis in own) > MOST_PLACES:
        return False
    grids = np.meshgrid(*(places[axis] for axis in own), indexing="ij", sparse=True)
    at = dict(zip(own, grids, strict=True))
    found = integers_at(index, at)
    if found is None:
        return False
    held = [one for one in (integers_at(condition, at) for condition in known) if one is not None]
    outside = reduce(np.logical_and, held, np.logical_or(found < 0, found >= extent))
    return not bool(np.any(outside))


def divides_by_integer(value: Expr) -> bool:
    """Whether a value divides by an integer that may be 0 where the value is not chosen."""
    divisions = (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)
    found = (node for node in expressions(value) if isinstance(node, divisions))
    return any("int" in str(node.ty) and not isinstance(node.b, tirx.IntImm) for node in found)
