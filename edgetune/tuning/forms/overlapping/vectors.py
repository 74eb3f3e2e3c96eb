"""The forms of a kernel whose channels are no multiple of the vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetune.tuning.forms.form import Form
from edgetune.tuning.forms.overlapping.function import Stretching, reads_in_step, weight_axis
from edgetune.tuning.forms.overlapping.overlap import Overlap
from edgetune.tuning.forms.schedule_text import size_of
from edgetune.tuning.sketches.anatomy import MOST_LANES, Anatomy, anatomy_of, mentions, widest_element_bits
from edgetune.tuning.sketches.tile import Tile, find_tile


def whole_vectors_form(function: Any, name: str) -> Form | None:
    """The form called `name`, "vectors_" and the bits of a vector, of an unscheduled PrimFunc.

    None for what has no register tile, for channels that are whole vectors already, and for fewer than one vector.
    """
    anatomy = anatomy_of(function)
    lanes = size_of(name) // widest_element_bits(function)
    tile = find_tile(anatomy, lanes) if anatomy is not None and lanes > 1 else None
    if anatomy is None or tile is None or tile.overlaps or tile.lanes == lanes:
        return None
    overlap = _overlap(tile, lanes)
    weights = _weights(anatomy, tile)
    stages = [tile.anchor, *(anatomy.stage(after) for after in tile.after)]
    if overlap is None or len(weights) > 1 or None in weights.values() or not reads_in_step(stages, [tile.channel]):
        return None
    axes = {number: axis for number, axis in weights.items() if axis is not None}
    stretched_weights = [function.params[number] for number in axes]
    if any(region.source.same_as(w) for stage in stages[1:] for region in stage.block.reads for w in stretched_weights):
        return None
    stretched = Stretching(anatomy, stages, [tile.channel], overlap, axes, {MOST_LANES: lanes}).function()
    return Form(name, stretched, {number: Stretch(axis, overlap) for number, axis in axes.items()})


@dataclass(frozen=True)
class Stretch:
    """Weights for each place of the stretched channels, which are the axis `axis` of the constant."""

    axis: int
    overlap: Overlap

    def apply(self, source: np.ndarray) -> np.ndarray:
        """`source` with that axis stretched; what vectors share is there twice."""
        return np.ascontiguousarray(source.take(self.overlap.elements(), self.axis))


def _overlap(tile: Tile, lanes: int) -> Overlap | None:
    extent = tile.anchor.spatial_extents[tile.channel]
    width = extent if tile.per_channel else tile.group
    if width < lanes or extent % width:
        return None
    return Overlap(extent // width, width, lanes)


def _weights(anatomy: Anatomy, tile: Tile) -> dict[int, int | None]:
    """What has a free layout and follows the channels: the parameter's number, and the axis at which that is plain.

    -1 for what is computed of a parameter.
    """
    channel = tile.anchor.spatial[tile.channel].var
    found: dict[int, int | None] = {}
    for region in tile.anchor.reads():
        follows = any(mentions(item.min, channel) for item in region.region)
        if not follows or not any(region.source.same_as(weights) for weights in anatomy.weights()):
            continue
        numbers = [n for n, param in enumerate(anatomy.function.params) if param.same_as(region.source)]
        found[numbers[0] if numbers else -1] = (
            weight_axis(tile.anchor, region.source, tile.channel) if numbers else None
        )
    return found
