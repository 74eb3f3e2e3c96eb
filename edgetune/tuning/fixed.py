"""The schedule of a kernel that nobody tuned: the register tile that a formula ranks first. No search, no compiler.

The formula counts, for the unrolled body of a tile, multiply-adds and loads, and how far the tile hides the latency of
multiply-adds. Tiles that do not fit the registers are out: nothing is timed that could show them to be fast anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any

from tvm.s_tir import Schedule

from edgetune.config.target import Target
from edgetune.tuning.fixed_blocks import block_note, block_sizes
from edgetune.tuning.fixed_rows import row_sizes, rows_note
from edgetune.tuning.genome import trace_text
from edgetune.tuning.sketches import elementwise, rowwise
from edgetune.tuning.sketches.anatomy import Anatomy, anatomy_of
from edgetune.tuning.sketches.decisions import Chosen
from edgetune.tuning.sketches.limits import footprint
from edgetune.tuning.sketches.register_tile import MAX_ROWS
from edgetune.tuning.sketches.spaces import (
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
from edgetune.tuning.sketches.tile import Tile, reads_each_once
from edgetune.tuning.sketches.variants import Variant, variants_of
from edgetune.tuning.task import UNLIMITED_SCRATCH
from edgetune.tuning.tile_costs import cheapest, divisors

_WIDE = 256  # bits of vectors that use up a line of the cache in a step or two: lines are asked for before each


def fixed_trace(function: Any, target: Target, scratch_limit: int = 0, *, streamed: bool = False) -> tuple[str, str]:
    """Trace of the best-guess schedule of the direct form and a note for people.

    Scratch stays within `scratch_limit` bytes where it can. `streamed`: the second cache keeps no weights from one run
    of the program to the next. Never fails: what no rule fits is the plain loop nest, and the note says so.
    """
    sch = untouched(function)
    if has_empty_tensor(function):
        return trace_text(sch.trace), "plain loops: a tensor is empty"
    found = best_guess(function, target, scratch_limit, streamed=streamed) or _least_scratch(function, target)
    if found is not None:
        return found
    _finish(sch, target, UNLIMITED_SCRATCH)
    return trace_text(sch.trace), "plain loops: no schedule rule fits this kernel"


def has_empty_tensor(function: Any) -> bool:
    """Whether some parameter has no elements: TVM's rules divide by its extents."""
    return any(int(extent) == 0 for buffer in function.params for extent in buffer.shape)


def best_guess(
    function: Any, target: Target, scratch_limit: int = 0, *, streamed: bool = False
) -> tuple[str, str] | None:
    """What `fixed_trace` answers, but None where no schedule rule fits the function, or fits into the scratch."""
    for sch, note in _candidates(function, target, scratch_limit, streamed=streamed):
        if footprint(sch.mod).within(limits(target, scratch_limit)) and _finish(sch, target, scratch_limit):
            return trace_text(sch.trace), note
    return None


def _least_scratch(function: Any, target: Target) -> tuple[str, str] | None:
    """Attention whose scores never fit: those of as few queries as there can be, still less than plain loops store."""
    rows = rows_of(function, target)
    if rows is None:
        return None
    *_, (variant, sizes) = row_sizes(rows, target)
    sch = in_rows(function, rows, variant, Chosen(sizes), target)
    return (trace_text(sch.trace), rows_note(rows, sizes)) if _finish(sch, target, UNLIMITED_SCRATCH) else None


def _finish(sch: Schedule, target: Target, scratch_limit: int) -> bool:
    sch.enter_postproc()
    return all(post.apply(sch) for post in postprocs(target, scratch_limit))


def _candidates(function: Any, target: Target, scratch_limit: int, *, streamed: bool) -> Iterator[tuple[Schedule, str]]:
    tiles = tiles_of(function, target)
    if tiles is not None:
        for block, sizes in block_sizes(tiles, target, scratch_limit, streamed=streamed):
            with suppress(RuntimeError):  # ScheduleError, or what TVM raises for a case that it forgot
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


def best_sizes(anatomy: Anatomy, tile: Tile, variant: Variant, target: Target) -> dict[str, int]:
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
    """Variants, the most promising first: weights that fit the first cache stay inside, others outside.

    Where each channel has its own input, the inputs lie side by side as the channels do, and are read in that order.
    """
    many = tile.weight_bytes > target.l1_bytes // 2 and tile.lanes > 1 and not tile.per_channel
    wide, cache = target.vector_bits >= _WIDE, cache_for_blocks(target)
    passing = wide and reads_each_once(tile) and 0 < cache < tile.passing_bytes
    by_rows = passing and tile.weight_bytes <= cache // 2  # each line that passes is touched once, for all channels
    first = "channel" if many and not by_rows else None

    variants = variants_of(tile, cache, kept_bytes(target, streamed=streamed), target.l1_bytes if wide else 0)
    far = any(variant.prefetch for variant in variants) and not by_rows

    def rank(variant: Variant) -> tuple[bool, int, bool, bool, bool, bool, bool, bool]:
        inside = (variant.order[-2:-1] == ("channel",)) != (first == "channel")
        again = far and variant.order[0] != "channel"  # weights that no cache keeps would come for each row
        asks = variant.ahead != (by_rows and tile.added > 0)
        whole = (not variant.fuse, variant.pad_rows)
        return (variant.onward != wide, -variant.parts, *whole, again, inside, not variant.near, asks)

    return sorted(variants, key=rank)


def _text(sizes: dict[str, int], tile: Tile) -> str:
    return f"{sizes['row']}x{sizes['pixel']} pixels, {sizes['vectors']} vectors of {tile.lanes}"
