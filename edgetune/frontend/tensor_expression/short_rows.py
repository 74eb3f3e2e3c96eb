"""Rows shorter than a vector: their stages are computed with lanes across rows, between transpositions.

In a softmax over 7 elements, `exp` would fill 7 lanes of a vector at most, and sums of a row have no vectors. With the
rows' axis last, each of 7 steps computes as many rows as a vector has lanes. The tensors that have both axes are
transposed by kernels of their own.

Sums along such rows alone, as in the squares of the elements of 3x3 matrices, are written out as expressions: the
printer turns the columns of eight rows in registers (see `edgetune.codegen.column_loads`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import prod

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.frontend.tensor_expression.reordered import (
    OrderConflict,
    Orders,
    among,
    mentioned,
    place_of,
    written_by,
)
from edgetune.frontend.tensor_expression.stored_values import statements_in, with_statements
from edgetune.graph.reduction_stage import with_places
from edgetune.graph.tvm_types import Expr, PrimFunc, Stmt, TvmBuffer
from edgetune.schedule.algorithms.overlapped_tail.function import loops_around
from edgetune.schedule.sketches.block_analysis import BlockStage, expressions, extent_of, stage_of, stores
from edgetune.schedule.sketches.elementwise import calls_function
from edgetune.schedule.sketches.transposition import COLUMN_LANES, reads_columns

_WIDEST = 16
"""Lanes of the widest vectors."""

_NARROW = 8
"""Lanes of narrower vectors: what a row has beyond a multiple of them takes as long as a vector."""

_LONGEST = 32
"""Elements from which on a row has so many vectors that its rest does not matter."""

_MOST_ELEMENTS = 1 << 17
"""Elements of longer rows up to which L2 holds them: beyond it, copies cost more than rests of vectors."""

_FEWEST_ROWS = 64
_LEAST_ELEMENTS = 1 << 12
"""Elements of the results below which calls of more kernels cost more than lanes save."""


_MOST_TERMS = 15
"""Terms of a sum that is written out: with more, lanes along a row fill a vector."""

_QUAD = 4
"""Lanes of the narrowest vectors. They serve sums of a multiple of four terms as well as columns do, or better."""


def with_sums_of_columns(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, whose sums along short rows of its parameters are expressions of columns.

    Each element is read once: products share their operands among lanes. Those of which another stage reads the same
    tensor stay too: a softmax computes its rows in one place.
    """
    before = statements_in(function)
    stages = [stage_of(statement) for statement in before]
    after = list(before)
    for number, stage in enumerate(stages):
        if stage is None or any(one is None for one in stages):
            continue
        read = [region.source for region in stage.reads()]
        others = [region.source for one in stages if one is not None and one is not stage for region in one.reads()]
        alone = all(
            among(buffer, function.params)
            and not among(buffer, others)
            and prod(int(extent) for extent in buffer.ty.shape) == stage.work
            for buffer in read
        )
        made = _written_out(stage) if alone else None
        after[number] = before[number] if made is None else made
    changed = any(one is not other for one, other in zip(before, after, strict=True))
    return with_statements(function, after, []) if changed else function


def _written_out(stage: BlockStage) -> Stmt | None:
    """A stage without its reduction; None where it is no short sum, or its columns take longer than its terms."""
    term, axes, terms = _term(stage), stage.reduction, prod(stage.reduction_extents)
    if term is None or not 1 < terms <= _MOST_TERMS:
        return None
    places = [
        {axis.var: tirx.IntImm(str(axis.var.ty.dtype), number) for axis, number in zip(axes, numbers, strict=True)}
        for numbers in product(*(range(extent_of(axis)) for axis in axes))
    ]
    value: Expr = reduce(lambda one, other: one + other, (with_places(term, place) for place in places))
    body = tirx.BufferStore(stage.block.body.buffer, value, stage.block.body.indices)
    reads = [with_places(region, place) for region in stage.reads() for place in places]
    made = s_tir.SBlock([], reads, stage.block.writes, "", body)
    variables, kinds = [axis.var for axis in stage.spatial], [int(axis.iter_type) for axis in stage.spatial]
    statement = loops_around(stage.name, variables, stage.spatial_extents, kinds, made)
    written = stage_of(statement)
    widths = [COLUMN_LANES] if terms % _QUAD else [COLUMN_LANES, _QUAD]
    if written is None or not stage.writes_its_axes():
        return None
    return statement if all(reads_columns(written.block, lanes) for lanes in widths) else None


