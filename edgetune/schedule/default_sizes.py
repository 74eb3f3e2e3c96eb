"""Default tile sizes: a cost formula instead of a measurement, for register tiles, Winograd blocks and attention rows.

Register tiles: the cheapest of `edgetune.schedule.tile_costs`.

Block sizes of a Winograd convolution: most promising first. The transformed inputs of a block and the products of its
filters should stay in L2, beside the weights that stream through; with more tiles in a block, weights stream less
often.

Register tiles and query blocks of attention: most promising first. Both products get the tile that the model gives them
as separate kernels. The scores of a block should stay in L1, beside the keys and values that stream through; the
queries of one tile are enough for a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from math import lcm

from edgetune.affine.expressions import mentions
from edgetune.graph.attention import MIXED, PRODUCTS, RESULT
from edgetune.graph.element_type import element_bytes
from edgetune.schedule.sketches.attention_rows import AttentionRows, RowsVariant
from edgetune.schedule.sketches.block_analysis import BlockAnalysis
from edgetune.schedule.sketches.limits import FREE_SCRATCH
from edgetune.schedule.sketches.register_tile import MAX_ROWS
from edgetune.schedule.sketches.spaces import prefetches_filters
from edgetune.schedule.sketches.tile import Tile
from edgetune.schedule.sketches.variants import Variant
from edgetune.schedule.sketches.winograd_tile import MAX_BLOCK, BlockVariant, TransformedTiles
from edgetune.schedule.tile_costs import LINE, cheapest, divisors, step_cycles
from edgetune.target.target import Target

MOST_PIXELS = 1 << 10
"""More pixels than any register tile has."""

_SCORES_SHARE = 4  # scores may fill one part in this many of L1
_DEPTH = 4  # steps of the sum over channels that are unrolled
_ENOUGH = 24  # tiles of a block above which streaming the weights once more costs little
_TRIED = 8  # most block sizes


def tile_sizes(
    analysis: BlockAnalysis,
    tile: Tile,
    variant: Variant,
    target: Target,
    most: tuple[int, int] = (MAX_ROWS, MOST_PIXELS),
) -> dict[str, int]:
    """Inner extents by tile name: "row", "pixel", "vectors" and "reduction0" .. in order of the reduction axes.

    The tile has at `most` so many rows, and so many pixels in a row.
    """
    spatial = tile.anchor.spatial_extents
    pixels = 1 if tile.pixel is None else tile.block or spatial[tile.pixel]
    rows = 1 if tile.row is None else spatial[tile.row]
    if variant.fuse:
        pixels, rows = pixels * rows, 1
    registers = max(2, target.vector_registers)
    choices = product(divisors(rows, most[0]), divisors(pixels, min(most[1], registers)))
    return cheapest(analysis, tile, variant, target, choices)[1]


def tile_note(sizes: dict[str, int], tile: Tile) -> str:
    """The sizes as text for people."""
    strips = f", strips of {sizes['strip'] * sizes['pixel']} pixels" if "strip" in sizes else ""
    return f"{sizes['row']}x{sizes['pixel']} pixels, {sizes['vectors']} vectors of {tile.lanes}{strips}"


def strip_sizes(tile: Tile, variant: Variant, sizes: dict[str, int]) -> list[dict[str, int]]:
    """`sizes` with the number of tiles in a strip, the longest strip first; `sizes` alone where there are no strips.

    No strip is a whole row, for which there is a structure without strips.
    """
    if "strip" not in variant.order or tile.pixel is None:
        return [sizes]
    tiles = tile.anchor.spatial_extents[tile.pixel] // sizes.get("pixel", 1)
    return [sizes | {"strip": number} for number in reversed(divisors(tiles, tiles // 2))] if tiles > 1 else []


def block_sizes(
    tiles: TransformedTiles, target: Target, scratch_limit: int, *, streamed: bool = False
) -> Iterator[tuple[BlockVariant, dict[str, int]]]:
    """Variants and sizes by tile name whose scratch is within `scratch_limit` bytes, at most eight.

    `streamed`: L2 keeps no weights from one run of the program to the next.
    """
    limit = max(scratch_limit, FREE_SCRATCH)
    choices = product(
        divisors(tiles.rows, MAX_BLOCK), divisors(tiles.columns, MAX_BLOCK), divisors(tiles.vectors, MAX_BLOCK)
    )
    fitting = [choice for choice in choices if _scratch(tiles, *choice) <= limit]
    fitting.sort(key=lambda choice: _rank(tiles, target.l2_bytes, *choice))
    far = prefetches_filters(tiles, target, streamed=streamed)
    for rows, columns, vectors in fitting[:_TRIED]:
        row, pixel, vector = _register_tile(rows, columns, vectors, target)
        sizes = {"tile_rows": rows, "tile_columns": columns, "filters": vectors}
        sizes |= {"row": row, "pixel": pixel, "vectors": vector}
        sizes["reduction0"] = max(divisors(tiles.channels, _DEPTH))
        yield BlockVariant(copy_padded=False, prefetch_weights_l2=far), sizes


def block_note(tiles: TransformedTiles, sizes: dict[str, int]) -> str:
    """The sizes as text for people."""
    block = f"{sizes['tile_rows']}x{sizes['tile_columns']} tiles of {tiles.tile}x{tiles.tile}"
    inner = f"register tile {sizes['row']}x{sizes['pixel']} tiles, {sizes['vectors']} vectors of {tiles.output_lanes}"
    return f"blocks of {block}, {inner}"


def _scratch(tiles: TransformedTiles, rows: int, columns: int, vectors: int) -> int:
    """Bytes of the transformed inputs of a block and of the products with its filters."""
    channels = tiles.channels + vectors * tiles.output_lanes
    return tiles.inputs**2 * rows * columns * channels * tiles.element_bytes


def _rank(tiles: TransformedTiles, cache: int, rows: int, columns: int, vectors: int) -> tuple[bool, int, int, int]:
    """Sort key: exceeds the cache, missing tiles, blocks of filters (each reads the inputs again), scratch size."""
    scratch = _scratch(tiles, rows, columns, vectors)
    few = max(0, min(_ENOUGH, tiles.rows * tiles.columns) - rows * columns)
    return scratch > cache, few, tiles.vectors // vectors, scratch


def _register_tile(rows: int, columns: int, vectors: int, target: Target) -> tuple[int, int, int]:
    """Rows and columns of tiles, and vectors of filters, that are summed at once: the cheapest per multiply-add."""
    registers = max(2, target.vector_registers)

    def cost(choice: tuple[int, int, int]) -> tuple[float, int]:
        row, pixel, vector = choice
        size = row * pixel * vector
        if size + vector >= registers:
            return 1e3 + size, size
        loads = vector + row * pixel
        return step_cycles(target.costs, size, loads, vector) / size, size

    choices = product(divisors(rows, registers), divisors(columns, registers), divisors(vectors, registers))
    return min(choices, key=cost)


def row_sizes(rows: AttentionRows, target: Target) -> Iterator[tuple[RowsVariant, dict[str, int]]]:
    """Variants and sizes by tile name, in order of decreasing scratch: the last have blocks of one query."""
    seen: list[dict[str, int]] = []
    for limit in reversed(divisors(rows.queries, max(2, target.vector_registers))):
        for sizes in _row_sizes(rows, target, limit):
            if sizes not in seen:
                seen.append(sizes)
                yield RowsVariant(), sizes


def rows_note(rows: AttentionRows, sizes: dict[str, int]) -> str:
    """The sizes as text for people."""
    scores = f"{sizes['score_row']} queries, {sizes['score_vectors']} vectors of {rows.key_lanes} keys"
    mixed = f"{sizes['row']} queries, {sizes['vectors']} vectors of {rows.column_lanes}"
    return f"blocks of {sizes['block']} queries, register tiles {scores}, and {mixed}"


def _row_sizes(rows: AttentionRows, target: Target, limit: int) -> Iterator[dict[str, int]]:
    """Sizes for tiles of at most `limit` queries: first a block that fits the cache, then the smallest block."""
    scores, mixed = (sizes for _, sizes in cheapest_products(rows, target, divisors(rows.query_tile, limit)))
    if not scores or not mixed:
        return
    sizes = {"score_row": scores["pixel"], "score_vectors": scores["vectors"], "reduction0": scores["reduction0"]}
    sizes |= {"row": mixed["pixel"], "vectors": mixed["vectors"], "reduction1": mixed["reduction0"]}
    least = lcm(scores["pixel"], mixed["pixel"])
    most = target.l1_bytes // (_SCORES_SHARE * rows.element_bytes * rows.keys)
    blocks = [block for block in divisors(rows.queries, most) if block % least == 0]
    yield sizes | {"block": max(blocks, default=least)}
    yield sizes | {"block": least}


def cheapest_products(
    rows: AttentionRows, target: Target, queries: Iterable[int]
) -> tuple[tuple[float, dict[str, int]], ...]:
    """What `cheapest` says of both products, in tiles of one of these numbers of `queries`."""
    choices = [(1, number) for number in queries]
    variant = Variant(("channel", "pixel"))
    return tuple(cheapest(rows.analysis, tile, variant, target, choices) for tile in _products(rows))


def _products(rows: AttentionRows) -> tuple[Tile, Tile]:
    """Both products as if each were a separate kernel."""
    scores, mixed = (rows.analysis.stage(name) for name in (PRODUCTS, MIXED))
    last = len(scores.spatial) - 1
    of_scores = Tile(scores, (), rows.changes, None, last, last - 1, None, False, rows.keys, rows.key_lanes)
    after = (RESULT, *rows.after)
    of_columns = Tile(mixed, (), after, None, last, rows.query, None, False, rows.columns, rows.column_lanes)
    first, second = (replace(tile, crosses_lines=_crosses_lines(tile)) for tile in (of_scores, of_columns))
    return first, second


def _crosses_lines(tile: Tile) -> bool:
    """Whether vectors are as long as a line of the cache, and rows of what queries share begin inside a line."""
    moving = tile.anchor.spatial[tile.channel].var
    shared = [region for region in tile.anchor.reads() if mentions(region.region[-1].min, moving)]
    lengths = [element_bytes(region.source) * int(region.source.shape[-1]) for region in shared]
    return tile.operand_element * tile.lanes >= LINE and any(length % LINE for length in lengths)
