"""What a register tile costs, by a formula: multiply-adds and loads of its unrolled body, and latency that it hides.

Tiles that do not fit the registers are out: nothing is timed that could show them to be fast anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import inf, prod

from edgetune.config.target import Target
from edgetune.tuning.sketches.anatomy import Anatomy
from edgetune.tuning.sketches.liveness import Body, Reads, epilogue_operands, reads_of
from edgetune.tuning.sketches.register_tile import MAX_UNROLLED_WINDOW
from edgetune.tuning.sketches.tile import Tile
from edgetune.tuning.sketches.variants import Variant

_LATENCY = 8  # multiply-adds in flight that keep a core's units busy
_DEPTH = 4  # steps of a long reduction that are unrolled
_UNROLLED = 256  # stores in a body that is unrolled without being asked
_ARMV7_ROWS = 2  # of several pixels: vector loads take no offset there, and 13 registers hold few addresses
_AHEAD = 2  # operands of the next multiply-add, which are loaded while this one runs; vectors of a block go together


def cheapest(
    anatomy: Anatomy, tile: Tile, variant: Variant, target: Target, pixels: Iterable[tuple[int, int]]
) -> tuple[float, dict[str, int]]:
    """Cycles for a multiply-add of one vector, and the sizes (as of `best_sizes` in fixed.py) of the cheapest tile.

    `pixels` are its rows, and pixels in each, to choose from. Infinity and no sizes where none fits.
    """
    columns = tile.anchor.spatial_extents[tile.pixel] if variant.fuse and tile.pixel is not None else 0
    registers = max(2, target.vector_registers)
    reads = reads_of(tile.anchor, tile.row, tile.pixel, tile.channel, tile.lanes)
    epilogue = epilogue_operands(anatomy, tile.after, tile.channel)
    best: tuple[tuple[float, int], dict[str, int]] | None = None
    for (row, pixel), vectors in product(pixels, divisors(tile.vectors, registers)):
        size = row * pixel * vectors
        if size > registers or (target.isa == "armv7" and row > _ARMV7_ROWS and pixel > 1):
            continue
        unrolled = _unrolled(tile, max(1, _UNROLLED // size))
        body = Body(row, pixel, vectors, tuple(unrolled.values()), columns)
        over_pixels = variant.order[-1] != "channel" or vectors == tile.vectors
        cost = _cost(body, reads, epilogue, over_pixels, tile, target)
        if best is None or cost < best[0]:
            best = cost, {"row": row, "pixel": pixel, "vectors": vectors} | unrolled
    return (best[0][0], best[1]) if best else (inf, {})


def _windows(tile: Tile) -> list[int]:
    """Reduction axes that are short enough to be unrolled whole, innermost first; not the depth of a first layer."""
    extents = tile.anchor.reduction_extents
    found = [n for n in reversed(range(len(extents))) if 1 < extents[n] <= MAX_UNROLLED_WINDOW]
    return found[1:] if len(found) > 1 and found[0] == len(extents) - 1 and not tile.per_channel else found


def _unrolled(tile: Tile, room: int) -> dict[str, int]:
    """How much of each reduction axis is unrolled, `room` steps in all."""
    extents, windows = tile.anchor.reduction_extents, _windows(tile)
    sizes = {f"reduction{number}": 1 for number in range(len(extents))}
    for number in windows if tile.per_channel else windows[:1]:
        if extents[number] <= room:
            sizes[f"reduction{number}"] = extents[number]
            room //= extents[number]
    if not windows and extents:
        sizes[f"reduction{len(extents) - 1}"] = max(divisors(extents[-1], min(_DEPTH, room)))
    return sizes


def _cost(body: Body, reads: Reads, epilogue: int, over_pixels: bool, tile: Tile, target: Target) -> tuple[float, int]:
    """Cycles per multiply-add of one vector (lower is better), then smaller tiles first.

    `over_pixels`: the loop around the reduction goes over pixels, so that the channels and what belongs to them, as the
    `epilogue` operands of each vector, are the same in all rounds; compilers load that before the loop.
    """
    size = body.accumulators
    whole = over_pixels and body.reduction == tile.anchor.reduction_extents
    ahead = max(_AHEAD, body.vectors, epilogue * body.vectors + 1 if over_pixels else 0)
    taken = reads.registers(body, over_pixels=whole) + ahead
    if taken > max(2, target.vector_registers):
        return (1e3 + taken, size)
    loads = reads.loads(body) / prod(body.reduction)
    cycles = max(size, _LATENCY, loads) / 2 + 0.1 * loads
    if not tile.per_channel and tile.weight_bytes > target.l1_bytes // 2:
        cycles += 0.5 * body.vectors
    return (cycles / size, size)


def divisors(extent: int, limit: int) -> list[int]:
    """What divides `extent` and is at most `limit`, 1 in any case."""
    return [n for n in range(1, max(1, min(extent, limit)) + 1) if extent % n == 0]
