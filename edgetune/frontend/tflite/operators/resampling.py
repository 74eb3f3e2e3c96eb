"""Images in other extents."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgetune.frontend.tflite.step import Step, Translator
from edgetune.frontend.tflite.translation import MisfitError


def _resize(step: Step, mode: str, nearest: str) -> None:
    extents = step.value(1, "extents")
    if step.rank() != 4 or extents.size != 2:
        raise MisfitError(f"has an image {step.input(0).shape} and {extents.size} extents")
    corners, centres = step.option("AlignCorners", default=False), step.option("HalfPixelCenters", default=False)
    if corners and centres:
        raise MisfitError("aligns corners and half pixels, which contradict each other")
    image = step.to_channels_first(step.real())
    made = step.op(
        "Resize",
        image,
        "",
        "",
        step.constant(extents.reshape(-1), np.int64),
        axes=[2, 3],
        mode=mode,
        nearest_mode=nearest,
        coordinate_transformation_mode="align_corners" if corners else "half_pixel" if centres else "asymmetric",
    )
    step.give(step.to_channels_last(made))


def resize_bilinear(step: Step) -> None:
    """RESIZE_BILINEAR."""
    _resize(step, "linear", "floor")


def resize_nearest_neighbor(step: Step) -> None:
    """RESIZE_NEAREST_NEIGHBOR: rounds places down, or to the nearest where it aligns corners or half pixels."""
    rounds = step.option("AlignCorners", default=False) or step.option("HalfPixelCenters", default=False)
    _resize(step, "nearest", "round_prefer_ceil" if rounds else "floor")


def depth_to_space(step: Step) -> None:
    """DEPTH_TO_SPACE: the block comes first in the channels."""
    size = step.option("BlockSize", 0)
    step.move(
        lambda value: step.to_channels_last(
            step.op("DepthToSpace", step.to_channels_first(value), blocksize=size, mode="DCR")
        )
    )


def space_to_depth(step: Step) -> None:
    """SPACE_TO_DEPTH: the block comes first in the channels."""
    size = step.option("BlockSize", 0)
    step.move(
        lambda value: step.to_channels_last(step.op("SpaceToDepth", step.to_channels_first(value), blocksize=size))
    )


TRANSLATORS: Mapping[str, Translator] = {
    "DEPTH_TO_SPACE": depth_to_space,
    "RESIZE_BILINEAR": resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": resize_nearest_neighbor,
    "SPACE_TO_DEPTH": space_to_depth,
}
"""Operators that change the extents of images."""
