"""Overlapped-tail algorithms of a kernel: whole tiles of pixels and whole vectors of channels.

They apply if the number of pixels is not a multiple of a good tile, or the number of channels not a multiple of the
vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from edgetune.affine.expressions import mentions
from edgetune.graph.long_sums import split_all_long_sums
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.overlapped_tail.attention import attention_rows, whole_attention_algorithm
from edgetune.schedule.algorithms.overlapped_tail.function import Stretching, reads_in_step, weight_axis
from edgetune.schedule.algorithms.overlapped_tail.overlap import Overlap
from edgetune.schedule.algorithms.schedule_text import size_of
from edgetune.schedule.rules.column_blocks import MOST_VECTORS
from edgetune.schedule.rules.factored_reduction import find_factored
from edgetune.schedule.rules.tiling import FEWEST_LANES
from edgetune.schedule.sketches.block_analysis import (
    MOST_LANES,
    TILE_PIXELS,
    BlockAnalysis,
    BlockStage,
    analyse_blocks,
    lanes_in,
)
from edgetune.schedule.sketches.tile import Tile, find_tile
from edgetune.schedule.sketches.variants import copies_columns
from edgetune.tvm_types import PrimFunc

_ANY_LANES = 64
_REPEATED = 0.02  # of the columns


def whole_tiles_algorithm(function: PrimFunc, name: str) -> Algorithm | None:
    """The algorithm called `name` ("tiles_" and the pixels of a tile) of an unscheduled PrimFunc.

    Pixels are those of a row, or of all rows if these are adjacent in every tensor that the kernel reads and writes, or
    the rows of a matrix. None if there are fewer pixels than a tile has, or whole tiles already.
    """
    if attention_rows(function) is not None:
        return whole_attention_algorithm(function, name)
    analysis = analyse_blocks(function)
    tile = find_tile(analysis, _ANY_LANES) if analysis is not None else None
    if analysis is None or tile is None or tile.overlaps or not (axes := pixel_axes(tile)):
        return None
    found = _tiles_of(analysis, tile, axes, name)
    return None if found is None else Algorithm(name, split_all_long_sums(found.function))


def whole_tiles_of_vectors_algorithm(function: PrimFunc, name: str) -> Algorithm | None:
    """The algorithm called `name`, such as "vectors_256+tiles_6": whole vectors of channels in whole tiles of pixels.

    None if the function does not have one of the two algorithms.
    """
    if attention_rows(function) is not None:
        return whole_attention_algorithm(function, name)
    return whole_tiles_of(whole_vectors_algorithm(function, name.partition("+")[0]), name)


def whole_tiles_of(first: Algorithm | None, name: str) -> Algorithm | None:
    """The algorithm called `name` of pixels in whole tiles, with the function of the algorithm `first`.

    `name` ends in that of the tiles, such as "+tiles_6". None if `first` is None or has no such tiles.
    """
    analysis = analyse_blocks(first.function) if first is not None else None
    tile = find_tile(analysis, _ANY_LANES) if analysis is not None else None
    if first is None or analysis is None or tile is None or not (axes := pixel_axes(tile)):
        return None
    found = _tiles_of(analysis, tile, axes, name.rpartition("+")[2])
    return None if found is None else Algorithm(name, found.function, first.transforms)


def _tiles_of(analysis: BlockAnalysis, tile: Tile, axes: list[int], name: str) -> Algorithm | None:
    pixels = prod(tile.anchor.spatial_extents[axis] for axis in axes)
    stages = [tile.anchor, *(analysis.stage(after) for after in tile.after)]
    if pixels <= size_of(name) or pixels % size_of(name) == 0 or not reads_in_step(stages, axes):
        return None
    overlap, attributes = Overlap(1, pixels, size_of(name)), {TILE_PIXELS: size_of(name)}
    return Algorithm(name, Stretching(analysis, stages, axes, overlap, {}, attributes).function())


def pixel_axes(tile: Tile) -> list[int]:
    """The spatial axes whose elements count as pixels of a tile; empty if it has no pixels."""
    if tile.pixel is None:
        return []
    return [tile.row, tile.pixel] if tile.fusible and tile.row is not None else [tile.pixel]


def whole_vectors_algorithm(function: PrimFunc, name: str) -> Algorithm | None:
    """The algorithm called `name` ("vectors_" and the bits of a vector) of an unscheduled PrimFunc.

    None if channels are whole vectors already, or are fewer than one vector.
    """
    if attention_rows(function) is not None:
        return whole_attention_algorithm(function, name)
    analysis = analyse_blocks(function)
    lanes = lanes_in(size_of(name), function)
    if analysis is None or lanes == 1:
        return None
    tile = find_tile(analysis, lanes)
    if tile is None:
        return _whole_vectors_without_tile(analysis, name, lanes)
    if tile.overlaps or tile.lanes == lanes:
        return None
    overlap = _overlap(tile, lanes)
    weights = _weights(analysis, tile)
    stages = [tile.anchor, *(analysis.stage(after) for after in tile.after)]
    if overlap is None or len(weights) > 1 or None in weights.values() or not reads_in_step(stages, [tile.channel]):
        return None
    axes = {number: axis for number, axis in weights.items() if axis is not None}
    stretched_weights = [function.params[number] for number in axes]
    if any(region.source.same_as(w) for stage in stages[1:] for region in stage.block.reads for w in stretched_weights):
        return None
    copied = _copied(analysis, tile, stages[1:])
    stretched = Stretching(analysis, stages, [tile.channel], overlap, axes, {MOST_LANES: lanes}, copied).function()
    return Algorithm(
        name, split_all_long_sums(stretched), {number: Stretch(axis, overlap) for number, axis in axes.items()}
    )


def _whole_vectors_without_tile(analysis: BlockAnalysis, name: str, lanes: int) -> Algorithm | None:
    """Whole vectors of results without a register tile: operands that lie across them, as in A B^T, or several sums.

    All reductions over columns of the result, and the stages that need them, have its last axis; others read none of
    them: a sum of weights stays as it is. Where their other axes differ, as in a softmax over an outer one, their
    columns are in blocks of several vectors (`rules/column_blocks.py`). None if lanes can run along the reductions.
    """
    if not analysis.reductions or len(analysis.outputs) != 1:
        return None
    end = analysis.stages[-1]
    if not end.spatial or end.name != analysis.outputs[0]:
        return None
    width = end.spatial_extents[-1]
    if width < lanes or width % lanes == 0 or lanes < FEWEST_LANES:
        return None
    stages = _stretched(analysis, width)
    if not stages or stages[-1] is not end or not reads_in_step(stages, [-1]):
        return None
    factored = [find_factored(stage, lanes) for stage in stages if stage.reduction]
    if all(one is not None and one.lanes == lanes for one in factored):
        return None
    alike = len({len(stage.spatial) for stage in stages}) == 1
    overlap = Overlap(1, width, lanes if alike else _block_of_columns(width, lanes))
    return Algorithm(name, Stretching(analysis, stages, [-1], overlap, {}, {MOST_LANES: lanes}).function())


def _stretched(analysis: BlockAnalysis, width: int) -> list[BlockStage]:
    """The reductions whose last axis has `width` elements, and all stages that need results of them.

    Empty where one of these has another last axis.
    """
    found: list[BlockStage] = []
    for stage in analysis.stages:
        made = [write.source for one in found for write in one.block.writes]
        reads = any(region.source.same_as(one) for region in stage.reads() for one in made)
        if not _has_width(analysis, stage, width):
            if reads:
                return []
        elif stage.reduction or reads:
            found.append(stage)
    return found


def _block_of_columns(width: int, lanes: int) -> int:
    """The elements of the widest block of columns of which few are computed twice."""
    blocks = (vectors * lanes for vectors in range(MOST_VECTORS, 1, -1))
    return next((block for block in blocks if block <= width and -width % block <= _REPEATED * width), lanes)


def _has_width(analysis: BlockAnalysis, stage: BlockStage, width: int) -> bool:
    """Whether the last axis of a stage has `width` elements, and no weights, which are packed, depend on it."""
    if not stage.spatial or not stage.writes_its_axes() or stage.spatial_extents[-1] != width:
        return False
    last = stage.spatial[-1].var
    moving = [region.source for region in stage.reads() if any(mentions(item.min, last) for item in region.region)]
    return not any(source.same_as(weights) for source in moving for weights in analysis.weights())


@dataclass(frozen=True)
class Stretch:
    """Weights for each place of the stretched channels, which are the axis `axis` of the constant."""

    axis: int
    overlap: Overlap

    def apply(self, source: np.ndarray) -> np.ndarray:
        """`source` with that axis stretched; elements that two vectors share appear twice."""
        return np.ascontiguousarray(source.take(self.overlap.elements(), self.axis))


def _copied(analysis: BlockAnalysis, tile: Tile, later: Sequence[BlockStage]) -> dict[int, int]:
    """The run-time operand whose columns are worth a copy: parameter number, and the axis that is the channel."""
    if tile.columns is None or not copies_columns(tile):
        return {}
    source = tile.anchor.block.reads[tile.columns].source
    axis = weight_axis(tile.anchor, source, tile.channel)
    again = any(region.source.same_as(source) for stage in later for region in stage.block.reads)
    numbers = [number for number, param in enumerate(analysis.function.params) if param.same_as(source)]
    return {number: axis for number in numbers if axis is not None and not again}


def _overlap(tile: Tile, lanes: int) -> Overlap | None:
    extent = tile.anchor.spatial_extents[tile.channel]
    width = extent if tile.per_channel else tile.group
    if width < lanes or extent % width:
        return None
    return Overlap(extent // width, width, lanes)


def _weights(analysis: BlockAnalysis, tile: Tile) -> dict[int, int | None]:
    """Tensors with a free layout indexed by the channel: parameter number, and the axis that is exactly the channel.

    -1 stands for a tensor that is computed from a parameter.
    """
    channel = tile.anchor.spatial[tile.channel].var
    found: dict[int, int | None] = {}
    for region in tile.anchor.reads():
        follows = any(mentions(item.min, channel) for item in region.region)
        if not follows or not any(region.source.same_as(weights) for weights in analysis.weights()):
            continue
        numbers = [n for n, param in enumerate(analysis.function.params) if param.same_as(region.source)]
        found[numbers[0] if numbers else -1] = (
            weight_axis(tile.anchor, region.source, tile.channel) if numbers else None
        )
    return found
