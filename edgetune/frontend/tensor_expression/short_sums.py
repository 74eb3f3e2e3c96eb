"""Short sums: a sum of few terms, for rows of few results, is written out as one expression.

An interleaved picture in another space of colours, `x[p, 0] * w[c, 0] + x[p, 1] * w[c, 1] + x[p, 2] * w[c, 2]` with
three c, fills no vector along c or k. As a stage without a reduction it is computed inside its reader, in registers,
and compilers make vectors of pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import prod

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.frontend.tensor_expression.stored_values import statements_in, with_statements
from edgetune.graph.tvm_types import Expr, Node, PrimFunc, Stmt
from edgetune.schedule.algorithms.overlapped_tail.function import loops_around
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, stage_of
from edgetune.schedule.sketches.idle_steps import substituted

_MOST_TERMS = 4
_ROWS = (2, 3)
"""Results in a row: four fill a vector of four lanes."""

_FEWEST_ROWS = 16


def with_short_sums(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, whose short sums for short rows are expressions."""
    before = statements_in(function)
    after = [_written_out(statement) for statement in before]
    changed = any(one is not other for one, other in zip(before, after, strict=True))
    return with_statements(function, after, []) if changed else function


def _written_out(statement: Stmt) -> Stmt:
    """A statement without its reduction; itself where that is no short sum."""
    stage = stage_of(statement)
    term = None if stage is None else _term(stage)
    if stage is None or term is None:
        return statement
    block = stage.block
    axes = stage.reduction
    places = [
        {axis.var: tirx.IntImm(str(axis.var.ty.dtype), number) for axis, number in zip(axes, numbers, strict=True)}
        for numbers in product(*(range(extent_of(axis)) for axis in axes))
    ]
    value: Expr = reduce(lambda one, other: one + other, (substituted(term, place) for place in places))
    body = tirx.BufferStore(block.body.buffer, value, block.body.indices)
    made = s_tir.SBlock([], _whole(stage, places), block.writes, "", body)
    variables, extents = [axis.var for axis in stage.spatial], stage.spatial_extents
    return loops_around(stage.name, variables, extents, [int(axis.iter_type) for axis in stage.spatial], made)


def _term(stage: BlockStage) -> Expr | None:
    """What a stage sums, if it is a short sum for short rows; None for any other stage."""
    store, first, extents = stage.block.body, stage.block.init, stage.spatial_extents
    if not isinstance(store, tirx.BufferStore) or not isinstance(first, tirx.BufferStore) or len(extents) < 2:
        return None
    if extents[-1] not in _ROWS or prod(extents[:-1]) < _FEWEST_ROWS or prod(stage.reduction_extents) > _MOST_TERMS:
        return None
    zero = isinstance(first.value, tirx.FloatImm) and float(first.value.value) == 0.0
    if not zero or not isinstance(store.value, tirx.Add) or str(store.buffer.ty.dtype) != "float32":
        return None
    total = store.value.a
    own = isinstance(total, ir.TensorLoad) and total.source.same_as(store.buffer)
    return store.value.b if own and tvm_ffi.structural_equal(total.indices, store.indices) else None


def _whole(stage: BlockStage, places: Sequence[dict[Node, Node]]) -> list[Node]:
    """The regions that all terms read."""
    found: list[Node] = []
    for region in stage.reads():
        for place in places:
            one = substituted(region, place)
            if not any(tvm_ffi.structural_equal(one, other) for other in found):
                found.append(one)
    return found
