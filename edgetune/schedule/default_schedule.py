"""Default schedules: for kernels without records, a cost model chooses the schedule; nothing is compiled or timed.

Register tiles: the model counts multiply-adds and loads of a tile's unrolled body, and how far the tile hides the
latency of multiply-adds. Tiles that do not fit the registers are excluded: no measurement could show that they are fast
anyway.

Block sizes of a Winograd convolution: most promising first. The transformed inputs of a block and the products of its
filters should stay in L2, beside the weights that stream through; with more tiles in a block, weights stream less
often.

Register tiles and query blocks of attention: most promising first. Both products get the tile that the model gives them
as separate kernels. The scores of a block should stay in L1, beside the keys and values that stream through; the
queries of one tile are enough for a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from math import lcm

from tvm.s_tir import Schedule

from edgetune.graph.attention import MIXED, PRODUCTS, RESULT
from edgetune.graph.tvm_types import PrimFunc
from edgetune.schedule.algorithms.schedule_text import trace_text
from edgetune.schedule.sketches import elementwise, rowwise
from edgetune.schedule.sketches.attention_rows import AttentionRows, RowsVariant
from edgetune.schedule.sketches.block_analysis import BlockAnalysis, analyse_blocks
from edgetune.schedule.sketches.decisions import Chosen
from edgetune.schedule.sketches.limits import FREE_SCRATCH, UNLIMITED_SCRATCH, footprint
from edgetune.schedule.sketches.register_tile import MAX_ROWS
from edgetune.schedule.sketches.spaces import (
    cache_for_blocks,
    in_blocks,
    in_rows,
    kept_bytes,
    limits,
    native_lanes,
    postprocs,
    rows_of,
    tile_of,
    tiled,
    tiles_of,
    untouched,
)
from edgetune.schedule.sketches.tile import Tile, reads_each_once
from edgetune.schedule.sketches.variants import Variant, variants_of
from edgetune.schedule.sketches.winograd_tile import MAX_BLOCK, BlockVariant, TransformedTiles, streams_filters
from edgetune.schedule.tile_costs import cheapest, divisors
from edgetune.target.target import Target

_SHARE = 4  # scores may fill 1 / _SHARE of L1


def row_sizes(rows: AttentionRows, target: Target) -> Iterator[tuple[RowsVariant, dict[str, int]]]:
    """Variants and sizes by tile name, in order of decreasing scratch."""
    seen: list[dict[str, int]] = []
    for limit in reversed(divisors(rows.queries, max(2, target.vector_registers))):
        for sizes in _sizes(rows, target, limit):
            if sizes not in seen:
                seen.append(sizes)
                yield RowsVariant(), sizes


def rows_note(rows: AttentionRows, sizes: dict[str, int]) -> str:
    """The sizes as text for people."""
    scores = f"{sizes['score_row']} queries, {sizes['score_vectors']} vectors of {rows.key_lanes} keys"
    mixed = f"{sizes['row']} queries, {sizes['vectors']} vectors of {rows.column_lanes}"
    return f"blocks of {sizes['block']} queries, register tiles {scores}, and {mixed}"


def _sizes(rows: AttentionRows, target: Target, limit: int) -> Iterator[dict[str, int]]:
    """Sizes for tiles of at most `limit` queries: first a block that fits the cache, then the smallest block."""
    choices = [(1, queries) for queries in divisors(rows.queries, limit)]
    found = [cheapest(rows.anatomy, tile, Variant(("channel", "pixel")), target, choices)[1] for tile in _tiles(rows)]
    if not all(found):
        return
    scores, mixed = found
    sizes = {"score_row": scores["pixel"], "score_vectors": scores["vectors"], "reduction0": scores["reduction0"]}
    sizes |= {"row": mixed["pixel"], "vectors": mixed["vectors"], "reduction1": mixed["reduction0"]}
    least = lcm(scores["pixel"], mixed["pixel"])
    most = target.l1_bytes // (_SHARE * _FLOAT * rows.keys)
    blocks = [block for block in divisors(rows.queries, most) if block % least == 0]
    yield sizes | {"block": max(blocks, default=least)}
    yield sizes | {"block": least}


def _tiles(rows: AttentionRows) -> tuple[Tile, Tile]:
    """Both products as if each were a separate kernel."""
    scores, mixed = (rows.anatomy.stage(name) for name in (PRODUCTS, MIXED))
    last = len(scores.spatial) - 1
    return (
        Tile(scores, (), rows.changes, None, last, last - 1, None, False, rows.keys, rows.key_lanes),
        Tile(mixed, (), (RESULT, *rows.after), None, last, rows.query, None, False, rows.columns, rows.column_lanes),
    )


_FLOAT = 4  # bytes
_LATENCY = 8  # multiply-adds in flight that keep a core's units busy
_DEPTH = 4  # steps of the sum over channels that are unrolled
_ENOUGH = 24  # tiles of a block above which streaming the weights once more costs little
_TRIED = 8


def block_sizes(
    tiles: TransformedTiles, target: Target, scratch_limit: int, *, streamed: bool = False
) -> Iterator[tuple[BlockVariant, dict[str, int]]]:
    """Variants and sizes by tile name whose scratch is within `scratch_limit` bytes, at most eight.

    `streamed`: L2 keeps no weights from one run of the program to the next.
    """
    room = max(scratch_limit, FREE_SCRATCH)
    choices = product(
        _divisors(tiles.rows, MAX_BLOCK), _divisors(tiles.columns, MAX_BLOCK), _divisors(tiles.vectors, MAX_BLOCK)
    )
    fitting = [choice for choice in choices if _scratch(tiles, *choice) <= room]
    fitting.sort(key=lambda choice: _badness(tiles, target.l2_bytes, *choice))
    registers = max(2, target.vector_registers)
    far = streams_filters(tiles, kept_bytes(target, streamed=streamed))
    for rows, columns, vectors in fitting[:_TRIED]:
        row, pixel, vector = _register_tile(rows, columns, vectors, registers)
        sizes = {"tile_rows": rows, "tile_columns": columns, "filters": vectors}
        sizes |= {"row": row, "pixel": pixel, "vectors": vector}
        sizes["reduction0"] = max(_divisors(tiles.channels, _DEPTH))
        yield BlockVariant(copy_padded=False, prefetch=far), sizes


def block_note(tiles: TransformedTiles, sizes: dict[str, int]) -> str:
    """The sizes as text for people."""
    block = f"{sizes['tile_rows']}x{sizes['tile_columns']} tiles of {tiles.tile}x{tiles.tile}"
    inner = f"register tile {sizes['row']}x{sizes['pixel']} tiles, {sizes['vectors']} vectors of {tiles.output_lanes}"
    return f"blocks of {block}, {inner}"


def _scratch(tiles: TransformedTiles, rows: int, columns: int, vectors: int) -> int:
    """Bytes of the transformed inputs of a block and of the products with its filters."""
    channels = tiles.channels + vectors * tiles.output_lanes
    return tiles.inputs**2 * rows * columns * channels * _FLOAT


def _badness(tiles: TransformedTiles, cache: int, rows: int, columns: int, vectors: int) -> tuple[bool, int, int, int]:
    """Sort key: exceeds the cache, missing tiles, blocks of filters (each reads the inputs again), scratch size."""
    scratch = _scratch(tiles, rows, columns, vectors)
    few = max(0, min(_ENOUGH, tiles.rows * tiles.columns) - rows * columns)
    return scratch > cache, few, tiles.vectors // vectors, scratch


def _register_tile(rows: int, columns: int, vectors: int, registers: int) -> tuple[int, int, int]:
    """Rows and columns of tiles, and vectors of filters, that are summed at once: the cheapest per multiply-add."""

    def cost(choice: tuple[int, int, int]) -> tuple[float, int]:
        row, pixel, vector = choice
        size = row * pixel * vector
        if size + vector >= registers:
            return 1e3 + size, size
        loads = vector + row * pixel
        cycles = max(size, _LATENCY, loads) / 2 + 0.1 * loads + 0.5 * vector  # weights come from beyond L1
        return cycles / size, size

    choices = product(_divisors(rows, registers), _divisors(columns, registers), _divisors(vectors, registers))
    return min(choices, key=cost)


def _divisors(extent: int, limit: int) -> list[int]:
    return [n for n in range(1, max(1, min(extent, limit)) + 1) if extent % n == 0]


_WIDE = 256  # bits; vectors this wide use up a cache line in one or two steps, so lines are prefetched before each


def default_trace(
    function: PrimFunc, target: Target, scratch_limit: int = 0, *, streamed: bool = False
) -> tuple[str, str]:
    """Trace of the best-guess schedule of the direct algorithm and a note for people.

    Scratch stays within `scratch_limit` bytes if possible. `streamed`: L2 keeps no weights from one run of the program
    to the next. Never fails: a kernel that no rule fits gets the plain loop nest, and the note says so.
    """
    sch = untouched(function)
    if has_empty_tensor(function):
        return trace_text(sch.trace), "plain loops: a tensor is empty"
    found = best_guess(function, target, scratch_limit, streamed=streamed) or _least_scratch(function, target)
    if found is not None:
        return found
    _finish(sch, target, UNLIMITED_SCRATCH)
    return trace_text(sch.trace), "plain loops: no schedule rule fits this kernel"


def has_empty_tensor(function: PrimFunc) -> bool:
    """Whether some parameter has no elements: TVM's rules divide by its extents."""
    return any(int(extent) == 0 for buffer in function.params for extent in buffer.shape)


