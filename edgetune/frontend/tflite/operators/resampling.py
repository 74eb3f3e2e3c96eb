"""Images in other extents."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto, helper

from edgetune.frontend.tflite.step import OperatorStep, Translator
from edgetune.frontend.tflite.translation import MisfitError


def _resize(step: OperatorStep, mode: str, nearest: str) -> None:
    step.give(_resized(step, step.real(), mode, nearest))


def _resized(step: OperatorStep, value: str, mode: str, nearest: str) -> str:
    """`value`, of the shape of input 0, in the extents of input 1."""
    extents = step.value(1, "extents")
    if step.rank() != 4 or extents.size != 2:
        raise MisfitError(f"has an image {step.input(0).shape} and {extents.size} extents")
    corners, centres = step.option("AlignCorners", default=False), step.option("HalfPixelCenters", default=False)
    if corners and centres:
        raise MisfitError("aligns corners and half pixels, which contradict each other")
    image = step.to_channels_first(value)
    made = step.op(
        "Resize",
        image,
        "",
        "",
        step.op("Concat", step.op("Shape", image, end=2), step.constant(extents.reshape(-1), np.int64), axis=0),
        mode=mode,
        nearest_mode=nearest,
        coordinate_transformation_mode="align_corners" if corners else "half_pixel" if centres else "asymmetric",
    )
    return step.to_channels_last(made)


_UNIT = 1 << 10
"""Places between two pixels, where integers are interpolated."""


def _neighbours(step: OperatorStep, before: int, after: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The two pixels that each of `after` pixels lies between, of `before`, and how far it is from the first one."""
    corners = step.option("AlignCorners", default=False) and after > 1
    gaps, places = (before - 1, after - 1) if corners else (before, after)
    scale = (_UNIT * gaps + places // 2) // places
    found = np.arange(after) * scale
    if step.option("HalfPixelCenters", default=False):
        found = found + scale // 2 - _UNIT // 2
    low = np.maximum(found // _UNIT, 0)
    high = np.clip(-(-found // _UNIT), 0, before - 1)
    return low, high, found - _UNIT * low


def resize_bilinear(step: OperatorStep) -> None:
    """RESIZE_BILINEAR: signed integers are interpolated in fixed point (resize_bilinear.h)."""
    if not step.is_quantised(0) or not step.same_quantisation() or step.rank() != 4:
        _resize(step, "linear", "floor")
        return
    if step.input(0).type == "UINT8":
        image = step.op("Cast", step.raw(), to=TensorProto.FLOAT)
        made = step.op("Floor", step.op("Add", _resized(step, image, "linear", "floor"), step.constant(0.5)))
        step.give_integers(step.op("Cast", made, to=TensorProto.INT32), centred=False)
        return
    if tuple(step.value(1, "extents").reshape(-1)) != step.output().shape[1:3]:
        raise MisfitError(f"makes {list(step.output().shape)}, which has other extents than it is given")
    wide = step.input(0).type == "INT16"
    kind, dtype = (TensorProto.INT64, np.int64) if wide else (TensorProto.INT32, np.int32)
    value = step.op("Cast", step.raw(), to=kind)
    for axis, after in ((1, step.output().shape[1]), (2, step.output().shape[2])):
        low, high, far = _neighbours(step, step.input(0).shape[axis], after)
        along = [-1] + [1] * (3 - axis)
        first, second = (step.op("Gather", value, step.constant(one, np.int64), axis=axis) for one in (low, high))
        first = step.op("Mul", first, step.constant((_UNIT - far).reshape(along), dtype))
        value = step.op("Add", first, step.op("Mul", second, step.constant(far.reshape(along), dtype)))
    made = step.divided(value, _UNIT * _UNIT, dtype)
    step.give_raw(step.op("Cast", made, to=int(helper.np_dtype_to_tensor_dtype(step.output().dtype))))


def resize_nearest_neighbor(step: OperatorStep) -> None:
    """RESIZE_NEAREST_NEIGHBOR: rounds places down, or to the nearest where it aligns corners or half pixels."""
    rounds = step.option("AlignCorners", default=False) or step.option("HalfPixelCenters", default=False)
    _resize(step, "nearest", "round_prefer_ceil" if rounds else "floor")


def depth_to_space(step: OperatorStep) -> None:
    """DEPTH_TO_SPACE: the block comes first in the channels."""
    size = step.option("BlockSize", 0)
    step.move(
        lambda value: step.to_channels_last(
            step.op("DepthToSpace", step.to_channels_first(value), blocksize=size, mode="DCR")
        )
    )


def space_to_depth(step: OperatorStep) -> None:
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
