"""Sketch for Winograd convolutions: blocks of tiles whose transforms stay in a cache.

Loops from outside to inside: blocks of tile rows and columns, whose inputs are transformed into scratch memory; blocks
of output channels, for which the products of one block of tiles are summed, each a matrix product with a register tile
of (tiles x vectors of channels); tiles and vectors, which are transformed back and go through the epilogue.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm.s_tir import Schedule

from edgetune.codegen.prefetch.weights_l2 import ANNOTATION as WEIGHTS_L2
from edgetune.graph.element_type import element_bytes
from edgetune.schedule.sketches.block_analysis import BlockAnalysis
from edgetune.schedule.sketches.decisions import Decisions
from edgetune.schedule.sketches.tile import lanes_for
from edgetune.tvm_types import LoopRV, SBlockRV

MAX_UNROLLED_DEPTH = 8  # largest part of the sum over channels that is unrolled
MAX_BLOCK = 64  # most tiles along one axis of a block, and most vectors of output channels in a block


PADDED = "winograd_padded"
ROWS = "winograd_input_rows"
TRANSFORMED = "winograd_input"
PRODUCTS = "winograd_products"
SUMMED = "winograd_output_rows"
RESULT = "winograd_output"
STAGES = (PADDED, ROWS, TRANSFORMED, PRODUCTS, SUMMED, RESULT)
"""The stages of a Winograd convolution, in their order."""


@dataclass(frozen=True)
class TransformedTiles:
    """A function of `STAGES`, with other stages around them; the last of `after`, or the result, writes the output.

    `tile` is m of F(m x m, 3 x 3), `inputs` is m + 2. `rows` and `columns` are numbers of tiles. `channels` and
    `filters` are numbers of elements, in vectors of `input_lanes` and `output_lanes` lanes.
    An element has `element_bytes`.
    """

    tile: int
    inputs: int
    rows: int
    columns: int
    channels: int
    filters: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    input_lanes: int
    output_lanes: int
    element_bytes: int

    @property
    def vectors(self) -> int:
        """Vectors of output channels."""
        return self.filters // self.output_lanes


def find_tiles(analysis: BlockAnalysis, native_lanes: int) -> TransformedTiles | None:
    """The tiles of a function whose convolution is computed by `STAGES`; None for any other function."""
    names = [stage.name for stage in analysis.stages]
    if PADDED not in names:
        return None
    first = names.index(PADDED)
    last = first + len(STAGES)
    if tuple(names[first:last]) != STAGES:
        return None
    _, rows, columns, tile, inputs, filters = analysis.stage(SUMMED).spatial_extents
    channels = analysis.stage(TRANSFORMED).spatial_extents[-1]
    before, after = tuple(names[:first]), tuple(names[last:])
    lanes = lanes_for(channels, native_lanes), lanes_for(filters, native_lanes)
    size = element_bytes(analysis.stage(PRODUCTS).block.writes[0].source)
    return TransformedTiles(tile, inputs, rows, columns, channels, filters, before, after, *lanes, size)


@dataclass(frozen=True)
class BlockVariant:
    """The choices that change a trace's structure.

    `copy_padded`: padded inputs are copied; otherwise each load tests its position. `unroll`: a tile's transforms are
    unrolled completely, half of them in registers; otherwise along one axis at a time, which takes half the code and
    keeps no half-finished transform in registers. `prefetch_weights_l2`: the next block's weights are prefetched while
    the current block of filters is multiplied.
    """

    copy_padded: bool
    unroll: bool = True
    prefetch_weights_l2: bool = False


VARIANTS = (
    BlockVariant(copy_padded=False),
    BlockVariant(copy_padded=False, unroll=False),
    BlockVariant(copy_padded=True, unroll=False),
)


def streams_filters(tiles: TransformedTiles, kept_bytes: int) -> bool:
    """Whether the transformed weights exceed the `kept_bytes` that stay in a cache."""
    return tiles.element_bytes * tiles.inputs**2 * tiles.channels * tiles.filters > kept_bytes


def apply_tiles(
    sch: Schedule, tiles: TransformedTiles, variant: BlockVariant, decide: Decisions, registers: int
) -> None:
    """Schedule `sch` (untouched so far); sizes come from `decide`. Raises TVM's ScheduleError if it does not fit."""
    for name in (*tiles.before, *(RESULT, *tiles.after)[:-1]):
        sch.compute_inline(sch.get_sblock(name))
    output = sch.get_sblock((RESULT, *tiles.after)[-1])
    products = sch.get_sblock(PRODUCTS)
    stored = sch.cache_write(products, 0, "local")

    batch, height, width, filters = sch.get_loops(output)
    tile_rows, row = sch.split(height, [None, tiles.tile])
    tile_columns, column = sch.split(width, [None, tiles.tile])
    row_blocks, tile_rows = decide.tile(sch, "tile_rows", tile_rows, MAX_BLOCK)
    column_blocks, tile_columns = decide.tile(sch, "tile_columns", tile_columns, MAX_BLOCK)
    vectors, lanes = sch.split(filters, [None, tiles.output_lanes])
    filter_blocks, vectors = decide.tile(sch, "filters", vectors, MAX_BLOCK)
    sch.reorder(batch, row_blocks, column_blocks, filter_blocks, tile_rows, tile_columns, vectors, row, column, lanes)
    sch.unroll(column)
    if variant.unroll:
        sch.unroll(row)
    sch.vectorize(lanes)
    # A whole tile's sums along one axis stay in registers; with few registers, only those of one row of outputs.
    whole = tiles.tile * tiles.inputs <= registers or not variant.unroll
    _half_transform(sch, SUMMED, vectors if whole else row, variant)
    vectors = _products(sch, tiles, decide, registers, filter_blocks, (products, stored))
    if variant.prefetch_weights_l2:
        sch.annotate(vectors, WEIGHTS_L2, 1)
    _transform(sch, tiles, variant, column_blocks)