def best_guess(
    function: PrimFunc, target: Target, scratch_limit: int = 0, *, streamed: bool = False
) -> tuple[str, str] | None:
    """The result of `default_trace`, or None if no schedule rule fits the function within the scratch limit."""
    for sch, note in _candidates(function, target, scratch_limit, streamed=streamed):
        if footprint(sch.mod).within(limits(target, scratch_limit)) and _finish(sch, target, scratch_limit):
            return trace_text(sch.trace), note
    return None


def _least_scratch(function: PrimFunc, target: Target) -> tuple[str, str] | None:
    """Attention whose scores never fit: as few queries as possible per block, still less memory than plain loops."""
    rows = rows_of(function, target)
    if rows is None:
        return None
    *_, (variant, sizes) = row_sizes(rows, target)
    sch = in_rows(function, rows, variant, Chosen(sizes), target)
    return (trace_text(sch.trace), rows_note(rows, sizes)) if _finish(sch, target, UNLIMITED_SCRATCH) else None


def _finish(sch: Schedule, target: Target, scratch_limit: int) -> bool:
    sch.enter_postproc()
    return all(post.apply(sch) for post in postprocs(target, scratch_limit))


def _candidates(
    function: PrimFunc, target: Target, scratch_limit: int, *, streamed: bool
) -> Iterator[tuple[Schedule, str]]:
    tiles = tiles_of(function, target)
    if tiles is not None:
        for block, sizes in block_sizes(tiles, target, scratch_limit, streamed=streamed):
            with suppress(RuntimeError):  # ScheduleError, or TVM's error for a case that it does not handle
                yield in_blocks(function, tiles, block, Chosen(sizes), target), block_note(tiles, sizes)
        return
    rows = rows_of(function, target)
    if rows is not None:
        for rows_variant, sizes in row_sizes(rows, target):
            with suppress(RuntimeError):  # as above
                yield in_rows(function, rows, rows_variant, Chosen(sizes), target), rows_note(rows, sizes)
    found = tile_of(function, target)
    if found is not None:
        of_tile, tile = found
        for variant in preferred(tile, target, streamed=streamed):
            sizes = best_sizes(of_tile, tile, variant, target)
            try:
                yield tiled(function, tile, variant, Chosen(sizes), target), f"register tile {_text(sizes, tile)}"
            except RuntimeError:  # ScheduleError, or TVM's error for a case that it does not handle
                continue
    anatomy = analyse_blocks(function)
    if anatomy is None:
        return
    lanes = native_lanes(function, target)
    sch = untouched(function)
    with suppress(RuntimeError):  # as above
        if elementwise.applies(anatomy):
            elementwise.apply_elementwise(sch, anatomy, lanes, Chosen({}))
            yield sch, "elementwise"
        else:
            yield rowwise.apply_rowwise(sch, anatomy, lanes, Chosen({})), "row by row"


