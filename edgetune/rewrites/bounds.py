"""Bounds: a stage of an expression that reads an element outside of a tensor is refused.

A selection computes both sides: it becomes a branch where one of them may read outside. An index is evaluated at all
places of the axes that it depends on, under the conditions of the branches around it. What depends on values of tensors
is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.access import Access
from edgetune.affine.domain import Domain
from edgetune.affine.expressions import is_choice
from edgetune.affine.values import integers_at
from edgetune.errors import UsageError
from edgetune.graph.reduction_stage import with_fields
from edgetune.tvm_types import BufferLoad, Expr, IterVar, PrimFunc, SBlock


def check_reads(function: PrimFunc, name: str) -> None:
    """Raises UsageError where a stage of `function`, the expression called `name`, reads outside of a tensor."""
    found: list[str] = []

    def look(block: SBlock) -> None:
        axes = list(block.iter_vars)
        if not all(isinstance(axis.dom.extent, tirx.IntImm) for axis in axes):
            return

        def check(load: BufferLoad, conditions: Sequence[Expr]) -> None:
            for place, (index, extent) in enumerate(zip(load.indices, load.source.ty.shape, strict=True)):
                wrong = _outside(index, int(extent), conditions, axes)
                if wrong is not None:
                    tensor = f"element {wrong} of axis {place} of '{load.source.name}', which has {int(extent)}"
                    found.append(f"stage '{block.name_hint}' of {name} reads {tensor}")

        for statement in _statements(block):
            _loads(statement, (), check)

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, look))
    if found:
        raise UsageError(f"{found[0]}: limit the index, or read it in one branch of te.if_then_else")


def with_branches(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, with a branch for each selection of which a side may read outside of a tensor.

    A selection computes both sides. Branches inside of a side do not count, for TVM takes the condition of the
    selection as known there, and leaves out a branch that it implies.
    """

    def rewrite(block: SBlock) -> SBlock:
        if not isinstance(block.body, tirx.BufferStore):  # it has blocks inside
            return block
        domain = Domain.of_block(block.iter_vars)

        def branch(node: Expr) -> Expr:
            unsafe: list[BufferLoad] = []

            def check(load: BufferLoad, _: Sequence[Expr]) -> None:
                if not Access.of(load, domain).is_inside():
                    unsafe.append(load)

            _loads(node.true_value, (), check)
            _loads(node.false_value, (), check)
            return tirx.if_then_else(node.condition, node.true_value, node.false_value) if unsafe else node

        body = tvm_ffi.structural_map(block.body, (tirx.Select, branch))
        return block if body.same_as(block.body) else with_fields(block, body=body)

    return tvm_ffi.structural_map(function, (s_tir.SBlock, rewrite))


def _statements(block: SBlock) -> list[Expr]:
    """The values and indices of what a block stores; none where a statement is under a condition."""
    found: list[Expr] = []
    branches: list[Any] = []
    for body in (block.body, *([] if block.init is None else [block.init])):
        tvm_ffi.structural_walk(body, (tirx.IfThenElse, branches.append))
        tvm_ffi.structural_walk(body, (tirx.BufferStore, lambda store: found.extend([store.value, *store.indices])))
    return [] if branches else found


def _loads(node: Any, conditions: tuple[Expr, ...], check: Callable[[BufferLoad, Sequence[Expr]], None]) -> None:
    """Calls `check` with each load in an expression, and with the conditions under which it is evaluated."""
    if is_choice(node):
        selects = isinstance(node, tirx.Select)
        condition, chosen, other = (node.condition, node.true_value, node.false_value) if selects else node.args
        _loads(condition, conditions, check)
        _loads(chosen, (*conditions, condition), check)
        _loads(other, (*conditions, tirx.Not(condition)), check)
    elif isinstance(node, tirx.And | tirx.Or):
        _loads(node.a, conditions, check)
        _loads(node.b, (*conditions, node.a if isinstance(node, tirx.And) else tirx.Not(node.a)), check)
    elif isinstance(node, ir.TensorLoad):
        check(node, conditions)
        for index in node.indices:
            _loads(index, conditions, check)
    elif isinstance(node, ir.Call):
        for argument in node.args:
            _loads(argument, conditions, check)
    elif isinstance(node, tirx.Cast):
        _loads(node.value, conditions, check)
    else:
        for side in ("a", "b"):
            if hasattr(node, side):
                _loads(getattr(node, side), conditions, check)


def _outside(index: Expr, extent: int, conditions: Sequence[Expr], axes: Sequence[IterVar]) -> int | None:
    """An element that `index` names and that is none of `extent`; None if there is none, or that is not known."""
    places = Domain.of_block(axes).some_places(index, *conditions)
    named = integers_at(index, places)
    if named is None:
        return None
    wrong = (named < 0) | (named >= extent)
    for condition in conditions if wrong.any() else ():
        held = integers_at(condition, places)
        if held is None:
            return None
        wrong = wrong & held
    found = np.broadcast_to(named, wrong.shape)[wrong]
    return int(found[0]) if found.size else None
