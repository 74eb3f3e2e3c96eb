"""Register tile analysis: which axes of a kernel are pixels and channels of a tile, and which operands they share.

Applies to every kernel with one reduction whose last output axis is contiguous: convolutions (plain, grouped,
depthwise, 1D to 3D), matrix products, pooling, sums over leading axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from tvm import ir, tirx

from edgetune.affine.domain import Domain
from edgetune.affine.expressions import expressions, is_among, is_moved, loads_in, mentions
from edgetune.codegen.dot_products import DOT_PRODUCTS, RESULTS_AT_A_TIME
from edgetune.graph.element_type import element_bytes
from edgetune.schedule.sketches.block_analysis import (
    COMPUTED_ONCE,
    MOST_LANES,
    TILE_PIXELS,
    BlockAnalysis,
    BlockStage,
    extent_of,
)
from edgetune.schedule.sketches.clipped_rows import has_clipped_rows
from edgetune.schedule.sketches.places import moves_in_parts
from edgetune.tvm_types import Expr, IterVar, Var

COPIED_COLUMNS = "edgetune.copied_columns"
"""Annotation of a block that copies columns of a run-time operand."""

COPIED_OPERAND = "edgetune.copied_operand"
"""Annotation of a block that copies data in the type that an instruction reads: it stays a tensor."""


@dataclass(frozen=True)
class Tile:
    """Facts about a kernel that can be tiled; axis numbers count the anchor's spatial axes."""

    anchor: BlockStage
    before: tuple[str, ...]  # stages before the anchor, in order
    after: tuple[str, ...]  # stages after the anchor, in order; the last one writes the output
    pad: str | None  # the stage in `before` that adds padding, or copies the data in another type
    channel: int
    pixel: int | None
    row: int | None
    fusible: bool  # row and pixel may become one axis
    group: int  # adjacent channels that read the same input: 1 for depthwise and pooling, all for a plain product
    lanes: int
    keeps_type: bool = True  # the output has the type of the sums
    output_element: int = 4  # bytes
    overlaps: bool = False  # several places of the axes are the same output element
    block: int = 0  # the pixels of a tile should divide this number; 0: all pixels
    input_bytes: int = 0  # bytes of the operands that pixels do not share
    added: int = 0  # tensors of the output's size that stages after the anchor read
    columns: int | None = None  # which read of the anchor is a run-time operand that all pixels share, as B in A B
    copy: str | None = None  # the stage in `before` that copies these columns
    crosses_lines: bool = False  # vectors of the operand that pixels share lie in two lines of the cache each
    products: int = 1  # of the last reduction axis, added to a lane by one instruction
    from_memory: bool = False  # an instruction, or a few, read the operands of a step from memory
    copies: bool = False  # `pad` is no choice: it stays a tensor
    uneven: bool = False  # `pad` chooses between neighbours along its last axis
    operations_after: int = 0  # on an element, in stages after the anchor
    tests_again: bool = False  # inlined padding is tested for each of several terms, of which it does not depend

    @property
    def per_channel(self) -> bool:
        """Whether each channel reads its own input, so that channels share no operand."""
        return self.group == 1

    @property
    def vectors(self) -> int:
        """Vectors of channels that read the same input."""
        return max(1, (self.anchor.spatial_extents[self.channel] if self.per_channel else self.group) // self.lanes)

    @property
    def operand_element(self) -> int:
        """Bytes of an element of the operands, of the widest of them."""
        return max((element_bytes(region.source) for region in self.anchor.reads()), default=self.output_element)

    @property
    def sum_element(self) -> int:
        """Bytes of an element of the sums."""
        return element_bytes(self.anchor.block.writes[0].source)

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps along each reduction axis: that of the products of one instruction is none."""
        extents = self.anchor.reduction_extents
        return extents if self.products == 1 else (*extents[:-1], 1)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the operand that all pixels share."""
        return self.operand_element * self.anchor.spatial_extents[self.channel] * prod(self.anchor.reduction_extents)

    @property
    def passing_bytes(self) -> int:
        """Bytes of the results and of the tensors added to them: each is accessed once."""
        return (1 + self.added) * self.output_element * prod(self.anchor.spatial_extents)


def find_tile(analysis: BlockAnalysis, native_lanes: int) -> Tile | None:
    """The register tile of a kernel; None if it has none. `native_lanes`: elements of one vector register."""
    native_lanes = analysis.attribute(RESULTS_AT_A_TIME) or min(
        native_lanes, analysis.attribute(MOST_LANES) or native_lanes
    )
    if len(analysis.reductions) != 1 or len(analysis.outputs) != 1:
        return None
    anchor = analysis.reductions[0]
    if not anchor.spatial or not anchor.writes_its_axes() or has_clipped_rows(anchor):
        return None
    place = analysis.stages.index(anchor)
    before, after = analysis.stages[:place], analysis.stages[place + 1 :]
    if any(is_place(stage) for stage in before):
        return None  # inlined, a row number would be computed for each element again
    if (after and after[-1].name != analysis.outputs[0]) or not all(_aligned(anchor, stage) for stage in after):
        return None
    # Padding selects by position from a parameter; inlined, each access costs a test.
    copied = [stage for stage in before if COPIED_OPERAND in stage.block.annotations]
    pads = copied or [stage for stage in before if stage.branches()]
    channel = len(anchor.spatial) - 1
    if _strided(analysis, anchor, anchor.spatial[channel]) or _pads_along(anchor, before, anchor.spatial[channel]):
        return None
    long = [i for i in range(channel) if anchor.spatial_extents[i] > 1]
    shared = [i for i in long if not _batches(anchor, anchor.spatial[i])]
    wide = shared or long[-1:]  # several sums that share nothing hide latency at least
    pixel = wide[-1] if wide else None
    row = wide[-2] if len(wide) > 1 else None
    fusible = pixel is not None and row is not None and not pads and row + 1 == pixel and _linear(anchor, row, pixel)
    extent = anchor.spatial_extents[channel]
    group = _group(
        analysis, anchor, anchor.spatial[channel], [anchor.spatial[i] for i in (row, pixel) if i is not None]
    )
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
        element_bytes((after[-1] if after else anchor).block.writes[0].source),
        not all(stage.writes_its_axes() for stage in after),
        analysis.attribute(TILE_PIXELS) or 0,
        0 if pixel is None else _input_bytes(anchor, anchor.spatial[pixel]),
        _added(analysis, anchor, after),
        *_columns(analysis, anchor, None if pixel is None else anchor.spatial[pixel]),
        products=analysis.attribute(DOT_PRODUCTS) or 1,
        from_memory=bool(analysis.attribute(DOT_PRODUCTS) or analysis.attribute(RESULTS_AT_A_TIME)),
        copies=bool(copied),
        uneven=any(
            stage.spatial and stage.branches_along(stage.spatial[-1]) and _only_moves(stage, before) for stage in pads
        ),
        operations_after=sum(map(_operations, after)),
        tests_again=len(pads) == 1 and not copied and _tests_again(anchor, pads[0]),
    )


