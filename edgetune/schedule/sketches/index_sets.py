"""Index set splitting: a row is divided where a condition on its place changes, and each part has no condition.

`c == 0 ? a : b` becomes the element 0 and a row from 1 on. So does a place that wraps, `x[(c + 1) % n]`, or is kept
within a row, `x[max(c - 1, 0)]`. A part that loads neighbours is a loop over vectors, others stay single elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.s_tir import Schedule

from edgetune.affine.access import Access
from edgetune.affine.domain import Domain, is_inside_at, simplified
from edgetune.affine.expressions import conjuncts, expressions, is_branch, is_choice, is_one, is_zero, mentions
from edgetune.affine.pieces import ends_of, formula_at
from edgetune.affine.values import COMPARISONS, integers_at
from edgetune.codegen.shuffles import steps_of_vectors
from edgetune.graph.element_type import type_of
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, known_extent
from edgetune.schedule.sketches.places import divides_by_integer
from edgetune.tvm_types import BufferStore, Expr, For, IterVar, LoopRV, Stmt, Var

DIVIDED_ROW = "edgetune_divided_row"
"""Annotation of the loop over a row: the most lanes of a vector."""

MOST_PARTS = 8
_MOST_CASES = 4
"""Values of a place on other axes: each has its own parts."""
MOST_CONDITIONS = 3
FEWEST_LANES = 4
LEAST_SHARE = 0.75
"""The least share of a row that lies in parts that are vectors."""

_DIVIDING = (*COMPARISONS, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max)
"""What changes at few places of a row."""


@dataclass(frozen=True)
class RowPart:
    """A range of places along an axis, and the store as it is there. `neighbours`: it can be done in vectors."""

    first: int
    extent: int
    store: BufferStore
    neighbours: bool


def divide_row(sch: Schedule, stage: BlockStage, row: LoopRV, native_lanes: int) -> bool:
    """Ask for the parts of a whole `row`, the innermost loop of a stage; False, and no change, where it has none."""
    loop = sch.get(row)
    realize, axis = loop.body, stage.spatial[-1]
    if native_lanes == 1 or not isinstance(realize, s_tir.SBlockRealize) or not is_whole(loop, realize):
        return False
    if known_extent(sch, row) != extent_of(axis) or not _is_divided(stage):
        return False
    sch.annotate(row, DIVIDED_ROW, native_lanes)
    return True


def is_whole(loop: For, realize: Stmt) -> bool:
    """Whether a loop counts through the last axis of a block from 0, without a condition."""
    values = list(realize.iter_values)
    return bool(values) and is_zero(loop.min) and is_one(realize.predicate) and values[-1].same_as(loop.loop_var)


def changes_along_row(stage: BlockStage) -> bool:
    """Whether a condition on the place in a row, or a wrap of it, changes at few places of the row."""
    store = stage.block.body
    if not stage.spatial or not isinstance(store, tirx.BufferStore):
        return False
    ends = ends_of([store.value], stage.spatial[-1].var, extent_of(stage.spatial[-1]), MOST_PARTS)
    return ends is not None and len(ends) > 1


def _is_divided(stage: BlockStage) -> bool:
    """Whether conditions divide the last axis of a stage into few parts, which nearly all load neighbours."""
    store = stage.block.body
    if not stage.spatial or not stage.writes_its_axes() or not isinstance(store, tirx.BufferStore):
        return False
    lane, extent = stage.spatial[-1].var, extent_of(stage.spatial[-1])
    ends = ends_of([store.value], lane, extent, MOST_PARTS)
    if ends is None or (len(ends) == 1 and not cases_of(store, stage.spatial) and not _branches(store.value)):
        return False
    return any(
        sum(part.extent for part in parts or () if part.neighbours) >= LEAST_SHARE * extent
        for parts in _parts_in_all_cases(store, stage.spatial, ())
    )


def _parts_in_all_cases(
    store: BufferStore, axes: Sequence[IterVar], known: Sequence[Expr]
) -> Iterator[list[RowPart] | None]:
    """The parts of a row in each case of the conditions on other axes; `known` are those that hold."""
    cases = cases_of(store, axes) if len(known) < MOST_CONDITIONS else []
    for condition, case in cases:
        yield from _parts_in_all_cases(case, axes, [*known, condition])
    if not cases:
        yield parts_of(store, axes, known)


def is_known_in_phases(stage: BlockStage, factor: int) -> bool:
    """Whether every `factor`-th place of the last axis takes one side of each branch, as with zeros between samples."""
    store = stage.block.body
    if factor == 1 or not isinstance(store, tirx.BufferStore):
        return False
    lane, extent = stage.spatial[-1].var, extent_of(stage.spatial[-1])
    phases = (_resolved(store, lane, np.arange(first, extent, factor)) for first in range(factor))
    return all(not mentions(branch.args[0], lane) for phase in phases for branch in _branches(phase.value))


def parts_of(store: BufferStore, axes: Sequence[IterVar], known: Sequence[Expr]) -> list[RowPart] | None:
    """The parts of a row along the last of the `axes` where the conditions `known` hold; None where there are too many.

    A branch that is left becomes a selection by lane, where both its sides read inside their tensors.
    """
    ends = ends_of([store.value], axes[-1].var, extent_of(axes[-1]), MOST_PARTS)
    if ends is None:
        return None
    return [part_of(store, axes, known, places) for places in zip([0, *ends], ends, strict=False)]


def part_of(store: BufferStore, axes: Sequence[IterVar], known: Sequence[Expr], places: tuple[int, int]) -> RowPart:
    """The part of a row from the first of two `places` to the one before the second; see `parts_of`."""
    (first, end), lane = places, axes[-1].var
    there = _resolved(store, lane, np.arange(first, end))
    if end - first >= FEWEST_LANES and _branches(there.value):
        ranges = {axis.var: np.arange(extent_of(axis)) for axis in axes[:-1]} | {lane: np.arange(first, end)}
        there = _selecting(there, ranges, known)
    return RowPart(first, end - first, there, end - first >= FEWEST_LANES and _in_vectors(there, lane))


def cases_of(store: BufferStore, axes: Sequence[IterVar]) -> list[tuple[Expr, BufferStore]]:
    """Conditions on the places along all but the last of the `axes`, of which one holds, and the store in each case.

    They are by what a store takes a branch, or by what the places change at which a row is divided, as `q % 3` in
    `x[q, (c + q % 3) % n]`. Empty where there are none.
    """
    lane = axes[-1].var
    condition = _outer_condition(store, lane)
    if condition is not None:
        # TVM loses one of two branches of a condition that it hoists out of a loop: so these are two conditions.
        negated = tirx.Not(condition)
        return [(condition, _assumed(store, condition, holds=True)), (negated, _assumed(store, condition, holds=False))]
    for node in expressions(store.value):
        divides = type(node) in _DIVIDING and mentions(node, lane)
        place = _outer_place(node, lane) if divides else None
        if place is None:
            continue
        values = _values_of(place, axes[:-1])
        if len(values) > 1:
            constants = [tirx.IntImm(str(place.ty.dtype), value) for value in values]
            return [(tirx.EQ(place, one), _with_place(store, place, one)) for one in constants]
    return []


def _outer_place(node: Expr, lane: Var) -> Expr | None:
    """The largest part of a node that depends on `lane` and on other axes which depends on these alone."""
    for part in (node.a, node.b) if hasattr(node, "a") else ():
        if not mentions(part, lane):
            if any(isinstance(one, ir.Var) for one in expressions(part)):
                return part
        elif (found := _outer_place(part, lane)) is not None:
            return found
    return None


def _values_of(place: Expr, axes: Sequence[IterVar]) -> list[int]:
    """The values of a place along `axes`; empty where there are many, or where it depends on anything else."""
    places = Domain.of_block(axes).places(place)
    found = None if places is None else integers_at(place, places)
    values = [] if found is None else [int(one) for one in np.unique(found)]
    return values if len(values) <= _MOST_CASES else []


def _with_place(store: BufferStore, place: Expr, value: Expr) -> BufferStore:
    """A store where `place`, which has been found in it, is `value`."""

    def known(node: Expr) -> Expr:
        return value if tvm_ffi.structural_equal(node, place) else node

    return tvm_ffi.structural_map(store, (type(place), known))


def _outer_condition(store: BufferStore, lane: Var) -> Expr | None:
    """A condition on the places along other axes by which a store takes a branch; None where there is none."""
    for node in expressions(store.value):
        if not is_choice(node):
            continue
        found = _without(node.condition if isinstance(node, tirx.Select) else node.args[0], lane)
        if found is not None:
            return found
    return None


def _assumed(store: BufferStore, condition: Expr, *, holds: bool) -> BufferStore:
    """A store where `condition`, which has been found in it, holds, or does not."""
    sure = [condition, *(conjuncts(condition) if holds else ())]

    def known(node: Expr) -> Expr:
        return tirx.IntImm("bool", int(holds)) if any(tvm_ffi.structural_equal(node, one) for one in sure) else node

    return tvm_ffi.structural_map(store, [*((kind, known) for kind in {type(one) for one in sure}), *_CHOICES])


def _resolved(store: BufferStore, lane: Var, places: np.ndarray) -> BufferStore:
    """A store at `places`, between which nothing changes, without the conditions that are known there."""

    def known(node: Expr) -> Expr:
        kind = formula_at(node, lane, places)
        if kind is None or kind.min() != kind.max():
            return node
        value = int(kind[0])
        if type(node) in COMPARISONS:
            return tirx.IntImm("bool", value)
        if isinstance(node, tirx.FloorDiv):
            return tirx.IntImm(str(node.ty.dtype), value)
        if isinstance(node, tirx.FloorMod):
            return simplified(node.a - node.b * value)
        return node.a if bool(value) == isinstance(node, tirx.Min) else node.b

    maps = [(kind, known) for kind in _DIVIDING]
    return tvm_ffi.structural_map(store, [*maps, *_CHOICES])


def _taken(node: Expr) -> Expr:
    """The value of a branch whose condition is known; any other call stays."""
    if not is_branch(node):
        return node
    condition = _constant(node.args[0])
    return node if condition is None else node.args[1 if condition else 2]


def _selected(node: Expr) -> Expr:
    condition = _constant(node.condition)
    return node if condition is None else node.true_value if condition else node.false_value


_CHOICES = [(ir.Call, _taken), (tirx.Select, _selected)]


def _constant(condition: Expr) -> bool | None:
    """The condition's value, as far as its own constants decide it."""
    if isinstance(condition, tirx.IntImm):
        return bool(condition.value)
    if isinstance(condition, tirx.Not):
        inner = _constant(condition.a)
        return None if inner is None else not inner
    if isinstance(condition, tirx.And | tirx.Or):
        sides = [_constant(side) for side in (condition.a, condition.b)]
        decides = isinstance(condition, tirx.Or)
        if decides in sides:
            return decides
        return None if None in sides else not decides
    return None


