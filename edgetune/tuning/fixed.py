"""The schedule of a kernel that nobody tuned: the register tile that a formula ranks first. No search, no compiler.

The formula counts, for the unrolled body of a tile, multiply-adds and loads, and how far the tile hides the latency of
multiply-adds. Tiles that do not fit the registers are out: nothing is timed that could show them to be fast anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import product
from math import inf, prod
from typing import Any

from tvm.s_tir import Schedule

from edgetune.config.target import Target
from edgetune.tuning.fixed_blocks import block_note, block_sizes
from edgetune.tuning.genome import trace_text
from edgetune.tuning.sketches import elementwise, rowwise
from edgetune.tuning.sketches.anatomy import Anatomy, anatomy_of
from edgetune.tuning.sketches.decisions import Chosen
from edgetune.tuning.sketches.limits import footprint
from edgetune.tuning.sketches.liveness import Body, Reads, epilogue_operands, reads_of
from edgetune.tuning.sketches.register_tile import (
    MAX_ROWS,
    MAX_UNROLLED_WINDOW,
    Tile,
    Variant,
    reads_each_once,
    variants_of,
)
from edgetune.tuning.sketches.spaces import (
    cache_for_blocks,
    in_blocks,
    kept_bytes,
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
_WIDE = 256  # bits of vectors that use up a line of the cache in a step or two: weights are asked for before each
_AHEAD = 2  # operands of the next multiply-add, which are loaded while this one runs; vectors of a block go together


def fixed_trace(function: Any, target: Target, scratch_limit: int = 0, *, streamed: bool = False) -> tuple[str, str]:
    """Trace of the best-guess schedule of the direct form and a note for people.

    Scratch stays within `scratch_limit` bytes. `streamed`: the second cache keeps no weights from one run of the
    program to the next. Never fails: what no rule fits is the plain loop nest, and the note says so.
    """
    sch = untouched(function)
    if has_empty_tensor(function):
        return trace_text(sch.trace), "plain loops: a tensor is empty"
    found = best_guess(function, target, scratch_limit, streamed=streamed)
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
    choices = product(_divisors(rows, MAX_ROWS), _divisors(pixels, registers))
    return cheapest(anatomy, tile, variant, target, choices)[1]


def cheapest(
    anatomy: Anatomy, tile: Tile, variant: Variant, target: Target, pixels: Iterable[tuple[int, int]]
) -> tuple[float, dict[str, int]]:
    """Cycles for a multiply-add of one vector, and the sizes (as of `best_sizes`) of the cheapest tile.

    `pixels` are its rows, and pixels in each, to choose from. Infinity and no sizes where none fits.
    """
    columns = tile.anchor.spatial_extents[tile.pixel] if variant.fuse and tile.pixel is not None else 0
    registers = max(2, target.vector_registers)
    reads = reads_of(tile.anchor, tile.row, tile.pixel, tile.channel, tile.lanes)
    epilogue = epilogue_operands(anatomy, tile.after, tile.channel)
    best: tuple[tuple[float, int], dict[str, int]] | None = None
    for (row, pixel), vectors in product(pixels, _divisors(tile.vectors, registers)):
        size = row * pixel * vectors
        if size > registers:
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
        sizes[f"reduction{len(extents) - 1}"] = max(_divisors(extents[-1], min(_DEPTH, room)))
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


def preferred(tile: Tile, target: Target, *, streamed: bool) -> list[Variant]:
    """Variants, the most promising first: weights that fit the first cache stay inside, others outside.

    Where each channel has its own input, the inputs lie side by side as the channels do, and are read in that order.
    """
    many = tile.weight_bytes > target.l1_bytes // 2 and tile.lanes > 1 and not tile.per_channel
    cache = cache_for_blocks(target)
    passing = reads_each_once(tile) and 0 < cache < tile.passing_bytes
    by_rows = passing and tile.weight_bytes <= cache // 2  # each line that passes is touched once, for all channels
    first = "channel" if many and not by_rows else None

    first_bytes = target.l1_bytes if target.vector_bits >= _WIDE else 0
    variants = variants_of(tile, cache, kept_bytes(target, streamed=streamed), first_bytes)
    far = any(variant.prefetch for variant in variants) and not by_rows

    def rank(variant: Variant) -> tuple[bool, int, bool, bool, bool, bool, bool, bool]:
        inside = (variant.order[-2:-1] == ("channel",)) != (first == "channel")
        again = far and variant.order[0] != "channel"  # weights that no cache keeps would come for each row
        asks = variant.ahead != (by_rows and tile.added > 0)
        whole = (not variant.fuse, variant.pad_rows)
        return (not variant.onward, -variant.parts, *whole, again, inside, not variant.near, asks)

    return sorted(variants, key=rank)


def _divisors(extent: int, limit: int) -> list[int]:
    return [n for n in range(1, max(1, min(extent, limit)) + 1) if extent % n == 0]


def _text(sizes: dict[str, int], tile: Tile) -> str:
    return f"{sizes['row']}x{sizes['pixel']} pixels, {sizes['vectors']} vectors of {tile.lanes}"
