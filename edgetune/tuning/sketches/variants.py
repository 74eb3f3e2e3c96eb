"""The structures that a search tries for a tile of registers: orders of loops, and what is asked for ahead."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from edgetune.codegen.reduction_blocks import near_divisor
from edgetune.tuning.sketches.tile import FLOAT, Tile, reads_each_once, streams_weights

Outer = Literal["row", "pixel", "channel"]
_BLOCK_VECTORS = 3  # vectors of channels in a tile, more or less
_SHORTEST_PART = 256  # steps; what storing and loading the sums costs is small against these


@dataclass(frozen=True)
class Variant:
    """The choices that change a trace's structure. `pad_rows` copies padded rows instead of testing each access.

    `parts`: the reduction is computed in so many parts, each for all tiles (see `edgetune.codegen.reduction_blocks`).
    `prefetch`: while a block of channels is computed, the next one's weights are asked for. `ahead`: the lines of the
    output, and of what is added to it, are asked for before a tile is summed. `near`: weights are asked for a few steps
    before they are multiplied. `onward`: while a tile is summed, the inputs of the next one are asked for.
    """

    order: tuple[Outer, ...]
    fuse: bool = False
    pad_rows: bool = False
    parts: int = 1
    prefetch: bool = False
    ahead: bool = False
    near: bool = False
    onward: bool = False


def variants_of(tile: Tile, cache_bytes: int = 0, kept_bytes: int = 0, first_bytes: int = 0) -> tuple[Variant, ...]:
    """All structures worth searching for a tile.

    `cache_bytes`: the cache that operands of a block of channels should stay in; `kept_bytes`: up to so many weights
    are still in a cache when the kernel runs again; `first_bytes`: the first cache. 0 where nothing is known of it.
    """
    parts = parts_for(tile, cache_bytes)
    found = _whole(tile)
    if kept_bytes > 0 and streams_weights(tile, kept_bytes):
        found = tuple(replace(v, prefetch=v.order[0] == "channel") for v in found)
    if parts > 1:
        found += tuple(replace(v, parts=parts) for v in found if v.order[0] == "channel" and not v.pad_rows)
    if 0 < cache_bytes < tile.passing_bytes:
        found += tuple(replace(v, ahead=True) for v in found if v.parts == 1)
    if 0 < cache_bytes < tile.input_bytes and reads_each_once(tile):
        found += tuple(replace(v, onward=True) for v in found if v.parts == 1)
    if first_bytes > 0 and streams_weights(tile, first_bytes):
        found += tuple(replace(v, near=True) for v in found if v.order[0] == "channel")
    return found


def parts_for(tile: Tile, cache_bytes: int) -> int:
    """Parts of the reduction so that what a block of channels reads in one of them stays in `cache_bytes`; 1 or more.

    Only for the products of matrices among tiles: one long reduction, inputs that all channels share. Unfinished sums
    stand where the results will, so these have the type of the sums, and no two tiles share one. 1 where no number of
    parts near divides.
    """
    extents = tile.anchor.reduction_extents
    if cache_bytes <= 0 or tile.pixel is None or not reads_each_once(tile):
        return 1
    if not tile.keeps_type or tile.overlaps:
        return 1
    rows = prod(tile.anchor.spatial_extents[axis] for axis in (tile.row, tile.pixel) if axis is not None)
    columns = 2 * min(_BLOCK_VECTORS, tile.vectors) * tile.lanes  # a block that is used, and one that comes near
    size = FLOAT * (rows + columns)
    wanted = 1
    while max(extents) // wanted > _SHORTEST_PART and max(extents) // wanted * size > cache_bytes:
        wanted += 1
    return near_divisor(max(extents), wanted)


def _whole(tile: Tile) -> tuple[Variant, ...]:
    if tile.pixel is None:
        return (Variant(("channel",)),)
    if tile.row is None:
        orders: tuple[tuple[Outer, ...], ...] = (("pixel", "channel"), ("channel", "pixel"))
        return tuple(Variant(order, pad_rows=rows) for order in orders for rows in _pad_choices(tile, order))
    orders = (("row", "pixel", "channel"), ("row", "channel", "pixel"), ("channel", "row", "pixel"))
    found = [Variant(order, pad_rows=rows) for order in orders for rows in _pad_choices(tile, order)]
    if tile.fusible:
        fused: tuple[tuple[Outer, ...], ...] = (("pixel", "channel"), ("channel", "pixel"))
        found = [Variant(order, fuse=True) for order in fused] + found[:1]
    return tuple(found)


def _pad_choices(tile: Tile, order: tuple[Outer, ...]) -> tuple[bool, ...]:
    # Rows copied inside the channel loop would be copied once for each block of channels.
    return (False, True) if tile.pad is not None and order[0] != "channel" else (False,)
