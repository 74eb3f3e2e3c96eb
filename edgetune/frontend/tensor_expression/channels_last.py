"""Channels last: a sum over windows of an image (N, C, H, W) as one over (N, H, W, C), between transpositions.

The results' channels o are an axis of the weights alone, so that lanes along o share each element of the image.
Padding and strides of w then lie outside of the lanes. Weights that are known are packed when the package is built;
others are transposed at run time, as are the image and the results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.graph.tvm_types import BufferLoad, BufferStore, Expr, IterVar, Node, Stmt, TvmBuffer
from edgetune.schedule.algorithms.overlapped_tail.function import loops_around, point_region
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, mentions

_LEAST_DEPTH = 32
"""Terms of a sum from which on the transpositions, about two cycles for each element, take little of the time."""

_WIDEST = 16
"""Lanes of the widest vectors: rows of whole vectors without windows need no other order."""

_FEWEST_CHANNELS = 4
_CHANNELS_FIRST = re.compile(r"_nc([dhw]+)")
"""The order of the axes in the name of one of TVM's convolutions, by which their loops are named."""


class _Conflict(Exception):  # noqa: N818 - no error: the expression keeps its order
    """A tensor is wanted in two orders."""


def with_channels_last(
    stages: Sequence[BlockStage], constants: Sequence[TvmBuffer], needed: Sequence[TvmBuffer]
) -> tuple[list[list[Stmt]], list[BlockStage]] | None:
    """The statements of kernels that compute `stages` with channels last, and the stages that are left for later.

    None where that does not help. `needed` are the buffers that others read or the caller gets.
    """
    found = _sum_of_windows(stages)
    if found is None:
        return None
    total, channel, image, weights = found
    place = stages.index(total)
    end = place + 1
    while end < len(stages) and not _same(_written(stages[end - 1]), needed) and _follows(stages[end], stages, total):
        end += 1
    own, rest = stages[:end], list(stages[end:])
    read_later = [region.source for stage in rest for region in stage.reads()]
    if any(_same(_written(stage), [*needed, *read_later]) for stage in own[:-1]):
        return None
    permuted = _Orders()
    depth = _depth(total, image, weights)
    try:
        if not _same(weights.source, constants):
            permuted.add(weights.source, _place(weights, total.spatial[channel]))
        if depth is not None:
            permuted.add(image.source, _place(image, depth))
        for stage in own[place:]:
            permuted.add(_written(stage), channel)
        for stage in reversed(own[:place]):
            axis = permuted.axis(_written(stage))
            if axis is not None:
                _order_reads(stage, axis, permuted)
    except _Conflict:
        return None
    written = [_written(stage) for stage in own]
    before = [[_copied(buffer, permuted, back=False)] for buffer in permuted.buffers() if not _same(buffer, written)]
    after = [_copied(written[-1], permuted, back=True)]
    return [*before, [_moved(stage, permuted, depth) for stage in own], after], rest


def _written(stage: BlockStage) -> TvmBuffer:
    return stage.block.writes[0].source


def _sum_of_windows(stages: Sequence[BlockStage]) -> tuple[BlockStage, int, Node, Node] | None:
    """The only reduction, the number of its axis of channels, and its reads of the image and of the weights."""
    reductions = [stage for stage in stages if stage.reduction]
    if len(reductions) != 1:
        return None
    total = reductions[0]
    if not all(stage.writes_its_axes() for stage in stages[: stages.index(total) + 1]):
        return None
    reads = total.reads()
    if len(reads) != 2 or prod(total.reduction_extents) < _LEAST_DEPTH:
        return None
    if any(str(region.source.ty.dtype) != "float32" for region in (*reads, *total.block.writes)):
        return None
    for image, weights in (reads, reads[::-1]):
        moving = [n for n, axis in enumerate(total.spatial) if extent_of(axis) > 1 and _mentioned(image, axis)]
        own = [n for n, axis in enumerate(total.spatial) if extent_of(axis) > 1 and _mentioned(weights, axis)]
        if len(own) != 1 or own[0] in moving or not moving or moving[-1] != len(total.spatial) - 1:
            continue
        channel, lanes = own[0], total.spatial[-1]
        fitting = extent_of(total.spatial[channel]) >= _FEWEST_CHANNELS
        if fitting and _place(weights, total.spatial[channel]) is not None and _lies_across(image, lanes, len(moving)):
            return total, channel, image, weights
    return None


def _same(buffer: TvmBuffer, buffers: Sequence[TvmBuffer]) -> bool:
    return any(buffer.same_as(one) for one in buffers)


def _lies_across(image: Node, lanes: IterVar, axes: int) -> bool:
    """Whether vectors along `lanes` would read windows of the image, or rows that are no whole vectors."""
    windows = not any(item.min.same_as(lanes.var) for item in image.region)
    return windows or (axes > 1 and extent_of(lanes) % _WIDEST != 0)


def _mentioned(region: Node, axis: IterVar) -> bool:
    return any(mentions(item.min, axis.var) for item in region.region)


def _place(region: Node, axis: IterVar) -> int | None:
    """The only index of a read that depends on `axis`, if it is exactly that; None otherwise."""
    found = [n for n, item in enumerate(region.region) if mentions(item.min, axis.var)]
    return found[0] if len(found) == 1 and region.region[found[0]].min.same_as(axis.var) else None


def _depth(total: BlockStage, image: Node, weights: Node) -> IterVar | None:
    """The reduction axis over the channels of the image; None if it has none."""
    both = (a for a in total.reduction if _place(image, a) is not None and _place(weights, a) is not None)
    return next(both, None)


