"""Register tiles: a tile of pixels times vectors of channels is accumulated in registers over the whole reduction.

Applies to every kernel with one reduction whose last output axis is contiguous: convolutions (plain, grouped,
depthwise, 1D to 3D), matrix products, pooling, sums over leading axes. Loops from outside to inside: outer tiles
in the order of the variant, reductions, unrolled parts of reductions, rows, pixels, vectors, lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any, Literal

from tvm import DataType, sym, tirx
from tvm.s_tir import Schedule
from tvm.tirx import IndexMap

from edgetune.codegen.epilogue_lines import ANNOTATION as EPILOGUE_LINES
from edgetune.codegen.near_lines import ANNOTATION as NEAR_LINES
from edgetune.codegen.next_tile import ANNOTATION as NEXT_TILE
from edgetune.codegen.prefetching import ANNOTATION as PREFETCHED
from edgetune.codegen.reduction_blocks import ANNOTATION, near_divisor
from edgetune.tuning.sketches.anatomy import MOST_LANES, TILE_PIXELS, Anatomy, Stage, extent_of, mentions
from edgetune.tuning.sketches.decisions import Decisions

Outer = Literal["row", "pixel", "channel"]
MAX_UNROLLED_WINDOW = 7  # largest part of a window axis that is unrolled
MAX_UNROLLED_DEPTH = 8  # largest part of the last reduction axis that is unrolled
MAX_ROWS = 4
_BLOCK_VECTORS = 3  # vectors of channels in a tile, more or less
_SHORTEST_PART = 256  # steps; what storing and loading the sums costs is small against these
_FLOAT = 4  # bytes


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


@dataclass(frozen=True)
class Tile:
    """What is known of a kernel that can be tiled; axis numbers count the anchor's spatial axes."""

    anchor: Stage
    before: tuple[str, ...]  # stages that produce for the anchor, in order
    after: tuple[str, ...]  # stages behind it, in order; the last one writes the output
    pad: str | None  # the one of `before` that adds padding
    channel: int
    pixel: int | None
    row: int | None
    fusible: bool  # row and pixel may become one axis
    group: int  # neighbouring channels that read the same input: 1 for depthwise and pooling, all for a plain product
    lanes: int
    keeps_type: bool = True  # what is written has the type of the sums
    output_element: int = _FLOAT  # bytes
    overlaps: bool = False  # some places of the axes are the same element of what is written
    block: int = 0  # pixels of which those of a tile should be a divisor; 0: all there are
    input_bytes: int = 0  # of the operands that pixels do not share
    added: int = 0  # tensors of the size of the results that stages behind it read

    @property
    def per_channel(self) -> bool:
        """Whether each channel reads its own input, so that channels share no operand."""
        return self.group == 1

    @property
    def vectors(self) -> int:
        """Vectors of channels that read the same input."""
        return max(1, (self.anchor.spatial_extents[self.channel] if self.per_channel else self.group) // self.lanes)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the operand that all pixels share."""
        return _FLOAT * self.anchor.spatial_extents[self.channel] * prod(self.anchor.reduction_extents)

    @property
    def passing_bytes(self) -> int:
        """Bytes of the results, and of what is added to them: each is touched once."""
        return (1 + self.added) * self.output_element * prod(self.anchor.spatial_extents)


def find_tile(anatomy: Anatomy, native_lanes: int) -> Tile | None:
    """The register tile of a kernel, or None if it has none. `native_lanes`: elements of one vector register."""
    native_lanes = min(native_lanes, anatomy.told(MOST_LANES) or native_lanes)
    if len(anatomy.reductions) != 1 or len(anatomy.outputs) != 1:
        return None
    anchor = anatomy.reductions[0]
    if not anchor.spatial or not anchor.writes_its_axes():
        return None
    place = anatomy.stages.index(anchor)
    before, after = anatomy.stages[:place], anatomy.stages[place + 1 :]
    if (after and after[-1].name != anatomy.outputs[0]) or not all(_aligned(anchor, stage) for stage in after):
        return None
    pads = [stage for stage in before if _pads(stage)]
    channel = len(anchor.spatial) - 1
    if _strided(anatomy, anchor, anchor.spatial[channel]):
        return None
    wide = [i for i in range(channel) if anchor.spatial_extents[i] > 1 and not _batches(anchor, anchor.spatial[i])]
    pixel = wide[-1] if wide else None
    row = wide[-2] if len(wide) > 1 else None
    fusible = pixel is not None and row is not None and not pads and row + 1 == pixel and _linear(anchor, row, pixel)
    extent = anchor.spatial_extents[channel]
    group = _group(anatomy, anchor, anchor.spatial[channel], [anchor.spatial[i] for i in (row, pixel) if i is not None])
    return Tile(
        anchor,
        tuple(stage.name for stage in before),
        tuple(stage.name for stage in after),
        pads[0].name if len(pads) == 1 else None,
        channel,
        pixel,
        row,
        fusible,
        group,
        lanes_for(extent if group == 1 else gcd(extent, group), native_lanes),  # no vector straddles two groups
        _type_of(anchor) == _type_of(after[-1] if after else anchor),
        (DataType(_type_of(after[-1] if after else anchor)).bits + 7) // 8,
        not all(stage.writes_its_axes() for stage in after),
        anatomy.told(TILE_PIXELS) or 0,
        0 if pixel is None else _input_bytes(anchor, anchor.spatial[pixel]),
        _added(anatomy, anchor, after),
    )


def _input_bytes(anchor: Stage, pixel: Any) -> int:
    """Bytes of the tensors of which each pixel reads its own elements."""
    own = [read.source for read in anchor.reads() if any(mentions(item.min, pixel.var) for item in read.region)]
    return sum(prod(map(int, buffer.ty.shape)) * ((DataType(str(buffer.ty.dtype)).bits + 7) // 8) for buffer in own)


def _added(anatomy: Anatomy, anchor: Stage, after: Sequence[Stage]) -> int:
    """How often the stages `after` read a parameter of at least as many elements as `anchor` writes."""
    made = [write.source for stage in anatomy.stages for write in stage.block.writes]
    read = [region.source for stage in after for region in stage.reads()]
    elements = prod(anchor.spatial_extents)
    return sum(
        prod(map(int, buffer.ty.shape)) >= elements and not any(buffer.same_as(other) for other in made)
        for buffer in read
    )


def _type_of(stage: Stage) -> str:
    return str(stage.block.writes[0].source.ty.dtype)


def lanes_for(extent: int, native_lanes: int) -> int:
    """The largest power of two that divides `extent` and fits a vector register."""
    lanes = 1
    while extent % (2 * lanes) == 0 and 2 * lanes <= native_lanes:
        lanes *= 2
    return lanes


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


def reads_each_once(tile: Tile) -> bool:
    """Whether pixels read rows of their own, as those of a product of matrices do, and no window moves over them."""
    return not tile.per_channel and max(tile.anchor.reduction_extents) == prod(tile.anchor.reduction_extents)


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
    size = _FLOAT * (rows + columns)
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


def streams_weights(tile: Tile, kept_bytes: int) -> bool:
    """Whether the weights, each of which all pixels need, are more than the `kept_bytes` that stay in a cache."""
    return not tile.per_channel and tile.pixel is not None and tile.weight_bytes > kept_bytes


def _pad_choices(tile: Tile, order: tuple[Outer, ...]) -> tuple[bool, ...]:
    # Rows copied inside the channel loop would be copied once for each block of channels.
    return (False, True) if tile.pad is not None and order[0] != "channel" else (False,)


def apply_tile(sch: Schedule, tile: Tile, variant: Variant, decide: Decisions, registers: int) -> None:
    """Schedule `sch` (untouched so far) by the variant; sizes come from `decide`.

    Raises ScheduleError of TVM where the kernel does not allow it.
    """
    for name in tile.before:
        if not (variant.pad_rows and name == tile.pad):
            sch.compute_inline(sch.get_sblock(name))
    for name in tile.after[:-1]:
        sch.compute_inline(sch.get_sblock(name))
    anchor = sch.get_sblock(tile.anchor.name)
    if tile.after:
        epilogue = sch.get_sblock(tile.after[-1])
        sch.set_scope(anchor, 0, "local")
    else:
        epilogue = sch.cache_write(anchor, 0, "local")
    rank = len(tile.anchor.spatial)
    row, pixel, channel = tile.row, tile.pixel, tile.channel
    if variant.fuse:
        _fuse_axes(sch, tile, anchor, epilogue)
        rank, row, pixel, channel = rank - 1, None, tile.row, channel - 1
    _tile_loops(sch, tile, variant, decide, registers, (anchor, epilogue, rank, row, pixel, channel))


def _tile_loops(
    sch: Schedule, tile: Tile, variant: Variant, decide: Decisions, registers: int, where: tuple[Any, ...]
) -> None:
    anchor, epilogue, rank, row, pixel, channel = where
    loops = sch.get_loops(anchor)
    spatial, reduction = loops[:rank], loops[rank:]
    outer: dict[str, Any] = {}
    inner: list[Any] = []
    for name, axis, limit in (("row", row, MAX_ROWS), ("pixel", pixel, registers)):
        if axis is not None:
            outer[name], part = decide.tile(sch, name, spatial[axis], limit)
            inner.append(part)
    vectors, lanes = sch.split(spatial[channel], [None, tile.lanes])
    outer["channel"], vectors = decide.tile(sch, "vectors", vectors, registers)
    slow, unrolled = [], []
    for number, loop in enumerate(reduction):
        last = number == len(reduction) - 1
        limit = MAX_UNROLLED_DEPTH if last else MAX_UNROLLED_WINDOW
        big, small = decide.tile(sch, f"reduction{number}", loop, limit)
        slow.append(big)
        unrolled.append(small)
    others = [loop for i, loop in enumerate(spatial) if i not in {row, pixel, channel}]
    outers = [outer[name] for name in variant.order if name in outer]
    sch.reorder(*others, *outers, *slow, *unrolled, *inner, vectors, lanes)
    for loop in (*unrolled, *inner, vectors):
        sch.unroll(loop)
    if variant.pad_rows and tile.pad is not None:
        at = outer["row"] if row is not None else outer["pixel"]
        _copy_rows(sch, sch.get_sblock(tile.pad), at, tile.lanes)
    _finish_epilogue(sch, epilogue, outers[-1], rank, tile.lanes)
    sch.vectorize(lanes)
    long = max(range(len(slow)), key=lambda number: tile.anchor.reduction_extents[number])
    if variant.parts > 1:
        sch.annotate(slow[long], ANNOTATION, variant.parts)
    if variant.ahead:
        sch.annotate(slow[long], EPILOGUE_LINES, 1)
    if variant.prefetch:
        sch.annotate(outer["channel"], PREFETCHED, 1)
    if variant.onward and "pixel" in outer:
        sch.annotate(outer["pixel"], NEXT_TILE, 1)
    if variant.near:
        sch.annotate(outer["channel"], NEAR_LINES, 1)
    sch.decompose_reduction(anchor, slow[0])


def _finish_epilogue(sch: Schedule, epilogue: Any, at: Any, rank: int, lanes: int) -> None:
    sch.reverse_compute_at(epilogue, at, preserve_unit_loops=True)
    own = sch.get_loops(epilogue)[-rank:]
    vectors, lane = sch.split(own[-1], [None, lanes])
    for loop in (*own[:-1], vectors):
        sch.unroll(loop)
    sch.vectorize(lane)


def _copy_rows(sch: Schedule, pad: Any, at: Any, lanes: int) -> None:
    rank = len(sch.get(pad).iter_vars)
    sch.compute_at(pad, at, preserve_unit_loops=True)
    last = sch.get_loops(pad)[-rank:][-1]
    width = lanes_for(int(sch.get(last).extent.value), lanes)
    _, lane = sch.split(last, [None, width])
    sch.vectorize(lane)


def _fuse_axes(sch: Schedule, tile: Tile, anchor: Any, epilogue: Any) -> None:
    """Make row and pixel one axis of both blocks and of the buffer between them."""
    assert tile.row is not None  # noqa: S101 (a fusible tile has both axes)
    row, width = tile.row, tile.anchor.spatial_extents[tile.row + 1]

    def fused(*axes: Any) -> list[Any]:
        return [*axes[:row], axes[row] * width + axes[row + 1], *axes[row + 2 :]]

    axes = len(tile.anchor.spatial)
    dtype = str(tile.anchor.spatial[row].dom.extent.ty.dtype)
    ranks = (axes, axes + len(tile.anchor.reduction))
    short, long = (IndexMap.from_func(fused, ndim=rank, index_dtype=dtype) for rank in ranks)
    sch.transform_layout(anchor, ("write", 0), short)
    sch.transform_block_layout(anchor, long)
    sch.transform_block_layout(epilogue, short)


def _aligned(anchor: Stage, stage: Stage) -> bool:
    """Whether a stage behind the anchor has the anchor's spatial axes, and no more."""
    return not stage.reduction and stage.spatial_extents == anchor.spatial_extents and stage.writes_along_its_axes()


def _pads(stage: Stage) -> bool:
    """Whether a stage selects by position from a parameter (padding), which costs a test at each access if inlined."""
    return stage.branches()


def _strided(anatomy: Anatomy, anchor: Stage, axis: Any) -> bool:
    """Whether neighbours along `axis` lie apart in something the anchor reads, other than weights packed later."""
    packed = anatomy.weights()
    for region in anchor.reads():
        if any(region.source.same_as(weight) for weight in packed):
            continue
        if any(mentions(item.min, axis.var) for item in region.region[:-1]) and extent_of(axis) > 1:
            return True
    return False


def _batches(anchor: Stage, axis: Any) -> bool:
    """Whether everything that the anchor reads depends on `axis`: neighbours along it share no operand."""
    reads = anchor.reads()
    return len(reads) > 1 and all(any(mentions(item.min, axis.var) for item in r.region) for r in reads)


def _group(anatomy: Anatomy, anchor: Stage, axis: Any, pixels: list[Any]) -> int:
    """How many neighbours along `axis` read the same inputs, other than weights and what serves for all `pixels`.

    The right-hand side of a product of two run-time matrices is such: a row of it is loaded once for a whole tile.
    """
    packed = anatomy.weights()
    group = extent_of(axis)
    for region in anchor.reads():
        if not region.region or any(region.source.same_as(weight) for weight in packed):
            continue
        shared = pixels and not any(mentions(item.min, pixel.var) for item in region.region for pixel in pixels)
        last = region.region[-1].min
        if mentions(last, axis.var) and not shared:
            group = gcd(group, _shared(last, axis.var))
    return max(1, group)


def _shared(index: Any, variable: Any) -> int:
    """Largest n such that `index` depends on `variable` only by `variable // n`, as in grouped convolutions; else 1."""
    if isinstance(index, tirx.FloorDiv) and index.a.same_as(variable) and isinstance(index.b, tirx.IntImm):
        return int(index.b.value)
    if index.same_as(variable):
        return 1
    parts = [part for part in (getattr(index, "a", None), getattr(index, "b", None)) if part is not None]
    users = [part for part in parts if mentions(part, variable)]
    return gcd(*(_shared(part, variable) for part in users)) if users else 1


def _linear(anchor: Stage, row: int, pixel: int) -> bool:
    """Whether everything indexed by row and pixel is indexed by exactly these two axes, side by side and whole."""
    analyzer = sym.Analyzer()
    for axis in (*anchor.spatial, *anchor.reduction):
        if extent_of(axis) == 1:
            analyzer.bind(axis.var, axis.dom)
    axes = (anchor.spatial[row], anchor.spatial[pixel])
    for region in anchor.reads():
        used = [any(mentions(item.min, axis.var) for axis in axes) for item in region.region]
        if not any(used):
            continue
        first = used.index(True)
        if sum(used) != len(axes) or used[first + 1 : first + 2] != [True]:
            return False
        for place, axis in zip((first, first + 1), axes, strict=True):
            if not analyzer.simplify(region.region[place].min).same_as(axis.var):
                return False
            if int(region.source.shape[place]) != extent_of(axis):
                return False
    return True
