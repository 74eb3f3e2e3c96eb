"""Repeated values: what a stage would compute again in an inner loop becomes a stage of its own.

In `x[a, g, b] - total[g] / n` with a outside, each row divides for each group again. In a sum over k of
`abs(a[i, k]) * b[k, j]`, each column takes the absolute value again. No compiler moves that out of the loops: it would
have to store the values. Those of leading axes alone stay, for they are constant in the inner loops.

Where the last axis of a stage is shorter than a vector, a value for each group of neighbours becomes one for each
neighbour, so that vectors run across groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import prod

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.expressions import expressions, is_branch, mentions
from edgetune.graph.element_type import is_floating
from edgetune.rewrites.stored_values import (
    StoredValue,
    axes_of,
    is_one_of,
    is_plain,
    kept,
    loading,
    statements_in,
    stored_value,
    unused_name,
    with_statements,
)
from edgetune.schedule.sketches.block_analysis import block_of, extent_of
from edgetune.target.costs import MARGINS
from edgetune.tvm_types import BufferLoad, Expr, IterVar, PrimFunc, SBlock, Stmt

_MOST_NODES = 200
_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Min, tirx.Max)
_STORED = (*_ARITHMETIC, tirx.Div, ir.Call)
"""What may be stored. A selection stays where it is: schedules skip the steps in which its condition does not hold."""


def with_repeated_values(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, with one more stage for each value that another one would compute again and again."""
    before = statements_in(function)
    statements: list[Stmt] = []
    stored: list[StoredValue] = []
    names = {str(block_of(statement).name_hint) for statement in before}
    for statement in before:
        changed, found = _without_repetition(statement, stored, names)
        statements += [*(kept(one.stage.statement()) for one in found), changed]
        stored += found
    return with_statements(function, statements, stored) if stored else function


def _without_repetition(
    statement: Stmt, stored: Sequence[StoredValue], names: set[str]
) -> tuple[Stmt, list[StoredValue]]:
    """A statement that loads its repeated values, and those of them that are not among `stored`.

    `names` are those of stages, to which new ones are added.
    """
    block = block_of(statement)
    store = block.body
    if not isinstance(store, tirx.BufferStore) or not is_floating(store.buffer):
        return statement, []
    if sum(1 for _ in islice(expressions(store.value), _MOST_NODES + 1)) > _MOST_NODES:
        return statement, []  # each part of a value is looked at as a whole
    places = list(_repeated(store.value, block))
    made: list[StoredValue] = []
    loads: list[tuple[Expr, Expr]] = []
    for place in places:
        one = stored_value(place, block, unused_name(f"{_source(place)}_value", names))
        known = next((other for other in (*stored, *made) if one.computes_same(other)), None)
        if known is None:
            made.append(one)
            names.add(one.stage.name)
        loads.append((place, replace(one, stage=(known or one).stage).load()))
    return (loading(statement, loads) if loads else statement), made


def _repeated(value: Expr, block: SBlock) -> Iterator[Expr]:
    """The largest parts of a value that the loops of its stage repeat."""
    if _is_repeated(value, block):
        yield value
        return
    for part in _parts(value):
        yield from _repeated(part, block)


def _parts(value: Expr) -> Sequence[Expr]:
    if isinstance(value, ir.Call):
        return [] if is_branch(value) else list(value.args)
    if isinstance(value, tirx.Select):
        return [value.true_value, value.false_value]
    if isinstance(value, tirx.Cast):
        return [value.value]
    return [part for part in (getattr(value, name, None) for name in "ab") if part is not None]


def _is_repeated(value: Expr, block: SBlock) -> bool:
    if not isinstance(value, _STORED) or not is_floating(value) or not _is_work(value, block):
        return False
    loads = [node for node in expressions(value) if isinstance(node, ir.TensorLoad)]
    if not loads or not all(is_plain(load, block) for load in loads):
        return False
    own = axes_of(value, block)
    if block.init is not None and not _of_one_tensor(loads, own):
        return False
    places = [number for number, axis in enumerate(block.iter_vars) if any(axis.same_as(one) for one in own)]
    inner = (
        any(extent_of(axis) > 1 for axis in block.iter_vars[: places[-1]] if not is_one_of(axis, own))
        if places
        else False
    )
    elements, work = (prod(extent_of(axis) for axis in axes) for axes in (own, block.iter_vars))
    return inner and work >= MARGINS.uses_of_stored * elements


def _is_work(value: Expr, block: SBlock) -> bool:
    """Whether a value divides or calls a function; in a reduction, arithmetic is enough."""
    kinds = (tirx.Div, *_ARITHMETIC) if block.init is not None else (tirx.Div,)
    return any(
        isinstance(node, kinds) or (isinstance(node, ir.Call) and "if_then_else" not in str(node.op))
        for node in expressions(value)
    )


def _of_one_tensor(loads: Sequence[BufferLoad], axes: Sequence[IterVar]) -> bool:
    """Whether there is one value for each of some elements of a tensor, as if another tensor had been given."""
    first = loads[0]
    same = all(tvm_ffi.structural_equal(first, load) for load in loads)
    return same and all(any(mentions(index, axis.var) for index in first.indices) for axis in axes)


def _source(value: Expr) -> str:
    """The name of the first tensor that a value is computed from."""
    return next(str(node.source.name) for node in expressions(value) if isinstance(node, ir.TensorLoad))
