"""Short axes that are unrolled: those whose place decides between alternatives, and rows of up to four elements.

In `band == 0 ? a + b : a - b`, vectors over another axis would test the place again and again, and vectors over this
one compute all alternatives to keep one lane of each. With the axis unrolled inside of all others, each alternative is
a statement of its own without a test, and what they read is loaded once.

A row of two to four elements fills no vector. Unrolled, it is a group of stores side by side, of which compilers make
vectors across rows. Where they do not, as with minima and functions of elements, the vectors are ours (see
`codegen/interleaved_rows.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm import ir, tirx
from tvm.s_tir import Schedule

from edgetune.affine.access import Access
from edgetune.affine.domain import Domain
from edgetune.affine.expressions import expressions, is_branch, mentions, with_places
from edgetune.codegen.shuffles import FEWEST_LANES, fewest_lanes, has_shuffles
from edgetune.graph.element_type import type_of
from edgetune.schedule.sketches.block_analysis import extent_of, known_extent, stores
from edgetune.schedule.sketches.inlining import is_costly
from edgetune.tvm_types import BufferRegion, Expr, IterVar, LoopRV, SBlock, Var

_MOST_ALTERNATIVES = 8
MOST_IN_ROW = 4
"""Elements of the longest row that is unrolled: compilers vectorise rows of four well themselves."""

_MADE_BY_HAND = (tirx.Min, tirx.Max, tirx.Select, ir.Call)


def axis_of_choice(block: SBlock) -> int | None:
    """The number of the axis whose place decides which value a stage takes; None if there is none.

    Conditions on that place depend on nothing else, so that unrolling the axis leaves none of them. A branch counts for
    the last axis alone: around the vectors of another one, it is there once for all of them, as in padding.
    """
    axes = block.iter_vars
    values = [value for store in stores(block.body) for value in expressions(store.value)]
    for number, axis in enumerate(axes):
        conditions = [_condition(value, branches=number == len(axes) - 1) for value in values]
        about = [one for one in conditions if one is not None and mentions(one, axis.var)]
        if 1 < extent_of(axis) <= _MOST_ALTERNATIVES and about and all(_is_alone(one, axis, axes) for one in about):
            return number
    return None


def _condition(value: Expr, *, branches: bool) -> Expr | None:
    """The condition by which a value is chosen, by a selection or by one of `branches`; None for any other value."""
    if isinstance(value, tirx.Select):
        return value.condition
    chooses = is_branch(value)
    return value.args[0] if branches and chooses else None


def _is_alone(condition: Expr, axis: IterVar, axes: Sequence[IterVar]) -> bool:
    """Whether a condition depends on the place along one of the axes alone."""
    others = any(mentions(condition, other.var) for other in axes if not other.same_as(axis))
    return not others and not any(isinstance(node, ir.TensorLoad) for node in expressions(condition))


def unroll_short_row(sch: Schedule, block: SBlock, loops: Sequence[LoopRV], native_lanes: int) -> None:
    """Unroll the last loop of a stage if its few elements are one row, and make one loop of the loops around it.

    Loops become one where all tensors count through their axes as through one.
    """
    extents = [extent_of(axis) for axis in block.iter_vars]
    whole = [known_extent(sch, loop) for loop in loops] == extents
    if not whole or len(loops) == 1 or not 1 < extents[-1] <= MOST_IN_ROW:
        return
    first = _first_of_rows(block)
    rows = sch.fuse(*loops[first:-1]) if first < len(loops) - 2 else loops[-2]
    if pays_across(block, native_lanes):
        _, lane = sch.split(rows, [None, native_lanes])
        sch.reorder(loops[-1], lane)
        sch.vectorize(lane)
    sch.unroll(loops[-1])


def _first_of_rows(block: SBlock) -> int:
    """The number of the first of the axes that count the rows as one."""
    axes = block.iter_vars
    first = len(axes) - 2
    while first > 0 and all(_as_one(region, axes[first - 1 : first + 1]) for region in _regions(block)):
        first -= 1
    return first


def pays_across(block: SBlock, native_lanes: int) -> bool:
    """Whether vectors across rows of two to four do what compilers make no good ones of, and load all of it.

    That is a costly function, and in shorter rows any, a minimum, a maximum, a selection or an index that
    wraps or divides.
    """
    extents = [extent_of(axis) for axis in block.iter_vars]
    written = [type_of(one.source) for one in block.writes]
    fewest = [fewest_lanes(dtype, extents[-1]) for dtype in written]
    if len(extents) == 1 or any(least is None or native_lanes < least for least in fewest):
        return False
    first = _first_of_rows(block)
    if prod(extents[first:-1]) < native_lanes or not isinstance(block.body, tirx.BufferStore):
        return False
    nodes = list(expressions(block.body.value))
    row = block.iter_vars[-2].var
    if extents[-1] == MOST_IN_ROW and all(map(has_shuffles, written)) and not any(map(is_costly, nodes)):
        return False
    if not any(isinstance(node, _MADE_BY_HAND) or _divides(node, row) for node in nodes):
        return False
    # From one row of a vector to the next, a load stays where it is, or moves by one element or by a short row.
    lane = tirx.Var("lane", row.ty)
    of_vector = {row: tirx.Var("vector", row.ty) * native_lanes + lane}
    loads = (with_places(node, of_vector) for node in nodes if isinstance(node, ir.TensorLoad))
    accesses = (Access.of(load, Domain.of([(lane, native_lanes)])) for load in loads)
    return all(one.step(lane) in _steps(type_of(one.tensor), native_lanes) for one in accesses)


def _steps(dtype: str, native_lanes: int) -> set[int]:
    """The distances from one element of a vector to the next with which it is loaded well."""
    gaps = FEWEST_LANES if has_shuffles(dtype) else {}
    return {0, 1, *(step for step, lanes in gaps.items() if lanes <= native_lanes)}


def _divides(node: Expr, row: Var) -> bool:
    """Whether a node is a quotient or a remainder of a place along `row`."""
    return isinstance(node, tirx.FloorDiv | tirx.FloorMod) and mentions(node, row)


def _regions(block: SBlock) -> list[BufferRegion]:
    return [*block.reads, *block.writes]


def _as_one(region: BufferRegion, axes: Sequence[IterVar]) -> bool:
    """Whether an access counts through axes as through one, by any step, or depends on none of them."""
    return Access(region.source, [item.min for item in region.region]).joint_step(axes) is not None