def _half_transform(sch: Schedule, name: str, at: LoopRV, variant: BlockVariant) -> None:
    """Schedules a transformation along one of the two axes of a tile."""
    sums = sch.get_sblock(name)
    sch.compute_at(sums, at, preserve_unit_loops=True)
    *_, row, column, lanes = sch.get_loops(sums)
    if variant.unroll:
        sch.set_scope(sums, 0, "local")
        sch.unroll(column)
    else:
        sch.reorder(column, row)
    sch.unroll(row)
    sch.vectorize(lanes)


def _products(
    sch: Schedule,
    tiles: TransformedTiles,
    decide: Decisions,
    registers: int,
    at: LoopRV,
    blocks: tuple[SBlockRV, SBlockRV],
) -> LoopRV:
    """Schedules the products; returns the loop over the vectors of filters that are summed at once."""
    products, stored = blocks
    sch.compute_at(stored, at, preserve_unit_loops=True)
    place_row, place_column, batch, rows, columns, filters = sch.get_loops(stored)[-6:]
    rows, inner_rows = decide.tile(sch, "row", rows, registers)
    columns, inner_columns = decide.tile(sch, "pixel", columns, registers)
    vectors, lanes = sch.split(filters, [None, tiles.output_lanes])
    vectors, inner_vectors = decide.tile(sch, "vectors", vectors, registers)
    sch.reorder(place_row, place_column, batch, vectors, rows, columns, inner_rows, inner_columns, inner_vectors, lanes)
    for loop in (inner_rows, inner_columns, inner_vectors):
        sch.unroll(loop)
    sch.vectorize(lanes)
    sch.compute_at(products, columns, preserve_unit_loops=True)
    *_, rows, columns, filters, channel = sch.get_loops(products)
    inner, lanes = sch.split(filters, [None, tiles.output_lanes])
    channel, unrolled = decide.tile(sch, "reduction0", channel, MAX_UNROLLED_DEPTH)
    sch.reorder(channel, unrolled, rows, columns, inner, lanes)
    for loop in (unrolled, rows, columns, inner):
        sch.unroll(loop)
    sch.vectorize(lanes)
    sch.decompose_reduction(products, channel)
    return vectors


def _transform(sch: Schedule, tiles: TransformedTiles, variant: BlockVariant, at: LoopRV) -> None:
    transformed = sch.get_sblock(TRANSFORMED)
    sch.compute_at(transformed, at, preserve_unit_loops=True)
    place_row, place_column, batch, rows, columns, channels = sch.get_loops(transformed)[-6:]
    vectors, lanes = sch.split(channels, [None, tiles.input_lanes])
    sch.reorder(batch, rows, columns, vectors, place_row, place_column, lanes)
    if variant.unroll:
        sch.unroll(place_row)
    sch.unroll(place_column)
    sch.vectorize(lanes)
    _half_transform(sch, ROWS, place_row if variant.unroll else vectors, variant)
    padded = sch.get_sblock(PADDED)
    if not variant.copy_padded:
        sch.compute_inline(padded)
        return
    sch.compute_at(padded, at, preserve_unit_loops=True)
    *_, channels = sch.get_loops(padded)
    _, lanes = sch.split(channels, [None, tiles.input_lanes])
    sch.vectorize(lanes)
