"""Shared values: a function of some elements that several stages compute is stored once.

A mean of pixels weighted by `exp(-(x[r + i, c + j] - x[r, c])^2)` needs the weights in two sums: that of weighted
pixels, and that of weights. A softmax may be written with the exponential both in its sum and in its elements. The
value becomes a stage of its own, where its rows stay in a cache until they are read again. They lie along an axis on
which vectors read neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.access import Access
from edgetune.affine.expressions import expressions, is_choice, with_places
from edgetune.graph.element_type import is_floating
from edgetune.rewrites.stored_values import (
    StoredValue,
    axes_of,
    is_one_of,
    kept,
    loading,
    statements_in,
    stored_over,
    unused_name,
    with_statements,
)
from edgetune.schedule.sketches.block_analysis import block_of, extent_of
from edgetune.schedule.sketches.inlining import is_costly
from edgetune.tvm_types import Expr, IterVar, PrimFunc, SBlock, Stmt, Var

_MOST_NODES = 200
_MOST_ELEMENTS = 1 << 16
"""Stored elements that are read again before they leave L2."""
_MOST_OF_A_ROW = 1 << 12
"""Those of one row of results, before they leave L1, where rows are computed one after another."""


@dataclass(frozen=True)
class _Use:
    """A value in the stage number `stage`, and the axes that it depends on, in the order in which it mentions them."""

    stage: int
    value: Expr
    block: SBlock
    axes: tuple[IterVar, ...]


def with_shared_values(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, with one more stage for each value of a costly function that several stages compute."""
    before = statements_in(function)
    uses = [use for number, statement in enumerate(before) for use in _uses(number, statement)]
    names = {str(block_of(statement).name_hint) for statement in before}
    made: dict[int, list[StoredValue]] = {}
    loads: dict[int, list[tuple[Expr, Expr]]] = {}
    for use in uses:
        if _is_replaced(use, loads):
            continue
        others = [one for one in uses if one is not use and not _is_replaced(one, loads) and _equal(use, one)]
        elsewhere = any(one.stage != use.stage for one in others)  # a compiler sees what one stage computes twice
        rows = _rows(use, others) if elsewhere else None
        if rows is None:
            continue
        name = unused_name(f"{use.block.name_hint!s}_terms", names)
        names.add(name)
        for one in (use, *others):
            own = [one.axes[place] for place in rows]
            stored = stored_over(one.value, own, name)
            if one is use:
                made.setdefault(use.stage, []).append(stored)
            loads.setdefault(one.stage, []).append((one.value, stored.read(made[use.stage][-1].stage.out)))
    if not made:
        return function
    statements: list[Stmt] = []
    for number, statement in enumerate(before):
        statements += [kept(one.stage.statement()) for one in made.get(number, ())]
        statements.append(loading(statement, loads[number]) if number in loads else statement)
    return with_statements(function, statements, [one for stored in made.values() for one in stored])


def _uses(number: int, statement: Stmt) -> Iterator[_Use]:
    """The values of a stage that call a costly function, larger ones before their parts."""
    block = block_of(statement)
    store = block.body
    if not isinstance(store, tirx.BufferStore) or not is_floating(store.buffer):
        return
    if sum(1 for _ in islice(expressions(store.value), _MOST_NODES + 1)) > _MOST_NODES:
        return  # each part of a value is compared with all others
    if not all(isinstance(axis.dom.min, tirx.IntImm) and int(axis.dom.min.value) == 0 for axis in block.iter_vars):
        return
    for value in _values(store.value):
        nodes = list(expressions(value))
        if not any(is_costly(node) for node in nodes) or any(_is_condition(node) for node in nodes):
            continue
        loads = [node for node in nodes if isinstance(node, ir.TensorLoad)]
        own = any(load.source.same_as(store.buffer) for load in loads)
        if loads and not own and is_floating(value):
            yield _Use(number, value, block, _mentioned(value, axes_of(value, block)))


def _values(value: Expr) -> Iterator[Expr]:
    """A value and its parts, without those that are computed under a condition."""
    if isinstance(value, ir.TensorLoad) or _is_condition(value):
        return
    yield value
    named = (getattr(value, name, None) for name in "ab")
    for part in value.args if isinstance(value, ir.Call) else (part for part in named if part is not None):
        yield from _values(part)


def _is_condition(node: Expr) -> bool:
    """Whether a value depends on a condition: schedules skip the steps in which it does not hold."""
    return is_choice(node)


def _mentioned(value: Expr, axes: Sequence[IterVar]) -> tuple[IterVar, ...]:
    found: list[IterVar] = []

    def visit(variable: Var) -> None:
        for axis in axes:
            if axis.var.same_as(variable) and not is_one_of(axis, found):
                found.append(axis)

    tvm_ffi.structural_walk(value, (ir.Var, visit))
    return tuple(found)


def _equal(one: _Use, other: _Use) -> bool:
    if [extent_of(axis) for axis in one.axes] != [extent_of(axis) for axis in other.axes]:
        return False
    renamed = {a.var: b.var for a, b in zip(one.axes, other.axes, strict=True)}
    return bool(tvm_ffi.structural_equal(with_places(one.value, renamed), other.value))


def _is_replaced(use: _Use, loads: dict[int, list[tuple[Expr, Expr]]]) -> bool:
    """Whether a value is a part of one that its stage loads."""
    return any(node.same_as(use.value) for old, _ in loads.get(use.stage, ()) for node in expressions(old))


def _rows(use: _Use, others: Sequence[_Use]) -> list[int] | None:
    """The order of the axes of a stored value by their places in `use`; None where it is not worth a stage.

    Its rows lie along the last axis of the results of a stage that reads it, or along a reduction.
    """
    if not use.axes:
        return None
    elements = prod(extent_of(axis) for axis in use.axes)
    by_rows = all(int(one.axes[0].iter_type) != int(tirx.IterVar.CommReduce) for one in (use, *others))
    if elements > max(_MOST_ELEMENTS, _MOST_OF_A_ROW * extent_of(use.axes[0]) if by_rows else 0):
        return None
    loads = [node for node in expressions(use.value) if isinstance(node, ir.TensorLoad)]
    wanted = [axis for one in (use, *others) for axis in _last_axes(one)]
    for place in wanted:
        if all(Access.of(load).stays_or_follows(use.axes[place].var) for load in loads):
            return [*(number for number in range(len(use.axes)) if number != place), place]
    return None


def _last_axes(use: _Use) -> Iterator[int]:
    """The places, among its axes, of the last axis of the results of a stage, and of its last reduction axis."""
    summed = [axis for axis in use.block.iter_vars if int(axis.iter_type) == int(tirx.IterVar.CommReduce)]
    spatial = [axis for axis in use.block.iter_vars if not is_one_of(axis, summed)]
    for axes in (spatial, summed):
        yield from (number for number, axis in enumerate(use.axes) if axes and axis.same_as(axes[-1]))
