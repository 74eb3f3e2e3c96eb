"""Padded vectors: a vector that lies inside its tensor is copied whole, one across an edge element by element.

A stage of padding, `inside ? x[c - 2] : 0`, branches in each lane. Where the condition holds for the first and for the
last lane it holds for all between, as it compares places: then the vector needs no branch. Few vectors are at an edge.
"""

from __future__ import annotations

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.domain import simplified
from edgetune.affine.expressions import SLACKS, conjuncts, expressions, is_branch, is_one, mentions, with_places
from edgetune.affine.steps import step_along
from edgetune.schedule.sketches.block_analysis import BlockStage, stores
from edgetune.schedule.sketches.idle_steps import step_of, with_own_variables
from edgetune.tvm_types import Expr, For, Stmt


def has_padded_vectors(stage: BlockStage) -> bool:
    """Whether a stage has one branch, by its place, and all that it loads is contiguous along its last axis."""
    written = list(stores(stage.block.body))
    if len(written) != 1 or not isinstance(stage.block.body, tirx.BufferStore):
        return False
    lane = stage.spatial[-1].var
    branches = _branches(written[0].value)
    loads = (node for node in expressions(written[0].value) if isinstance(node, ir.TensorLoad))
    along = all(
        step_along(index, lane) == 1 if number == len(load.indices) - 1 else not mentions(index, lane)
        for load in loads
        for number, index in enumerate(load.indices)
        if mentions(index, lane)
    )
    return along and len(branches) == 1 and all(_is_comparison(one) for one in conjuncts(branches[0].args[0]))


def whole_or_by_element(loop: For) -> Stmt:
    """A vectorised loop over such a stage as two: of whole vectors without a branch, and of single elements with it.

    `loop` itself where it is no such loop.
    """
    realize = loop.body
    if int(loop.kind) != int(tirx.ForKind.VECTORIZED) or not isinstance(realize, s_tir.SBlockRealize):
        return loop
    store = realize.block.body
    sums = any(int(axis.iter_type) != int(tirx.IterVar.DataPar) for axis in realize.block.iter_vars)
    if not isinstance(store, tirx.BufferStore) or sums or not is_one(realize.predicate):
        return loop
    branches = _branches(store.value)
    if len(branches) != 1:
        return loop
    branch = branches[0]
    values = {axis.var: value for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
    ends: list[Expr] = []
    moving = False
    for part in conjuncts(branch.args[0]):
        place = with_places(part, values)
        if not mentions(place, loop.loop_var):
            ends.append(place)
            continue
        if not _is_comparison(part) or step_of(SLACKS[type(part)](place), loop) is None:
            return loop
        moving = True
        ends += [_at(place, loop, 0), _at(place, loop, int(loop.extent) - 1)]

    if not moving:
        return loop

    def inside(node: Expr) -> Expr:
        return node.args[1] if node.same_as(branch) else node

    whole = with_own_variables([loop], realize, tvm_ffi.structural_map(store, (ir.Call, inside)), "inside")
    single = with_own_variables([_serial(loop)], realize, store, "edge")
    return tirx.IfThenElse(simplified(tirx.all(*ends)), whole, single)


def _branches(value: Expr) -> list[Expr]:
    return [node for node in expressions(value) if is_branch(node)]


def _is_comparison(condition: Expr) -> bool:
    return type(condition) in SLACKS and "int" in str(condition.a.ty.dtype)


def _at(condition: Expr, loop: For, lane: int) -> Expr:
    return with_places(condition, {loop.loop_var: tirx.IntImm(str(loop.loop_var.ty.dtype), lane)})


def _serial(loop: For) -> For:
    return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)
