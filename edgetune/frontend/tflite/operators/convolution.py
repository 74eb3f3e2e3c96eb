"""Convolutions and pooling. Images are (N, H, W, C) in TensorFlow Lite, and (N, C, H, W) in ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto

from edgetune.frontend.tflite.operators import wide
from edgetune.frontend.tflite.operators.hybrid import asymmetric, give_scaled, is_hybrid, symmetric
from edgetune.frontend.tflite.operators.matrix_products import NARROW_WEIGHTS, give_sums, weights_and_bias
from edgetune.frontend.tflite.step import OperatorStep, Translator
from edgetune.frontend.tflite.translation import MisfitError

_SAME = 0
_INTEGER_POOLS = {"INT8", "UINT8"}  # those that ONNX's MaxPool has


def _pads(
    step: OperatorStep, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int] | None = None
) -> list[int]:
    """Zeros before and after each axis of the image: none, or as many as give ceil(extent / stride) results.

    The larger half is at the end (TensorFlow's SAME).
    """
    if step.option("Padding", _SAME) != _SAME:
        return [0] * (2 * len(window))
    before, after = [], []
    for axis, (size, stride) in enumerate(zip(window, strides, strict=True)):
        extent, reach = step.input(0).shape[1 + axis], (size - 1) * (dilations[axis] if dilations else 1) + 1
        whole = max((-(-extent // stride) - 1) * stride + reach - extent, 0)
        before.append(whole // 2)
        after.append(whole - whole // 2)
    return before + after


def _strides(step: OperatorStep) -> list[int]:
    strides = [step.option("StrideH", 1), step.option("StrideW", 1)]
    if min(strides) < 1:
        raise MisfitError(f"has the strides {strides}")
    return strides


def _dilations(step: OperatorStep) -> list[int]:
    dilations = [step.option("DilationHFactor", 1), step.option("DilationWFactor", 1)]
    if min(dilations) < 1:
        raise MisfitError(f"has the dilations {dilations}")
    return dilations


def _convolved(
    step: OperatorStep, order: Sequence[int], group: int, *, zero_points: bool = False, **attributes: Any
) -> None:
    """A convolution with the axes of its weights in `order`: of 8-bit integers in exact integers.

    `zero_points`: of floats that are quantised when they are known, each example has a zero point in any case.
    """
    sizes = (attributes[name] for name in ("kernel_shape", "strides", "dilations"))
    attributes |= {"pads": _pads(step, *sizes), "group": group}
    rank = step.rank()
    weights = step.input(1)
    if step.is_narrow(0) and weights.type in NARROW_WEIGHTS and weights.value is not None:
        zeros = [step.zero_point(position) for position in (0, 1)]
        operands = [step.to_channels_first(step.raw(0), rank), step.constant(np.transpose(weights.value, order), None)]
        sums = step.to_channels_last(step.op("ConvInteger", *operands, *zeros, **attributes), rank)
        give_sums(step, sums)
        return
    if wide.is_wide(step):
        operands = [step.to_channels_first(wide.integers(step), rank), *wide.weights_and_bias(step, order)]
        wide.give_sums(step, step.to_channels_last(step.op("Conv", *operands, **attributes), rank))
        return
    image = step.real(0)
    if is_hybrid(step):
        axes = range(1, rank)
        if step.scale(1).size == 1 and not zero_points:
            integers, scale = symmetric(step, image, axes)
            taps = step.constant(np.transpose(step.value(1, "weights"), order), None)
            sums = step.op("ConvInteger", step.to_channels_first(integers, rank), taps, **attributes)
            give_scaled(step, step.to_channels_last(sums, rank), scale)
            return
        image = asymmetric(step, image, axes)
    operands = [step.to_channels_first(image, rank), *weights_and_bias(step, order)]
    step.give(step.to_channels_last(step.op("Conv", *operands, **attributes), rank))


def conv_2d(step: OperatorStep) -> None:
    """CONV_2D: weights (O, KH, KW, I); groups where the image has several times I channels."""
    image, weights = step.input(0).shape, step.input(1).shape
    if len(image) != 4 or len(weights) != 4 or not weights[3] or image[3] % weights[3]:
        raise MisfitError(f"has an image {image} and weights {weights}")
    windows: dict[str, Any] = {
        "strides": _strides(step),
        "dilations": _dilations(step),
        "kernel_shape": list(weights[1:3]),
    }
    _convolved(step, (0, 3, 1, 2), image[3] // weights[3], **windows)


def depthwise_conv_2d(step: OperatorStep) -> None:
    """DEPTHWISE_CONV_2D: weights (1, KH, KW, C * multiplier)."""
    image, weights = step.input(0).shape, step.input(1).shape
    if len(image) != 4 or len(weights) != 4 or weights[0] != 1 or not image[3] or weights[3] % image[3]:
        raise MisfitError(f"has an image {image} and weights {weights}")
    windows: dict[str, Any] = {
        "strides": _strides(step),
        "dilations": _dilations(step),
        "kernel_shape": list(weights[1:3]),
    }
    _convolved(step, (3, 0, 1, 2), image[3], zero_points=True, **windows)


def transpose_conv(step: OperatorStep) -> None:
    """TRANSPOSE_CONV: the extents of the output, weights (O, KH, KW, I), the image, and maybe a bias.

    Its padding is that of the convolution which turns the output into the image.
    """
    image, weights = step.input(2).shape, step.input(1).shape
    if len(image) != 4 or len(weights) != 4:
        raise MisfitError(f"has an image {image} and weights {weights}")
    extents = [int(extent) for extent in step.value(0, "output's shape")]
    strides = _strides(step)
    before, after, more = [], [], []
    for axis, stride in enumerate(strides):
        whole = (image[1 + axis] - 1) * stride + weights[1 + axis]
        less = max(whole - extents[1 + axis], 0) if step.option("Padding", _SAME) == _SAME else 0
        before.append(less // 2)
        after.append(whole - less // 2 - extents[1 + axis] if less else 0)
        more.append(max(extents[1 + axis] - whole, 0))
    attributes = {
        "strides": strides,
        "pads": before + after,
        "output_padding": more,
        "kernel_shape": list(weights[1:3]),
    }
    order, taps = (3, 0, 1, 2), step.input(1)
    if step.is_narrow(2) and taps.type in NARROW_WEIGHTS and taps.value is not None:
        pixels = step.to_channels_first(step.centred(2))
        stored = step.op("Cast", step.constant(_centred(step, order), None), to=TensorProto.INT32)
        give_sums(step, step.to_channels_last(step.op("ConvTranspose", pixels, stored, **attributes)), image=2, bias=3)
        return
    sums = wide.is_wide(step, 2)
    pixels = wide.integers(step, 2) if sums else step.real(2)
    rest = wide.weights_and_bias(step, order, 3) if sums else weights_and_bias(step, order, image=2, bias=3)
    made = step.to_channels_last(step.op("ConvTranspose", step.to_channels_first(pixels), *rest, **attributes))
    if sums:
        wide.give_sums(step, made, image=2, bias=3)
    else:
        step.give(made)


def _centred(step: OperatorStep, order: Sequence[int]) -> np.ndarray:
    """The integers of the weights less their zero point, in as few bytes as hold them."""
    found = step.input(1).quantisation
    wide = np.transpose(step.value(1, "weights"), order).astype("int16")
    centred: np.ndarray = wide - (0 if found is None else int(found.zero_point.reshape(-1)[0]))
    narrow = centred.astype("int8")
    return narrow if np.array_equal(narrow, centred) else centred


def conv_3d(step: OperatorStep) -> None:
    """CONV_3D: an image (N, D, H, W, C) and weights (KD, KH, KW, I, O)."""
    weights = step.input(1).shape
    if step.rank() != 5 or len(weights) != 5:
        raise MisfitError(f"has an image {step.input(0).shape} and weights {weights}")
    windows: dict[str, Any] = {
        "strides": [step.option("StrideD", 1), *_strides(step)],
        "dilations": [step.option("DilationDFactor", 1), *_dilations(step)],
        "kernel_shape": list(weights[:3]),
    }
    _convolved(step, (4, 3, 0, 1, 2), 1, **windows)


def _window(step: OperatorStep) -> dict[str, Any]:
    size = [step.option("FilterHeight", 1), step.option("FilterWidth", 1)]
    if step.rank() != 4 or min(size) < 1:
        raise MisfitError(f"has an image {step.input(0).shape} and windows {size}")
    strides = _strides(step)
    return {"kernel_shape": size, "strides": strides, "pads": _pads(step, size, strides)}


def average_pool_2d(step: OperatorStep) -> None:
    """AVERAGE_POOL_2D: of the elements of a window that lie in the image; of integers, ties round away from 0."""
    window = _window(step)
    if not step.is_quantised(0) or not step.same_quantisation():
        step.give(step.to_channels_last(step.op("AveragePool", step.to_channels_first(step.real()), **window)))
    elif tuple(window["kernel_shape"]) == step.input(0).shape[1:3] and not any(window["pads"]):
        count = prod(window["kernel_shape"])
        integers = step.op("Cast", step.raw(), to=TensorProto.INT32)
        total = step.op("ReduceSum", integers, step.constant([1, 2], np.int64), keepdims=1)
        step.give_integers(step.divided(total, count), centred=False)
    else:
        integers = step.op("Cast", step.to_channels_first(step.raw()), to=TensorProto.FLOAT)
        mean = step.to_channels_last(step.op("AveragePool", integers, **window))
        step.give_integers(step.op("Cast", step.rounded(mean), to=TensorProto.INT32), centred=False)


def max_pool_2d(step: OperatorStep) -> None:
    """MAX_POOL_2D: of integers where they keep their scale."""
    window = _window(step)
    plain = step.input(0).type in _INTEGER_POOLS and step.same_quantisation()
    if plain and step.option("FusedActivationFunction", 0) == 0:
        step.move(lambda value: step.to_channels_last(step.op("MaxPool", step.to_channels_first(value), **window)))
    else:
        step.give(step.to_channels_last(step.op("MaxPool", step.to_channels_first(step.real()), **window)))


def l2_pool_2d(step: OperatorStep) -> None:
    """L2_POOL_2D: the root of the mean square of a window."""
    image = step.to_channels_first(step.real())
    mean = step.op("AveragePool", step.op("Mul", image, image), **_window(step))
    step.give(step.to_channels_last(step.op("Sqrt", mean)))


def local_response_normalization(step: OperatorStep) -> None:
    """LOCAL_RESPONSE_NORMALIZATION: alpha times the sum, where ONNX takes alpha times the mean."""
    size = 2 * step.option("Radius", 5) + 1
    made = step.op(
        "LRN",
        step.to_channels_first(step.real()),
        size=size,
        alpha=float(np.float32(step.option("Alpha", 1.0))) * size,
        beta=float(step.option("Beta", 0.5)),
        bias=float(step.option("Bias", 1.0)),
    )
    step.give(step.to_channels_last(made))


TRANSLATORS: Mapping[str, Translator] = {
    "AVERAGE_POOL_2D": average_pool_2d,
    "CONV_2D": conv_2d,
    "CONV_3D": conv_3d,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "L2_POOL_2D": l2_pool_2d,
    "LOCAL_RESPONSE_NORMALIZATION": local_response_normalization,
    "MAX_POOL_2D": max_pool_2d,
    "TRANSPOSE_CONV": transpose_conv,
}
"""Operators of images."""
