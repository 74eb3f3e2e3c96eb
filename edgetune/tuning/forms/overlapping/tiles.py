"""The forms of a kernel whose pixels are no multiple of a good tile."""

from __future__ import annotations

from math import prod
from typing import Any

from edgetune.tuning.forms.form import Form
from edgetune.tuning.forms.overlapping.function import Stretching, reads_in_step
from edgetune.tuning.forms.overlapping.overlap import Overlap
from edgetune.tuning.forms.schedule_text import size_of
from edgetune.tuning.sketches.anatomy import TILE_PIXELS, anatomy_of
from edgetune.tuning.sketches.tile import Tile, find_tile

_ANY_LANES = 64


def whole_tiles_form(function: Any, name: str) -> Form | None:
    """The form called `name`, "tiles_" and the pixels of a tile, of an unscheduled PrimFunc.

    Pixels are those of a row, or of all rows where they lie side by side in all that the kernel reads and writes; or
    the rows of a matrix. None where there are fewer than a tile of them, or whole tiles already.
    """
    anatomy = anatomy_of(function)
    tile = find_tile(anatomy, _ANY_LANES) if anatomy is not None else None
    if anatomy is None or tile is None or tile.overlaps or not (axes := pixel_axes(tile)):
        return None
    pixels = prod(tile.anchor.spatial_extents[axis] for axis in axes)
    stages = [tile.anchor, *(anatomy.stage(after) for after in tile.after)]
    if pixels <= size_of(name) or pixels % size_of(name) == 0 or not reads_in_step(stages, axes):
        return None
    overlap, told = Overlap(1, pixels, size_of(name)), {TILE_PIXELS: size_of(name)}
    return Form(name, Stretching(anatomy, stages, axes, overlap, {}, told).function())


def pixel_axes(tile: Tile) -> list[int]:
    """The spatial axes whose elements are counted as the pixels of a tile; none where it has no pixels."""
    if tile.pixel is None:
        return []
    return [tile.row, tile.pixel] if tile.fusible and tile.row is not None else [tile.pixel]