def best_sizes(anatomy: BlockAnalysis, tile: Tile, variant: Variant, target: Target) -> dict[str, int]:
    """Inner extents by tile name: "row", "pixel", "vectors" and "reduction0" .. in order of the reduction axes."""
    spatial = tile.anchor.spatial_extents
    pixels = 1 if tile.pixel is None else tile.block or spatial[tile.pixel]
    rows = 1 if tile.row is None else spatial[tile.row]
    if variant.fuse:
        pixels, rows = pixels * rows, 1
    registers = max(2, target.vector_registers)
    choices = product(divisors(rows, MAX_ROWS), divisors(pixels, registers))
    return cheapest(anatomy, tile, variant, target, choices)[1]


def preferred(tile: Tile, target: Target, *, streamed: bool) -> list[Variant]:
    """Variants, most promising first: weights that fit L1 stay inside, others outside.

    If each channel has its own input, inputs are adjacent like the channels, and are read in that order.
    """
    many = tile.weight_bytes > target.l1_bytes // 2 and tile.lanes > 1 and not tile.per_channel
    wide, cache = target.vector_bits >= _WIDE, cache_for_blocks(target)
    passing = wide and reads_each_once(tile) and 0 < cache < tile.passing_bytes
    by_rows = passing and tile.weight_bytes <= cache // 2  # each streamed line is touched once, for all channels
    first = "channel" if many and not by_rows else None

    variants = variants_of(tile, cache, kept_bytes(target, streamed=streamed), target.l1_bytes if wide else 0)
    far = any(variant.prefetch for variant in variants) and not by_rows

    def rank(variant: Variant) -> tuple[bool, int, bool, bool, bool, bool, bool, bool]:
        inside = (variant.order[-2:-1] == ("channel",)) != (first == "channel")
        again = far and variant.order[0] != "channel"  # uncached weights would be loaded again for each row
        asks = variant.ahead != (by_rows and tile.added > 0)
        whole = (not variant.fuse, variant.pad_rows)
        return (variant.onward != wide, -variant.parts, *whole, again, inside, not variant.near, asks)

    return sorted(variants, key=rank)


def _text(sizes: dict[str, int], tile: Tile) -> str:
    return f"{sizes['row']}x{sizes['pixel']} pixels, {sizes['vectors']} vectors of {tile.lanes}"