def _operations(stage: BlockStage) -> int:
    """Operations on an element of a stage."""
    store = stage.block.body
    if not isinstance(store, tirx.BufferStore):
        return 0
    return sum(isinstance(one, _OPERATIONS) for one in expressions(store.value))


_OPERATIONS = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Min, tirx.Max, tirx.Cast, ir.Call)


def _tests_again(anchor: BlockStage, pad: BlockStage) -> bool:
    """Whether some axis of terms does not decide where padding is, as channels beside rows and columns of a window."""
    written = pad.block.writes[0].source
    tested = [
        item.min
        for region in anchor.reads()
        if region.source.same_as(written)
        for item, axis in zip(region.region, pad.spatial, strict=True)
        if pad.branches_along(axis)
    ]
    decide = [any(mentions(index, axis.var) for index in tested) for axis in anchor.reduction if extent_of(axis) > 1]
    return any(decide) and not all(decide)


def _only_moves(stage: BlockStage, before: Sequence[BlockStage]) -> bool:
    """Whether a stage and those `before` it that it reads choose elements, and compute none."""
    store = stage.block.body
    if not isinstance(store, tirx.BufferStore) or not is_moved(store.value):
        return False
    read = [load.source for load in loads_in([store.value])]
    return all(_only_moves(one, before) for one in before if is_among(one.block.writes[0].source, read))


def is_place(stage: BlockStage) -> bool:
    """Whether a stage computes numbers of elements once, which others read."""
    return COMPUTED_ONCE in stage.block.annotations and _type_of(stage).startswith("int")


def _input_bytes(anchor: BlockStage, pixel: IterVar) -> int:
    """Bytes of the tensors from which each pixel reads its own elements."""
    own = [read.source for read in anchor.reads() if any(mentions(item.min, pixel.var) for item in read.region)]
    return sum(prod(map(int, buffer.ty.shape)) * element_bytes(buffer) for buffer in own)


def _added(analysis: BlockAnalysis, anchor: BlockStage, after: Sequence[BlockStage]) -> int:
    """Number of reads by stages `after` of a parameter with at least as many elements as `anchor` writes."""
    made = [write.source for stage in analysis.stages for write in stage.block.writes]
    read = [region.source for stage in after for region in stage.reads()]
    elements = prod(anchor.spatial_extents)
    return sum(
        prod(map(int, buffer.ty.shape)) >= elements and not any(buffer.same_as(other) for other in made)
        for buffer in read
    )


def _columns(analysis: BlockAnalysis, anchor: BlockStage, pixel: IterVar | None) -> tuple[int | None, str | None]:
    """The one read of a run-time operand that has channels last and does not depend on pixels, and who copies it."""
    if pixel is None:
        return None, None
    channel = anchor.spatial[-1].var
    copies = {stage.name: stage for stage in analysis.stages if COPIED_COLUMNS in stage.block.annotations}
    made = [w.source for stage in analysis.stages if stage.name not in copies for w in stage.block.writes]
    found = [
        number
        for number, region in enumerate(anchor.block.reads)
        if not any(region.source.same_as(buffer) for buffer in (*analysis.weights(), *made))
        and len(region.region) > 1
        and region.region[-1].min.same_as(channel)
        and not any(mentions(item.min, pixel.var) for item in region.region)
    ]
    if len(found) != 1:
        return None, None
    source = anchor.block.reads[found[0]].source
    by = (name for name, stage in copies.items() if stage.block.writes[0].source.same_as(source))
    return found[0], next(by, None)