def _term(stage: BlockStage) -> Expr | None:
    """What a stage adds up; None for any other stage."""
    store, first = stage.block.body, stage.block.init
    if not isinstance(store, tirx.BufferStore) or not isinstance(first, tirx.BufferStore) or not stage.spatial:
        return None
    zero = isinstance(first.value, tirx.FloatImm) and float(first.value.value) == 0.0
    if not zero or not isinstance(store.value, tirx.Add) or str(store.buffer.ty.dtype) != "float32":
        return None
    total = store.value.a
    own = isinstance(total, ir.TensorLoad) and total.source.same_as(store.buffer)
    return store.value.b if own and tvm_ffi.structural_equal(total.indices, store.indices) else None


def with_rows_as_lanes(
    stages: Sequence[BlockStage], constants: Sequence[TvmBuffer], needed: Sequence[TvmBuffer]
) -> list[list[Stmt]]:
    """The statements of the kernels that compute `stages` with the longest axis of rows last; empty where none helps.

    Only the last stage may write a tensor that is `needed` by others, because that one alone is transposed back. A row
    is what a stage sums or compares, and another one computes again element by element, with a function or a division,
    as in a softmax.
    """
    last = stages[-1]
    extents = last.spatial_extents
    if len(extents) < 2 or prod(extents) < _LEAST_ELEMENTS or not _is_short(extents[-1], prod(extents)):
        return []
    if not any(stage.reduction_extents == extents[-1:] for stage in stages) or not any(map(_is_costly, stages)):
        return []
    if not all(_has_rows(stage, extents) for stage in stages):
        return []
    written = [written_by(stage) for stage in stages]
    if any(among(buffer, needed) for buffer in written[:-1]):
        return []
    row = max(range(len(extents) - 1), key=lambda number: extents[number])
    if extents[row] < _FEWEST_ROWS:
        return []
    orders = Orders()
    try:
        for stage in stages:
            _order(stage, row, constants, orders)
    except OrderConflict:
        return []
    copies = [[orders.copy(buffer)] for buffer in orders.buffers() if not among(buffer, written)]
    made = [orders.stage(stage, stage.name, stage.reduction) for stage in stages]
    return [*copies, made, [orders.copy_back(written[-1])]]


def _is_short(extent: int, elements: int) -> bool:
    """Whether a row fills no vector and no part of one that is a power of two, or a few vectors and a rest."""
    if extent > _WIDEST:
        return extent < _LONGEST and extent % _NARROW > 0 and elements <= _MOST_ELEMENTS
    return 1 < extent < _WIDEST and extent & (extent - 1) != 0


def _has_rows(stage: BlockStage, extents: Sequence[int]) -> bool:
    """Whether a stage has one result for each element of the rows, or for each row."""
    if not stage.writes_its_axes() or str(written_by(stage).ty.dtype) != "float32":
        return False
    return stage.spatial_extents in (tuple(extents), tuple(extents[:-1]))


def _is_costly(stage: BlockStage) -> bool:
    """Whether a stage calls a function or divides by what is no constant, for each of its elements."""
    values = [node for store in stores(stage.block.body) for node in expressions(store.value)]
    divides = any(isinstance(node, tirx.Div) and not isinstance(node.b, tirx.FloatImm) for node in values)
    return calls_function(stage.block) or divides


def _order(stage: BlockStage, row: int, constants: Sequence[TvmBuffer], orders: Orders) -> None:
    """Move the axis of rows to the end of all tensors of a stage; raises OrderConflict where that is not possible."""
    axis = stage.spatial[row]
    written = written_by(stage)
    if row != len(stage.spatial) - 1:
        orders.add(written, row)
    for region in stage.reads():
        if not mentioned(region, axis) or extent_of(axis) == 1:
            continue
        place = place_of(region, axis)
        fixed = among(region.source, constants) or str(region.source.ty.dtype) != "float32"
        if fixed or place is None:
            raise OrderConflict
        if place != len(region.region) - 1:
            orders.add(region.source, place)
