"""Channels last: a sum over windows of an image (N, C, H, W) as one over (N, H, W, C), between transpositions.

The results' channels o are an axis of the weights alone, so that lanes along o share each element of the image.
Padding and strides of w then lie outside of the lanes. Weights that are known are packed when the package is built;
others are transposed at run time, as are the image and the results. A sum keeps its order where its terms
take fewer cycles than turning one element (`Costs.move_turned`). What follows the sum is divided on its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from edgetune.affine.expressions import is_among
from edgetune.graph.element_type import is_floating
from edgetune.rewrites.reordered import OrderConflict, Orders, mentioned, place_of, written_by
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of
from edgetune.target.core import WIDEST, Core
from edgetune.tvm_types import IterVar, Node, Stmt, TvmBuffer

_FEWEST_CHANNELS = 4
_CHANNELS_FIRST = re.compile(r"_nc([dhw]+)")
"""The order of the axes in the name of one of TVM's convolutions, by which their loops are named."""


def with_channels_last(
    stages: Sequence[BlockStage], constants: Sequence[TvmBuffer], needed: Sequence[TvmBuffer], core: Core = WIDEST
) -> tuple[list[list[Stmt]], list[BlockStage]] | None:
    """The statements of kernels that compute `stages` with channels last, and the stages that are left for later.

    None where that does not help. `needed` are the buffers that others read or the caller gets.
    """
    found = _sum_of_windows(stages, core)
    if found is None:
        return None
    total, channel, image, weights = found
    place = stages.index(total)
    end = place + 1
    while (
        end < len(stages) and not is_among(written_by(stages[end - 1]), needed) and _follows(stages[end], stages, total)
    ):
        end += 1
    own, rest = stages[:end], list(stages[end:])
    read_later = [region.source for stage in rest for region in stage.reads()]
    if any(is_among(written_by(stage), [*needed, *read_later]) for stage in own[:-1]):
        return None
    permuted = Orders()
    depth = _depth(total, image, weights)
    try:
        if not is_among(weights.source, constants):
            _move_to_end(weights, total.spatial[channel], permuted)
        if depth is not None:
            _move_to_end(image, depth, permuted)
        for stage in own[place:]:
            permuted.add(written_by(stage), channel)
        for stage in reversed(own[:place]):
            axis = permuted.axis(written_by(stage))
            if axis is not None:
                _order_reads(stage, axis, permuted)
    except OrderConflict:
        return None
    written = [written_by(stage) for stage in own]
    before = [[permuted.copy(buffer)] for buffer in permuted.buffers() if not is_among(buffer, written)]
    return [*before, [_ordered(stage, permuted, depth) for stage in own], [permuted.copy_back(written[-1])]], rest


def _sum_of_windows(stages: Sequence[BlockStage], core: Core) -> tuple[BlockStage, int, Node, Node] | None:
    """The only reduction, the number of its axis of channels, and its reads of the image and of the weights."""
    reductions = [stage for stage in stages if stage.reduction]
    if len(reductions) != 1:
        return None
    total = reductions[0]
    if not all(stage.writes_its_axes() for stage in stages[: stages.index(total) + 1]):
        return None
    reads = total.reads()
    if len(reads) != 2 or prod(total.reduction_extents) < core.terms(core.move("turned")):
        return None
    if not all(is_floating(region.source) for region in (*reads, *total.block.writes)):
        return None
    for image, weights in (reads, reads[::-1]):
        moving = [n for n, axis in enumerate(total.spatial) if extent_of(axis) > 1 and mentioned(image, axis)]
        own = [n for n, axis in enumerate(total.spatial) if extent_of(axis) > 1 and mentioned(weights, axis)]
        if len(own) != 1 or own[0] in moving or not moving or moving[-1] != len(total.spatial) - 1:
            continue
        channel, lanes = own[0], total.spatial[-1]
        fitting = extent_of(total.spatial[channel]) >= _FEWEST_CHANNELS
        if (
            fitting
            and place_of(weights, total.spatial[channel]) is not None
            and _lies_across(image, lanes, len(moving), core)
        ):
            return total, channel, image, weights
    return None


def _lies_across(image: Node, lanes: IterVar, axes: int, core: Core) -> bool:
    """Whether vectors along `lanes` would read windows of the image, or rows that are no whole vectors."""
    windows = not any(item.min.same_as(lanes.var) for item in image.region)
    return windows or (axes > 1 and extent_of(lanes) % core.lanes != 0)


def _depth(total: BlockStage, image: Node, weights: Node) -> IterVar | None:
    """The reduction axis over the channels of the image; None if it has none."""
    both = (a for a in total.reduction if place_of(image, a) is not None and place_of(weights, a) is not None)
    return next(both, None)


def _follows(stage: BlockStage, stages: Sequence[BlockStage], total: BlockStage) -> bool:
    """Whether a stage has the elements of the sum in the same places, and reads no other tensor of that size."""
    if stage.reduction or stage.spatial_extents != total.spatial_extents or not stage.writes_its_axes():
        return False
    written = [written_by(one) for one in stages]
    for region in stage.reads():
        same = len(region.region) == len(stage.spatial) and all(
            item.min.same_as(axis.var) or extent_of(axis) == 1
            for item, axis in zip(region.region, stage.spatial, strict=True)
        )
        if is_among(region.source, written):
            if not same:
                return False
        elif sum(mentioned(region, axis) for axis in stage.spatial if extent_of(axis) > 1) > 1:
            return False
    return True


def _move_to_end(read: Node, axis: IterVar, permuted: Orders) -> None:
    """Order what a stage reads by `axis` last, unless it is."""
    place = place_of(read, axis)
    if place != len(read.region) - 1:
        permuted.add(read.source, place)


def _order_reads(stage: BlockStage, axis: int, permuted: Orders) -> None:
    """Order what a stage reads like the tensor that it writes, whose axis `axis` moves."""
    if stage.reduction:
        raise OrderConflict
    for region in stage.reads():
        if len(region.region) > 1 and mentioned(region, stage.spatial[axis]):
            permuted.add(region.source, place_of(region, stage.spatial[axis]))


def _ordered(stage: BlockStage, permuted: Orders, depth: IterVar | None) -> Stmt:
    """The stage in its new order; a sum over the channels of the image, which are `depth`, has them inside."""
    summed = sorted(stage.reduction, key=lambda one: depth is not None and one.var.same_as(depth.var))
    return permuted.stage(stage, _CHANNELS_FIRST.sub(r"_n\1c", stage.name), summed)
