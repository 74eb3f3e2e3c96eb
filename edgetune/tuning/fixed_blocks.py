"""Sizes of blocks for a convolution by transformed tiles that nobody tuned, the most promising first.

The transformed inputs of a block and the products of its filters should stay in the second cache, beside the weights
that pass by; the more tiles a block has, the seldomer the weights pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from edgetune.config.target import Target
from edgetune.tuning.sketches.limits import FREE_SCRATCH
from edgetune.tuning.sketches.spaces import kept_bytes
from edgetune.tuning.sketches.winograd_tile import MAX_BLOCK, BlockVariant, TransformedTiles, streams_filters

_FLOAT = 4  # bytes
_LATENCY = 8  # multiply-adds in flight that keep a core's units busy
_DEPTH = 4  # steps of the sum over channels that are unrolled
_ENOUGH = 24  # tiles of a block beyond which passing the weights once more costs little
_TRIED = 8


def block_sizes(
    tiles: TransformedTiles, target: Target, scratch_limit: int, *, streamed: bool = False
) -> Iterator[tuple[BlockVariant, dict[str, int]]]:
    """Variants and sizes by tile name whose scratch is within `scratch_limit` bytes, at most eight.

    `streamed`: the second cache keeps no weights from one run of the program to the next.
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
    """The sizes in words."""
    block = f"{sizes['tile_rows']}x{sizes['tile_columns']} tiles of {tiles.tile}x{tiles.tile}"
    inner = f"register tile {sizes['row']}x{sizes['pixel']} tiles, {sizes['vectors']} vectors of {tiles.output_lanes}"
    return f"blocks of {block}, {inner}"


def _scratch(tiles: TransformedTiles, rows: int, columns: int, vectors: int) -> int:
    """Bytes of the transformed inputs of a block and of the products with its filters."""
    channels = tiles.channels + vectors * tiles.output_lanes
    return tiles.inputs**2 * rows * columns * channels * _FLOAT


def _badness(tiles: TransformedTiles, cache: int, rows: int, columns: int, vectors: int) -> tuple[bool, int, int, int]:
    """Beyond the cache; too few tiles; blocks of filters, each of which reads the inputs anew; then the smallest."""
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
        cycles = max(size, _LATENCY, loads) / 2 + 0.1 * loads + 0.5 * vector  # weights come from beyond the first cache
        return cycles / size, size

    choices = product(_divisors(rows, registers), _divisors(columns, registers), _divisors(vectors, registers))
    return min(choices, key=cost)


def _divisors(extent: int, limit: int) -> list[int]:
    return [n for n in range(1, max(1, min(extent, limit)) + 1) if extent % n == 0]
