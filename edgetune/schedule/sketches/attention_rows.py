"""Sketch for fused attention: for a block of queries of a head, all scores, their softmax, and the weighted values.

Loops from outside to inside: heads and blocks of queries, which threads may share; the scores of a block, a matrix
product with a register tile, stored in scratch memory that stays in a cache; per query the maximum score, the powers
and their sum; the product of powers and values, again with a register tile, divided by the sum when it is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm.s_tir import Schedule

from edgetune.graph.attention import LARGEST, MIXED, POWERS, PRODUCTS, RESULT, SCORES, TOTALS
from edgetune.graph.element_type import element_bytes
from edgetune.schedule.sketches.block_analysis import BlockAnalysis
from edgetune.schedule.sketches.decisions import Decisions
from edgetune.schedule.sketches.register_tile import MAX_UNROLLED_DEPTH
from edgetune.schedule.sketches.row_reduction import split_lanes, vectorize_lanes
from edgetune.schedule.sketches.tile import lanes_for
from edgetune.tvm_types import LoopRV, SBlockRV, TvmBuffer

MAX_BLOCK = 128  # most queries of a block

KEY_LANES = "edgetune.key_lanes"
"""Attribute of a function that computes attention: the most keys of a vector."""

COLUMN_LANES = "edgetune.column_lanes"
"""The same for columns of values."""

QUERY_TILE = "edgetune.query_tile"
"""The same for queries of a tile, or a multiple of them."""


@dataclass(frozen=True)
class AttentionRows:
    """A function made of the stages of `edgetune.graph.attention`.

    `changes` are the elementwise stages on the scores, `after` those after the result; the last of these writes the
    output. `query` is the output's axis of queries. Keys have vectors of `key_lanes` lanes, columns of `column_lanes`.
    The queries of a tile should divide `query_tile`.
    """

    analysis: BlockAnalysis
    changes: tuple[str, ...]
    after: tuple[str, ...]
    query: int
    queries: int
    keys: int
    depth: int
    columns: int
    key_lanes: int
    column_lanes: int
    native_lanes: int
    query_tile: int

    @property
    def element_bytes(self) -> int:
        """Bytes of a score."""
        return element_bytes(_written(self.analysis, PRODUCTS))


def find_rows(analysis: BlockAnalysis, native_lanes: int) -> AttentionRows | None:
    """The parts of a function that computes attention; None for any other function."""
    names = [stage.name for stage in analysis.stages]
    if names[:1] != [PRODUCTS] or RESULT not in names:
        return None
    products, mixed, result = (analysis.stage(name) for name in (PRODUCTS, MIXED, RESULT))
    after = analysis.stages[names.index(RESULT) + 1 :]
    aligned = all(
        not stage.reduction and stage.spatial_extents == mixed.spatial_extents and stage.writes_along_its_axes()
        for stage in after
    )
    if analysis.outputs != (names[-1],) or not aligned:
        return None
    *_, queries, keys = products.spatial_extents
    totals = next(region for region in result.reads() if region.source.same_as(_written(analysis, TOTALS)))
    query = next(n for n, axis in enumerate(result.spatial) if totals.region[-1].min.same_as(axis.var))
    columns = mixed.spatial_extents[-1]
    return AttentionRows(
        analysis,
        tuple(names[1 : names.index(SCORES)]),
        tuple(stage.name for stage in after),
        query,
        queries,
        keys,
        products.reduction_extents[0],
        columns,
        lanes_for(keys, min(native_lanes, analysis.attribute(KEY_LANES) or native_lanes)),
        lanes_for(columns, min(native_lanes, analysis.attribute(COLUMN_LANES) or native_lanes)),
        native_lanes,
        analysis.attribute(QUERY_TILE) or queries,
    )


def _written(analysis: BlockAnalysis, name: str) -> TvmBuffer:
    return analysis.stage(name).block.writes[0].source


@dataclass(frozen=True)
class RowsVariant:
    """The choices that change a trace's structure: for each product, whether its inner loop runs over queries.

    If it does, a few columns of keys (or of values) serve all queries of a block before the next columns.
    """

    keys_outside: bool = True
    columns_outside: bool = True


VARIANTS = tuple(RowsVariant(keys, columns) for keys in (True, False) for columns in (True, False))


def apply_rows(sch: Schedule, rows: AttentionRows, variant: RowsVariant, decide: Decisions, registers: int) -> None:
    """Schedule `sch` (untouched so far); sizes come from `decide`. Raises TVM's ScheduleError if it does not fit."""
    partial = {name: split_lanes(sch, rows.analysis.stage(name), rows.native_lanes) for name in (LARGEST, TOTALS)}
    for name in (*rows.changes, *(RESULT, *rows.after)[:-1]):
        sch.compute_inline(sch.get_sblock(name))
    sch.set_scope(sch.get_sblock(PRODUCTS), 0, "local")
    blocks = _mix(sch, rows, variant, decide, registers)
    _normalise(sch, rows, partial, blocks)
    _score(sch, rows, variant, decide, registers, blocks)


