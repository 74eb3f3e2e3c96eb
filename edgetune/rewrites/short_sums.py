"""Short sums: a reduction of few terms that fills no vector is written out, as an expression without a reduction.

For rows of two or three results, as that of an interleaved picture in another space of colours,
`x[p, 0] * w[c, 0] + x[p, 1] * w[c, 1] + x[p, 2] * w[c, 2]` with three c fills no vector along c or k. With up to four
terms it is computed inside its reader, in registers, with vectors across the rows.

Along short rows of up to 15 terms, as in the squares of the elements of 3x3 matrices, the printer turns the columns of
eight rows in registers (see `edgetune.codegen.column_loads`), where each element is read at most
`Margins.uses_of_columns` times. A sum stays if another stage reads its tensor: a softmax computes its rows in one
place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from math import prod

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import is_among, mentions, with_places
from edgetune.graph.element_type import is_floating
from edgetune.rewrites.stored_values import statements_in, with_statements
from edgetune.schedule.algorithms.overlapped_tail.function import loops_around
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, stage_of
from edgetune.schedule.sketches.transposition import COLUMN_LANES, reads_columns
from edgetune.target.core import WIDEST
from edgetune.target.costs import MARGINS
from edgetune.tvm_types import Expr, Node, PrimFunc, Stmt

_MOST_TERMS_OF_A_RESULT = 4
_FEW_RESULTS = (2, 3)
"""Results in a row: four fill a vector of four lanes."""

_FEWEST_ROWS = 16
"""Rows side by side: the rows of small matrices, which are products, are fewer."""

_MOST_TERMS_OF_A_ROW = 15
"""Terms along a row: with more, lanes along it fill a vector."""

_QUAD = 4
"""Lanes of the narrowest vectors. They serve sums of a multiple of four terms as well as columns do, or better."""


def with_sums_for_short_rows(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, whose sums of few terms for rows of few results are expressions."""

    def written(stage: BlockStage, _: Sequence[BlockStage]) -> Stmt | None:
        extents = stage.spatial_extents
        if len(extents) < 2 or extents[-1] not in _FEW_RESULTS or extents[-2] < _FEWEST_ROWS:
            return None
        return written_out(stage, _MOST_TERMS_OF_A_RESULT)

    return _rewritten(function, written)


def with_sums_of_columns(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, whose sums along short rows of its parameters are expressions of columns.

    Each element is read at most twice: products share their operands among lanes. A sum stays if another stage reads
    its tensor: a softmax computes its rows in one place.
    """

    def written(stage: BlockStage, others: Sequence[BlockStage]) -> Stmt | None:
        elsewhere = [region.source for one in others for region in one.reads()]
        if not stage.spatial or not stage.writes_its_axes():
            return None
        for region in stage.reads():
            if not any(mentions(item.min, stage.spatial[-1].var) for item in region.region):
                continue
            often = stage.work > MARGINS.uses_of_columns * prod(int(extent) for extent in region.source.ty.shape)
            if not is_among(region.source, function.params) or is_among(region.source, elsewhere) or often:
                return None
        made = written_out(stage, _MOST_TERMS_OF_A_ROW)
        found = None if made is None else stage_of(made)
        widths = [COLUMN_LANES, _QUAD] if prod(stage.reduction_extents) % _QUAD == 0 else [COLUMN_LANES]
        fits = found is not None and all(reads_columns(found.block, lanes, WIDEST.costs) for lanes in widths)
        return made if fits else None

    return _rewritten(function, written)


def _rewritten(function: PrimFunc, rule: Callable[[BlockStage, Sequence[BlockStage]], Stmt | None]) -> PrimFunc:
    """A function with the statements that `rule` makes of its stages and the others; None keeps a stage."""
    before = statements_in(function)
    stages = [stage for stage in map(stage_of, before) if stage is not None]
    if len(stages) < len(before):
        return function
    made = [rule(stage, [one for one in stages if one is not stage]) for stage in stages]
    if not any(one is not None for one in made):
        return function
    return with_statements(function, [old if new is None else new for old, new in zip(before, made, strict=True)], [])


def written_out(stage: BlockStage, most: int) -> Stmt | None:
    """A stage without its reduction; None where that is no floating-point sum of at most `most` terms."""
    term, axes = term_of_sum(stage), stage.reduction
    if term is None or not 1 < prod(stage.reduction_extents) <= most:
        return None
    places = [
        {axis.var: tirx.IntImm(str(axis.var.ty.dtype), number) for axis, number in zip(axes, numbers, strict=True)}
        for numbers in product(*(range(extent_of(axis)) for axis in axes))
    ]
    value: Expr = reduce(lambda one, other: one + other, (with_places(term, place) for place in places))
    body = tirx.BufferStore(stage.block.body.buffer, value, stage.block.body.indices)
    made = s_tir.SBlock([], _regions(stage, places), stage.block.writes, "", body)
    variables, kinds = [axis.var for axis in stage.spatial], [int(axis.iter_type) for axis in stage.spatial]
    return loops_around(stage.name, variables, stage.spatial_extents, kinds, made)


def term_of_sum(stage: BlockStage) -> Expr | None:
    """What a stage adds up; None for any other stage."""
    store, first = stage.block.body, stage.block.init
    if not isinstance(store, tirx.BufferStore) or not isinstance(first, tirx.BufferStore):
        return None
    zero = isinstance(first.value, tirx.FloatImm) and float(first.value.value) == 0.0
    if not zero or not isinstance(store.value, tirx.Add) or not is_floating(store.buffer):
        return None
    if any(not isinstance(axis.dom.min, tirx.IntImm) or int(axis.dom.min.value) for axis in stage.block.iter_vars):
        return None
    total = store.value.a
    own = isinstance(total, ir.TensorLoad) and total.source.same_as(store.buffer)
    return store.value.b if own and tvm_ffi.structural_equal(total.indices, store.indices) else None


def _regions(stage: BlockStage, places: Sequence[dict[Node, Node]]) -> list[Node]:
    """The regions that all terms read. Structural equality takes different tensors of one shape for equal."""
    found: list[Node] = []
    for region in stage.reads():
        for place in places:
            one = with_places(region, place)
            same = (other for other in found if other.source.same_as(one.source))
            if not any(tvm_ffi.structural_equal(one, other) for other in same):
                found.append(one)
    return found
