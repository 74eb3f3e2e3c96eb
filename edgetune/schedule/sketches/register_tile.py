"""Register tiling: accumulates a tile of pixels times vectors of channels in registers over the whole reduction.

Loops from outside to inside: outer tiles in the order of the variant, reductions, unrolled parts of reductions, rows,
pixels, vectors, lanes, and the products that one instruction adds to a lane. Strips of a row have their own loop around
the tiles of pixels that are in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from tvm.s_tir import Schedule
from tvm.tirx import IndexMap

from edgetune.codegen.prefetch.inputs import ANNOTATION as INPUTS
from edgetune.codegen.prefetch.outputs import ANNOTATION as OUTPUTS
from edgetune.codegen.prefetch.weights_l1 import ANNOTATION as WEIGHTS_L1
from edgetune.codegen.prefetch.weights_l2 import ANNOTATION as WEIGHTS_L2
from edgetune.codegen.reduction_blocks import ANNOTATION as PARTS
from edgetune.schedule.sketches.block_analysis import loop_extent
from edgetune.schedule.sketches.decisions import Decisions
from edgetune.schedule.sketches.tile import Tile, lanes_for
from edgetune.schedule.sketches.variants import Variant
from edgetune.tvm_types import Expr, LoopRV, SBlockRV

MAX_UNROLLED_WINDOW = 7  # largest part of a window axis that is unrolled
MAX_UNROLLED_DEPTH = 8  # largest part of the last reduction axis that is unrolled
MAX_ROWS = 4


def apply_tile(sch: Schedule, tile: Tile, variant: Variant, decide: Decisions, registers: int) -> None:
    """Schedule `sch` (untouched so far) by the variant; sizes come from `decide`.

    Raises TVM's ScheduleError if the kernel does not allow it.
    """
    for name in tile.before:
        if not (variant.pad_rows and name == tile.pad) and not (variant.copy_columns and name == tile.copy):
            sch.compute_inline(sch.get_sblock(name))
    for name in tile.after[:-1]:
        sch.compute_inline(sch.get_sblock(name))
    anchor = sch.get_sblock(tile.anchor.name)
    if tile.after:
        epilogue = sch.get_sblock(tile.after[-1])
        sch.set_scope(anchor, 0, "local")
    else:
        epilogue = sch.cache_write(anchor, 0, "local")
    copied = None
    if variant.copy_columns and tile.columns is not None:
        copied = sch.get_sblock(tile.copy) if tile.copy else sch.cache_read(anchor, tile.columns, "global")
    rank = len(tile.anchor.spatial)
    row, pixel, channel = tile.row, tile.pixel, tile.channel
    if variant.fuse:
        _fuse_axes(sch, tile, anchor, epilogue)
        rank, row, pixel, channel = rank - 1, None, tile.row, channel - 1
    blocks = _tile_loops(sch, tile, variant, decide, registers, (anchor, epilogue, rank, row, pixel, channel))
    if copied is not None:
        _copy_lines(sch, copied, blocks, tile.lanes)


def _tile_loops(
    sch: Schedule,
    tile: Tile,
    variant: Variant,
    decide: Decisions,
    registers: int,
    where: tuple[SBlockRV, SBlockRV, int, int | None, int | None, int],
) -> LoopRV:
    """Returns the loop over blocks of channels."""
    anchor, epilogue, rank, row, pixel, channel = where
    loops = list(sch.get_loops(anchor))
    spatial, reduction = loops[:rank], loops[rank:]
    outer: dict[str, LoopRV] = {}
    inner: list[LoopRV] = []
    for name, axis, limit in (("row", row, MAX_ROWS), ("pixel", pixel, registers)):
        if axis is not None:
            outer[name], part = decide.tile(sch, name, spatial[axis], limit)
            inner.append(part)
    if "strip" in variant.order:
        tiles = outer["pixel"]
        outer["strip"], outer["pixel"] = decide.tile(sch, "strip", tiles, loop_extent(sch, tiles))
    vectors, lanes = sch.split(spatial[channel], [None, tile.lanes])
    outer["channel"], vectors = decide.tile(sch, "vectors", vectors, registers)
    products = [reduction.pop()] if tile.products > 1 else []
    slow, unrolled = [], []
    for number, loop in enumerate(reduction):
        last = number == len(reduction) - 1
        limit = MAX_UNROLLED_DEPTH if last else MAX_UNROLLED_WINDOW
        big, small = decide.tile(sch, f"reduction{number}", loop, limit)
        slow.append(big)
        unrolled.append(small)
    others = [loop for i, loop in enumerate(spatial) if i not in {row, pixel, channel}]
    outers = [outer[name] for name in variant.order if name in outer]
    sch.reorder(*others, *outers, *slow, *unrolled, *inner, vectors, lanes, *products)
    for loop in (*unrolled, *inner, vectors, *products):
        sch.unroll(loop)
    if variant.pad_rows and tile.pad is not None:
        narrow = tile.sum_element // tile.operand_element if tile.products > 1 else 1
        width = 1 if tile.uneven else max(narrow * tile.lanes, tile.products)
        _copy_lines(sch, sch.get_sblock(tile.pad), _loop_of_copy(sch, tile, variant, outer), width)
    _finish_epilogue(sch, epilogue, outers[-1], rank, tile.lanes)
    sch.vectorize(lanes)
    long = max(range(len(slow)), key=lambda number: tile.steps[number])
    if variant.parts > 1:
        sch.annotate(slow[long], PARTS, variant.parts)
    if variant.prefetch_outputs:
        sch.annotate(slow[long], OUTPUTS, 1)
    if variant.prefetch_weights_l2:
        sch.annotate(outer["channel"], WEIGHTS_L2, 1)
    if variant.prefetch_inputs and "pixel" in outer:
        sch.annotate(outer["pixel"], INPUTS, 1)
    if variant.prefetch_weights_l1:
        sch.annotate(outer["channel"], WEIGHTS_L1, 1)
    sch.decompose_reduction(anchor, slow[0])
    return outer["channel"]


def _loop_of_copy(sch: Schedule, tile: Tile, variant: Variant, outer: Mapping[str, LoopRV]) -> LoopRV | None:
    """The loop in which what pixels read is copied; None: all of it at once.

    It is the one over strips, if rows are divided into these, else the one over rows: rows overlap, and so do the tiles
    of pixels in a row. Where each channel reads its own input, the loop over channels copies nothing again, and what it
    copies at a time is smaller.
    """
    if "strip" in outer:
        return outer["strip"]
    if not tile.per_channel:
        rows = [outer[name] for name in ("row", "pixel") if name in outer and variant.order[0] != "channel"]
        return next(iter(rows), None)
    names = [name for name in variant.order if name in outer and loop_extent(sch, outer[name]) > 1]
    outside = [*takewhile(lambda name: name != "pixel", names)]
    return outer[next(iter(outside[-1:] or names), variant.order[0])]


def _finish_epilogue(sch: Schedule, epilogue: SBlockRV, at: LoopRV, rank: int, lanes: int) -> None:
    try:
        sch.reverse_compute_at(epilogue, at, preserve_unit_loops=True)
    except ValueError as error:  # for indices that TVM cannot solve, such as those of a place held within its row
        raise RuntimeError(str(error)) from error
    own = sch.get_loops(epilogue)[-rank:]
    vectors, lane = sch.split(own[-1], [None, lanes])
    for loop in (*own[:-1], vectors):
        sch.unroll(loop)
    sch.vectorize(lane)


def _copy_lines(sch: Schedule, copy: SBlockRV, at: LoopRV | None, lanes: int) -> None:
    """Copy what the loop `at` needs in each iteration, or all at once. Of one lane, loops are divided when printed."""
    rank = len(sch.get(copy).iter_vars)
    if at is not None:
        sch.compute_at(copy, at, preserve_unit_loops=True)
    if lanes == 1:
        return
    last = sch.get_loops(copy)[-rank:][-1]
    width = lanes_for(loop_extent(sch, last), lanes)
    _, lane = sch.split(last, [None, width])
    sch.vectorize(lane)


def _fuse_axes(sch: Schedule, tile: Tile, anchor: SBlockRV, epilogue: SBlockRV) -> None:
    """Make row and pixel one axis of both blocks and of the buffer between them."""
    assert tile.row is not None  # noqa: S101 (a fusible tile has both axes)
    row, width = tile.row, tile.anchor.spatial_extents[tile.row + 1]

    def fused(*axes: Expr) -> list[Expr]:
        return [*axes[:row], axes[row] * width + axes[row + 1], *axes[row + 2 :]]

    axes = len(tile.anchor.spatial)
    dtype = str(tile.anchor.spatial[row].dom.extent.ty.dtype)
    ranks = (axes, axes + len(tile.anchor.reduction))
    short, long = (IndexMap.from_func(fused, ndim=rank, index_dtype=dtype) for rank in ranks)
    sch.transform_layout(anchor, ("write", 0), short)
    sch.transform_block_layout(anchor, long)
    sch.transform_block_layout(epilogue, short)