def _follows(stage: BlockStage, stages: Sequence[BlockStage], total: BlockStage) -> bool:
    """Whether a stage has the elements of the sum in the same places, and reads no other tensor of that size."""
    if stage.reduction or stage.spatial_extents != total.spatial_extents or not stage.writes_its_axes():
        return False
    written = [_written(one) for one in stages]
    for region in stage.reads():
        same = len(region.region) == len(stage.spatial) and all(
            item.min.same_as(axis.var) or extent_of(axis) == 1
            for item, axis in zip(region.region, stage.spatial, strict=True)
        )
        if _same(region.source, written):
            if not same:
                return False
        elif sum(_mentioned(region, axis) for axis in stage.spatial if extent_of(axis) > 1) > 1:
            return False
    return True


class _Orders:
    """Tensors one of whose axes moves to the end."""

    def __init__(self) -> None:
        self._found: list[tuple[TvmBuffer, int, TvmBuffer]] = []

    def add(self, buffer: TvmBuffer, axis: int | None) -> None:
        """Move `axis` of `buffer` to the end; raises _Conflict where another one moves already."""
        if axis is None:
            raise _Conflict
        known = self.axis(buffer)
        if known is None:
            shape = _to_end(list(buffer.ty.shape), axis)
            moved = tirx.decl_buffer(shape, str(buffer.ty.dtype), f"{buffer.name}_last")
            self._found.append((buffer, axis, moved))
        elif known != axis:
            raise _Conflict

    def axis(self, buffer: TvmBuffer) -> int | None:
        """The axis of `buffer` that moves; None if none does."""
        return next((axis for old, axis, _ in self._found if old.same_as(buffer)), None)

    def moved(self, buffer: TvmBuffer) -> TvmBuffer:
        """The tensor that stands for `buffer`, which is itself where no axis moves."""
        return next((new for old, _, new in self._found if old.same_as(buffer)), buffer)

    def indices(self, buffer: TvmBuffer, indices: Sequence[Node]) -> list[Node]:
        """Indices, ranges or extents of `buffer` in the order of its `moved` tensor."""
        axis = self.axis(buffer)
        return list(indices) if axis is None else _to_end(list(indices), axis)

    def buffers(self) -> Iterator[TvmBuffer]:
        """All buffers with an axis that moves."""
        return (old for old, _, _ in self._found)


def _to_end(items: list[Node], axis: int) -> list[Node]:
    return [*items[:axis], *items[axis + 1 :], items[axis]]


def _order_reads(stage: BlockStage, axis: int, permuted: _Orders) -> None:
    """Order what a stage reads like the tensor that it writes, whose axis `axis` moves."""
    if stage.reduction:
        raise _Conflict
    for region in stage.reads():
        if len(region.region) > 1 and _mentioned(region, stage.spatial[axis]):
            permuted.add(region.source, _place(region, stage.spatial[axis]))


def _moved(stage: BlockStage, permuted: _Orders, depth: IterVar | None) -> Stmt:
    """The stage with its tensors in their new order, and its loops in that of the tensor that it writes.

    A sum over the channels of the image, which are `depth`, has them inside its window.
    """

    def load(node: BufferLoad) -> BufferLoad:
        return tirx.BufferLoad(permuted.moved(node.source), permuted.indices(node.source, node.indices))

    def store(node: BufferStore) -> BufferStore:
        return tirx.BufferStore(permuted.moved(node.buffer), node.value, permuted.indices(node.buffer, node.indices))

    def changed(node: Node) -> Node:
        return tvm_ffi.structural_map(node, [(ir.TensorLoad, load), (tirx.BufferStore, store)])

    def region(item: Node) -> Node:
        return tirx.BufferRegion(permuted.moved(item.source), permuted.indices(item.source, item.region))

    block = stage.block
    reads, writes = ([region(item) for item in regions] for regions in (block.reads, block.writes))
    init = None if block.init is None else changed(block.init)
    made = s_tir.SBlock([], reads, writes, "", changed(block.body), init)
    axis = permuted.axis(block.writes[0].source)
    spatial = list(stage.spatial) if axis is None else _to_end(list(stage.spatial), axis)
    summed = sorted(stage.reduction, key=lambda one: depth is not None and one.var.same_as(depth.var))
    return _nest(_CHANNELS_FIRST.sub(r"_n\1c", stage.name), [*spatial, *summed], made)


def _nest(name: str, axes: Sequence[IterVar], block: Node) -> Stmt:
    kinds = [int(axis.iter_type) for axis in axes]
    return loops_around(name, [axis.var for axis in axes], [extent_of(axis) for axis in axes], kinds, block)


def _copied(buffer: TvmBuffer, permuted: _Orders, *, back: bool) -> Stmt:
    """A stage that copies a tensor to its new order, or back."""
    other = permuted.moved(buffer)
    variables: list[Expr] = [tirx.Var(f"v_ax{place}", "int32") for place in range(len(buffer.ty.shape))]
    moved = permuted.indices(buffer, variables)
    source, target = ((other, moved), (buffer, variables)) if back else ((buffer, variables), (other, moved))
    body = tirx.BufferStore(target[0], tirx.BufferLoad(*source), target[1])
    block = s_tir.SBlock([], [point_region(*source)], [point_region(*target)], "", body)
    extents = [int(extent) for extent in target[0].ty.shape]
    name = f"{buffer.name}_first" if back else f"{buffer.name}_last"
    return loops_around(name, target[1], extents, [0] * len(extents), block)
