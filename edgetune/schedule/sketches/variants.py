"""Structural variants of a register tile that a search tries: loop orders, reduction parts and prefetching."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from edgetune.codegen.reduction_blocks import near_divisor
from edgetune.schedule.sketches.tile import Tile, has_windows, reads_each_once, streams_weights

Outer = Literal["row", "strip", "pixel", "channel"]
_BLOCK_VECTORS = 3  # approximate vectors of channels in a tile
_ROWS_OF_COPIES = 32  # a copy costs as much as two rows, and saves half a row each
_FAR_APART = 256  # bytes between elements of a column: each line is used for one step
_LONG_COLUMN = 512  # steps: so many lines of 64 bytes fill an L1 of 32 KiB
_SHORTEST_PART = 256  # steps; storing and loading the sums costs little compared with them


@dataclass(frozen=True)
class Variant:
    """The choices that change a trace's structure. `pad_rows` copies padded rows instead of testing each access.

    It also copies what an instruction reads in another type: with channels outermost, all of it at once. A "strip" in
    the `order` is a number of neighbouring tiles of a row: what they read is copied at a time instead of whole rows.
    `parts`: number of parts of the reduction, each computed for all tiles (see `edgetune.codegen.reduction_blocks`).
    `prefetch_weights_l2`: the weights of the next block of channels are prefetched while the current block is computed.
    `prefetch_outputs`: the output (and residual) lines of a tile are prefetched before its reduction.
    `prefetch_weights_l1`: weights are prefetched a few steps before their use. `prefetch_inputs`: the next tile's
    inputs are prefetched while the current tile is summed. `copy_columns`: the columns of a block of channels are
    copied, so that they are adjacent for all rows (Goto and van de Geijn, Anatomy of High-Performance Matrix
    Multiplication, TOMS 34(3), 2008).
    """

    order: tuple[Outer, ...]
    fuse: bool = False
    pad_rows: bool = False
    parts: int = 1
    prefetch_weights_l2: bool = False
    prefetch_outputs: bool = False
    prefetch_weights_l1: bool = False
    prefetch_inputs: bool = False
    copy_columns: bool = False


def variants_of(
    tile: Tile, cache_bytes: int = 0, kept_bytes: int = 0, first_bytes: int = 0, *, prefetches: bool = True
) -> tuple[Variant, ...]:
    """All structures worth searching for a tile.

    `cache_bytes`: the cache in which operands of a block of channels should stay; `kept_bytes`: weights up to this size
    are still cached when the kernel runs again; `first_bytes`: the size of L1. A value of 0 means unknown.
    `prefetches`: whether any of them may prefetch.
    """
    parts = parts_for(tile, cache_bytes)
    found = _whole(tile)
    if prefetches and kept_bytes > 0 and streams_weights(tile, kept_bytes):
        found = tuple(replace(v, prefetch_weights_l2=v.order[0] == "channel") for v in found)
    copies = [replace(v, copy_columns=True) for v in found if v.order[0] == "channel" and not v.pad_rows]
    if parts > 1:
        whole = [v for v in found if v.order[0] == "channel" and v.pad_rows == tile.copies]
        found += tuple(replace(v, parts=parts) for v in whole)
    if prefetches and 0 < cache_bytes < tile.passing_bytes:
        found += tuple(replace(v, prefetch_outputs=True) for v in found if v.parts == 1)
    if prefetches and 0 < cache_bytes < tile.input_bytes and reads_each_once(tile):
        found += tuple(replace(v, prefetch_inputs=True) for v in found if v.parts == 1)
    if prefetches and first_bytes > 0 and streams_weights(tile, first_bytes):
        found += tuple(replace(v, prefetch_weights_l1=True) for v in found if v.order[0] == "channel")
    return (*found, *copies) if copies_columns(tile) else found


def parts_for(tile: Tile, cache_bytes: int) -> int:
    """Number of reduction parts so that the data of a block of channels in one part stays in `cache_bytes`; at least 1.

    Only for tiles of matrix products: one long reduction, inputs that all channels share. Unfinished sums are stored
    where the results will be, so results must have the type of the sums, and no two tiles may share one. 1 if no
    divisor is near.
    """
    extents = tile.anchor.reduction_extents
    if cache_bytes <= 0 or tile.pixel is None or not reads_each_once(tile):
        return 1
    if not tile.keeps_type or tile.overlaps:
        return 1
    rows = prod(tile.anchor.spatial_extents[axis] for axis in (tile.row, tile.pixel) if axis is not None)
    columns = 2 * min(_BLOCK_VECTORS, tile.vectors) * tile.lanes  # the current block, and the next one being loaded
    size = tile.operand_element * (rows + columns)
    wanted = 1
    while max(extents) // wanted > _SHORTEST_PART and max(extents) // wanted * size > cache_bytes:
        wanted += 1
    return near_divisor(max(extents), wanted)


def copies_columns(tile: Tile) -> bool:
    """Whether so many rows share columns, which lie far apart in memory, that it pays to copy these."""
    if tile.columns is None or not reads_each_once(tile):
        return False
    rows = prod(tile.anchor.spatial_extents[axis] for axis in (tile.row, tile.pixel) if axis is not None)
    far = tile.operand_element * tile.anchor.spatial_extents[tile.channel] >= _FAR_APART
    return far and rows >= _ROWS_OF_COPIES and prod(tile.anchor.reduction_extents) >= _LONG_COLUMN


def _whole(tile: Tile) -> tuple[Variant, ...]:
    if tile.pixel is None:
        return (Variant(("channel",), pad_rows=tile.copies),)
    if tile.row is None:
        orders: tuple[tuple[Outer, ...], ...] = (("pixel", "channel"), ("channel", "pixel"))
        found = [Variant(order, pad_rows=rows) for order in orders for rows in _pad_choices(tile, order)]
        return (*found, *(_in_strips(tile, ("strip", "channel", "pixel")) if has_windows(tile) else ()))
    orders = (("row", "pixel", "channel"), ("row", "channel", "pixel"), ("channel", "row", "pixel"))
    found = [Variant(order, pad_rows=rows) for order in orders for rows in _pad_choices(tile, order)]
    if tile.fusible:
        fused: tuple[tuple[Outer, ...], ...] = (("pixel", "channel"), ("channel", "pixel"))
        found = [Variant(order, fuse=True) for order in fused] + found[:1]
    return (*found, *_in_strips(tile, ("row", "strip", "channel", "pixel")))


def _in_strips(tile: Tile, order: tuple[Outer, ...]) -> tuple[Variant, ...]:
    """The structure that copies strips of rows, where a copy is no choice and blocks of channels share it.

    Strips need less scratch memory than rows, and copy again what windows at their ends share.
    """
    return (Variant(order, pad_rows=True),) if tile.copies and not tile.per_channel else ()


def _pad_choices(tile: Tile, order: tuple[Outer, ...]) -> tuple[bool, ...]:
    if tile.copies:
        return (True,)
    # Rows copied inside the channel loop would be copied again for each block of channels.
    return (False, True) if tile.pad is not None and order[0] != "channel" else (False,)