def _mix(sch: Schedule, rows: AttentionRows, variant: RowsVariant, decide: Decisions, registers: int) -> LoopRV:
    """Schedules the tiles of the output; returns the loop over blocks of queries."""
    output = sch.get_sblock((RESULT, *rows.after)[-1])
    loops = sch.get_loops(output)
    blocks, queries = decide.tile(sch, "block", loops[rows.query], MAX_BLOCK)
    tiles, row = decide.tile(sch, "row", queries, registers)
    vectors, lanes = sch.split(loops[-1], [None, rows.column_lanes])
    vectors, inner = decide.tile(sch, "vectors", vectors, registers)
    heads = [loop for number, loop in enumerate(loops[:-1]) if number != rows.query]
    outer = (vectors, tiles) if variant.columns_outside else (tiles, vectors)
    sch.reorder(*heads, blocks, *outer, row, inner, lanes)
    sch.unroll(row)
    sch.unroll(inner)
    sch.vectorize(lanes)
    mixed = sch.get_sblock(MIXED)
    sch.set_scope(mixed, 0, "local")
    sch.compute_at(mixed, outer[-1], preserve_unit_loops=True)
    _tile(sch, mixed, rows.query, len(loops), rows.column_lanes, "reduction1", decide)
    return blocks


def _tile(
    sch: Schedule, product: SBlockRV, query: int, rank: int, lane_count: int, reduction: str, decide: Decisions
) -> None:
    """Schedules the register tile of a matrix product that is computed at a loop around the tile."""
    own = sch.get_loops(product)[-rank - 1 :]
    vectors, lanes = sch.split(own[rank - 1], [None, lane_count])
    steps, unrolled = decide.tile(sch, reduction, own[rank], MAX_UNROLLED_DEPTH)
    others = [loop for number, loop in enumerate(own[: rank - 1]) if number != query]
    sch.reorder(*others, steps, unrolled, own[query], vectors, lanes)
    for loop in (unrolled, own[query], vectors):
        sch.unroll(loop)
    sch.vectorize(lanes)
    sch.decompose_reduction(product, steps)


def _normalise(sch: Schedule, rows: AttentionRows, partial: Mapping[str, str | None], blocks: LoopRV) -> None:
    """Schedules the maximum score of each query, then all powers, then their sums.

    They run one after another, so that powers can overwrite the scores: lowering sees that each score is read for the
    last time where its power is stored.
    """
    for name in (TOTALS, POWERS, LARGEST):
        sch.compute_at(sch.get_sblock(name), blocks, preserve_unit_loops=True)
        if name in partial:
            _joined(sch, name, partial[name])
    *_, keys = sch.get_loops(sch.get_sblock(POWERS))
    _, lanes = sch.split(keys, [None, rows.key_lanes])
    sch.vectorize(lanes)


def _joined(sch: Schedule, name: str, lanes: str | None) -> None:
    """Reduce one query at a time, with the block `lanes` in registers if there is one."""
    if lanes is None:
        return
    block = sch.get_sblock(name)
    lane, *own = sch.get_loops(block)[-len(sch.get(block).iter_vars) :]
    sch.reorder(*own, lane)
    sch.compute_at(sch.get_sblock(lanes), own[-1], preserve_unit_loops=True)
    vectorize_lanes(sch, lanes, name, (lanes,))


def _score(
    sch: Schedule, rows: AttentionRows, variant: RowsVariant, decide: Decisions, registers: int, blocks: LoopRV
) -> None:
    """Schedules the scores of a block of queries."""
    scores, products = sch.get_sblock(SCORES), sch.get_sblock(PRODUCTS)
    sch.compute_at(scores, blocks, preserve_unit_loops=True)
    rank = len(rows.analysis.stage(SCORES).spatial)
    *heads, queries, keys = sch.get_loops(scores)[-rank:]
    tiles, row = decide.tile(sch, "score_row", queries, registers)
    vectors, lanes = sch.split(keys, [None, rows.key_lanes])
    vectors, inner = decide.tile(sch, "score_vectors", vectors, registers)
    outer = (vectors, tiles) if variant.keys_outside else (tiles, vectors)
    sch.reorder(*heads, *outer, row, inner, lanes)
    sch.unroll(row)
    sch.unroll(inner)
    sch.vectorize(lanes)
    sch.compute_at(products, outer[-1], preserve_unit_loops=True)
    _tile(sch, products, rank - 2, rank, rows.key_lanes, "reduction0", decide)