def _without(condition: Expr, lane: Var) -> Expr | None:
    """The largest part of a condition that compares integers, of which none is read or depends on `lane`."""
    if _constant(condition) is not None:
        return None
    if isinstance(condition, tirx.And | tirx.Or | tirx.Not) or type(condition) in COMPARISONS:
        nodes = list(expressions(condition))
        plain = not any(isinstance(node, ir.TensorLoad | ir.Call | tirx.FloatImm) for node in nodes)
        if plain and not mentions(condition, lane):
            return condition
    if isinstance(condition, tirx.And | tirx.Or):
        found = _without(condition.a, lane)
        return _without(condition.b, lane) if found is None else found
    return _without(condition.a, lane) if isinstance(condition, tirx.Not) else None


def _selecting(store: BufferStore, places: Mapping[Var, np.ndarray], known: Sequence[Expr]) -> BufferStore:
    """A store with selections instead of branches, both of whose sides read inside their tensors at all `places`."""

    def select(call: Expr) -> Expr:
        if not is_branch(call):
            return call
        loads = [node for node in expressions(call) if isinstance(node, ir.TensorLoad)]
        inside = all(
            is_inside_at(index, int(extent), places, known)
            for load in loads
            for index, extent in zip(load.indices, load.source.ty.shape, strict=True)
        )
        return tirx.Select(*call.args) if inside and not any(map(divides_by_integer, call.args)) else call

    return tvm_ffi.structural_map(store, (ir.Call, select))


def _in_vectors(store: BufferStore, lane: Var) -> bool:
    """Whether a store takes no branch, and all that it loads moves along memory with `lane`, or not at all."""
    if _branches(store.value):
        return False
    loads = (node for node in expressions(store.value) if isinstance(node, ir.TensorLoad))
    return all(Access.of(load).step(lane) in steps_of_vectors(type_of(load.source)) for load in loads)


def _branches(value: Expr) -> list[Expr]:
    return [node for node in expressions(value) if is_branch(node)]
