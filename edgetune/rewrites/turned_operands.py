"""Turned operands: what arithmetic reads in another order than it writes is copied by a stage of its own.

In `x[i, j] + y[j, i]`, neighbours along j lie apart in y. With a stage for the copy `y[j, i]`, a schedule turns blocks
of it in registers (`schedule/sketches/turned_operands.py`), or has the reader load single elements as before. Products
and other reductions have copies by other rules (`product_lanes.py`, `copies_for_lanes.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from math import prod

from tvm import ir, tirx

from edgetune.affine.expressions import expressions, is_among
from edgetune.graph.element_type import is_floating
from edgetune.rewrites.stored_values import (
    StoredValue,
    axes_of,
    is_plain,
    loading,
    statements_in,
    stored_over,
    unused_name,
    with_statements,
)
from edgetune.schedule.sketches.block_analysis import block_of, extent_of, stage_of
from edgetune.target.costs import MARGINS
from edgetune.tvm_types import BufferLoad, Expr, PrimFunc, SBlock, Stmt, TvmBuffer

_MOST_NODES = 200


def with_turned_operands(function: PrimFunc, constants: Collection[int] = ()) -> PrimFunc:
    """`function`, unscheduled, with one more stage for each parameter that arithmetic reads in another order.

    `constants` are the numbers of parameters that are packed when the package is built; these stay as they are.
    A function with a reduction stays as it is, and so does a stage that branches: its rows are divided.
    """
    before = statements_in(function)
    moved = [param for number, param in enumerate(function.params) if number not in constants]
    if any(block_of(statement).init is not None for statement in before):
        return function
    statements: list[Stmt] = []
    stored: list[StoredValue] = []
    names = {str(block_of(statement).name_hint) for statement in before}
    for statement in before:
        block = block_of(statement)
        changes: list[tuple[Expr, Expr]] = []
        made: list[StoredValue] = []
        stage = stage_of(statement)
        for load in _turned(block, moved) if stage is not None and not stage.branches() else ():
            one = stored_over(load, axes_of(load, block), unused_name(f"{load.source.name}_turned", names))
            known = next((other for other in made if other.computes_same(one)), None)
            if known is None:
                made.append(one)
                names.add(one.stage.name)
            changes.append((load, one.read((known or one).stage.out)))
        statements += [*(one.stage.statement() for one in made), loading(statement, changes) if changes else statement]
        stored += made
    return with_statements(function, statements, stored) if stored else function


def _turned(block: SBlock, parameters: Sequence[TvmBuffer]) -> list[BufferLoad]:
    """The loads of `parameters` in another order by the arithmetic of a block; none of a block that only copies."""
    store = block.body
    if not isinstance(store, tirx.BufferStore) or isinstance(store.value, ir.TensorLoad):
        return []
    nodes = list(islice(expressions(store.value), _MOST_NODES + 1))
    if len(nodes) > _MOST_NODES or prod(map(extent_of, block.iter_vars)) < MARGINS.elements_turned:
        return []
    return [
        load
        for load in nodes
        if isinstance(load, ir.TensorLoad)
        and is_among(load.source, parameters)
        and is_floating(load.source)
        and is_plain(load, block)
        and _lies_across(load, block)
    ]


def _lies_across(load: BufferLoad, block: SBlock) -> bool:
    """Whether neighbours along the last axis of a block lie apart in a load, which has its neighbours elsewhere."""
    lanes = [axis for axis in block.iter_vars if extent_of(axis) > 1]
    read = [axis for index in load.indices for axis in lanes if index.same_as(axis.var)]
    once = len(read) == len({id(axis) for axis in read})
    return once and len(read) > 1 and any(lanes[-1] is axis for axis in read[:-1])