def _type_of(stage: BlockStage) -> str:
    return str(stage.block.writes[0].source.ty.dtype)


def lanes_for(extent: int, native_lanes: int) -> int:
    """The largest power of two that divides `extent` and fits a vector register."""
    lanes = 1
    while extent % (2 * lanes) == 0 and 2 * lanes <= native_lanes:
        lanes *= 2
    return lanes


def reads_each_once(tile: Tile) -> bool:
    """Whether pixels read their own rows, as in a matrix product, so that no window moves over them."""
    return not tile.per_channel and max(tile.anchor.reduction_extents) == prod(tile.anchor.reduction_extents)


def has_windows(tile: Tile) -> bool:
    """Whether neighbouring pixels read some of the same elements."""
    if tile.pixel is None:
        return False
    pixel = tile.anchor.spatial[tile.pixel].var
    own = [item.min for read in tile.anchor.reads() for item in read.region if mentions(item.min, pixel)]
    return any(mentions(index, axis.var) for index in own for axis in tile.anchor.reduction if extent_of(axis) > 1)


def streams_weights(tile: Tile, kept_bytes: int) -> bool:
    """Whether the weights, each of which all pixels need, exceed the `kept_bytes` that stay in a cache."""
    return not tile.per_channel and tile.pixel is not None and tile.weight_bytes > kept_bytes


def _aligned(anchor: BlockStage, stage: BlockStage) -> bool:
    """Whether a stage after the anchor has exactly the anchor's spatial axes."""
    return not stage.reduction and stage.spatial_extents == anchor.spatial_extents and stage.writes_along_its_axes()


def _strided(analysis: BlockAnalysis, anchor: BlockStage, axis: IterVar) -> bool:
    """Whether adjacent elements along `axis` are not contiguous in a read of the anchor, except packed weights."""
    packed = analysis.weights()
    for region in anchor.reads():
        if any(region.source.same_as(weight) for weight in packed):
            continue
        if any(mentions(item.min, axis.var) for item in region.region[:-1]) and extent_of(axis) > 1:
            return True
    return False


def _pads_along(anchor: BlockStage, pads: Sequence[BlockStage], axis: IterVar) -> bool:
    """Whether neighbours along `axis` read neighbours of a stage in `pads`, only some of which may be padding.

    Or only some of which may be neighbours in what that stage reads.
    """
    for pad in pads:
        written = pad.block.writes[0].source
        regions = [region.region for region in anchor.reads() if region.source.same_as(written)]
        along = any(mentions(region[-1].min, axis.var) for region in regions if region)
        if along and pad.spatial and (pad.branches_along(pad.spatial[-1]) or moves_in_parts(pad)):
            return True
    return False


def _batches(anchor: BlockStage, axis: IterVar) -> bool:
    """Whether every tensor that the anchor reads depends on `axis`, so that its steps share no operand."""
    reads = anchor.reads()
    return len(reads) > 1 and all(any(mentions(item.min, axis.var) for item in r.region) for r in reads)


def _group(analysis: BlockAnalysis, anchor: BlockStage, axis: IterVar, pixels: list[IterVar]) -> int:
    """Number of adjacent steps along `axis` with the same inputs, except weights and inputs that all `pixels` share.

    The right-hand operand of a product of two run-time matrices is such an input: one row is loaded once per tile.
    """
    packed = analysis.weights()
    group = extent_of(axis)
    for region in anchor.reads():
        if not region.region or any(region.source.same_as(weight) for weight in packed):
            continue
        shared = pixels and not any(mentions(item.min, pixel.var) for item in region.region for pixel in pixels)
        last = region.region[-1].min
        if mentions(last, axis.var) and not shared:
            group = gcd(group, _shared(last, axis.var))
    return max(1, group)


def _shared(index: Expr, variable: Var) -> int:
    """Largest n such that `index` depends on `variable` only by `variable // n`, as in grouped convolutions; else 1."""
    if isinstance(index, tirx.FloorDiv) and index.a.same_as(variable) and isinstance(index.b, tirx.IntImm):
        return int(index.b.value)
    if index.same_as(variable):
        return 1
    parts = [part for part in (getattr(index, "a", None), getattr(index, "b", None)) if part is not None]
    users = [part for part in parts if mentions(part, variable)]
    return gcd(*(_shared(part, variable) for part in users)) if users else 1


def _linear(anchor: BlockStage, row: int, pixel: int) -> bool:
    """Whether every read with row and pixel has exactly these two axes as adjacent, complete indices."""
    analyzer = Domain.of_block(one for one in (*anchor.spatial, *anchor.reduction) if extent_of(one) == 1).analyzer
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
