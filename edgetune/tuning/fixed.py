"""The schedule of a kernel that nobody tuned: the register tile that a formula ranks first. No search, no compiler.

The formula counts, for one step of the reduction over a tile, multiply-adds and loads, and how far the tile hides the
latency of multiply-adds; tiles that do not fit the registers are out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from math import prod
from typing import Any

from tvm.s_tir import Schedule

from edgetune.config.target import Target
from edgetune.tuning.fixed_blocks import block_note, block_sizes
from edgetune.tuning.genome import trace_text
from edgetune.tuning.sketches import elementwise, rowwise
from edgetune.tuning.sketches.anatomy import anatomy_of
from edgetune.tuning.sketches.decisions import Chosen
from edgetune.tuning.sketches.limits import footprint
from edgetune.tuning.sketches.register_tile import MAX_ROWS, MAX_UNROLLED_WINDOW, Tile, Variant, variants_of
from edgetune.tuning.sketches.spaces import (
    in_blocks,
    limits,
    native_lanes,
    postprocs,
    tile_of,
    tiled,
    tiles_of,
    untouched,
)
from edgetune.tuning.task import UNLIMITED_SCRATCH

_LATENCY = 8  # multiply-adds in flight that keep a core's units busy
_LOADS = 2  # loads per cycle
_DEPTH = 4  # steps of a long reduction that are unrolled
_UNROLLED = 256  # stores in a body that is unrolled without being asked


def fixed_trace(function: Any, target: Target, scratch_limit: int = 0) -> tuple[str, str]:
    """Trace of the best-guess schedule and a note for people. Scratch stays within `scratch_limit` bytes.

    Never fails: what no rule fits is the plain loop nest, and the note says so.
    """
    found = best_guess(function, target, scratch_limit)
    if found is not None:
        return found
    sch = untouched(function)
    _finish(sch, target, UNLIMITED_SCRATCH)
    return trace_text(sch.trace), "plain loops: no schedule rule fits this kernel"


def best_guess(function: Any, target: Target, scratch_limit: int = 0) -> tuple[str, str] | None:
    """What `fixed_trace` answers, but None where no schedule rule fits the function, or fits into the scratch."""
    for sch, note in _candidates(function, target, scratch_limit):
        if footprint(sch.mod).within(limits(target, scratch_limit)) and _finish(sch, target, scratch_limit):
            return trace_text(sch.trace), note
    return None


def _finish(sch: Schedule, target: Target, scratch_limit: int) -> bool:
    sch.enter_postproc()
    return all(post.apply(sch) for post in postprocs(target, scratch_limit))


def _candidates(function: Any, target: Target, scratch_limit: int) -> Iterator[tuple[Schedule, str]]:
    tiles = tiles_of(function, target)
    if tiles is not None:
        for block, sizes in block_sizes(tiles, target, scratch_limit):
            with suppress(RuntimeError):  # ScheduleError, or what TVM raises for a case that it forgot
                yield in_blocks(function, tiles, block, Chosen(sizes), target), block_note(tiles, sizes)
        return
    found = tile_of(function, target)
    if found is not None:
        _, tile = found
        sizes = best_sizes(tile, target)
        for variant in _preferred(tile, target):
            fused = dict(sizes, pixel=best_sizes(tile, target, fused=True)["pixel"], row=1) if variant.fuse else sizes
            try:
                yield tiled(function, tile, variant, Chosen(fused), target), f"register tile {_text(fused, tile)}"
            except RuntimeError:  # ScheduleError, or what TVM raises for a case that it forgot
                continue
    anatomy = anatomy_of(function)
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


def best_sizes(tile: Tile, target: Target, *, fused: bool = False) -> dict[str, int]:
    """Inner extents by tile name: "row", "pixel", "vectors" and "reduction0" .. in order of the reduction axes."""
    spatial = tile.anchor.spatial_extents
    pixels = 1 if tile.pixel is None else spatial[tile.pixel]
    rows = 1 if tile.row is None else spatial[tile.row]
    if fused:
        pixels, rows = pixels * rows, 1
    registers = max(2, target.vector_registers)
    choices = product(_divisors(rows, MAX_ROWS), _divisors(pixels, registers), _divisors(tile.vectors, registers))
    row, pixel, vector = min(choices, key=lambda choice: _cost(choice, registers, tile, target))
    sizes = {"row": row, "pixel": pixel, "vectors": vector}
    return sizes | _unrolled(tile, max(1, _UNROLLED // (row * pixel * vector)))


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
        sizes[f"reduction{len(extents) - 1}"] = max(_divisors(extents[-1], min(_DEPTH, room)))
    return sizes


def _cost(choice: tuple[int, ...], registers: int, tile: Tile, target: Target) -> tuple[float, int]:
    """Cycles per multiply-add of one vector (lower is better), then smaller tiles first.

    Neighbours in an unrolled window share inputs, which compilers keep in registers: half of them are left for that.
    """
    row, pixel, vector = choice
    tile_size = prod(choice)
    if tile_size + vector > registers or (_windows(tile) and tile_size > registers // 2):
        return (1e3 + tile_size, tile_size)
    loads = vector + (tile_size if tile.per_channel else row * pixel)
    cycles = max(tile_size, _LATENCY, loads) / 2 + 0.1 * loads
    if not tile.per_channel and _weight_bytes(tile) > target.l1_bytes // 2:
        cycles += 0.5 * vector
    return (cycles / tile_size, tile_size)


def _weight_bytes(tile: Tile) -> int:
    return 4 * tile.anchor.spatial_extents[tile.channel] * prod(tile.anchor.reduction_extents)


def _preferred(tile: Tile, target: Target) -> list[Variant]:
    """Variants, the most promising first: weights that fit the first cache stay inside, others outside."""
    first = "channel" if _weight_bytes(tile) > target.l1_bytes // 2 and tile.lanes > 1 else None

    def rank(variant: Variant) -> tuple[bool, bool, bool]:
        return (not variant.fuse, variant.pad_rows, (variant.order[-2:-1] == ("channel",)) != (first == "channel"))

    return sorted(variants_of(tile), key=rank)


def _divisors(extent: int, limit: int) -> list[int]:
    return [n for n in range(1, max(1, min(extent, limit)) + 1) if extent % n == 0]


def _text(sizes: dict[str, int], tile: Tile) -> str:
    return f"{sizes['row']}x{sizes['pixel']} pixels, {sizes['vectors']} vectors of {tile.lanes}"
