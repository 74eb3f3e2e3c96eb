"""Sums of products of 8-bit integers that have zero points, which are kept out of the sum where weights are constant.

sum((x - zx)(w - zw)) is sum(x v) - zx sum(v) with v = w - zw. Where the weights are known when the package is built, v
is stored in place of w, and the second term is a constant of each output channel (Jacob et al., Quantization and
Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference, CVPR 2018, equations 7 to 9). Padding then
writes zx, which stands for the number 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from tvm import te, tirx, topi

from edgetune.tvm_types import Attrs

_INT32 = np.iinfo("int32")


class ZeroPoints(NamedTuple):
    """What is subtracted of each integer in a sum, and the integer that padding writes: it stands for the number 0."""

    data: int
    weights: int
    border: int


@dataclass(frozen=True)
class CentredWeights:
    """Weights less their zero point, and what is subtracted of the sum of each output channel (int32)."""

    integers: np.ndarray
    offsets: np.ndarray


def centred_weights(
    weights: np.ndarray, zeros: ZeroPoints, data_type: str, terms: tuple[int, ...]
) -> CentredWeights | None:
    """Weights as int8 without a zero point, where they fit and no sum of products can overflow; None elsewhere.

    `data_type` is the type of the integers that they are multiplied by, and `terms` are the axes that are summed.
    """
    centred = weights.astype("int32") - zeros.weights
    ends = np.iinfo("int8")
    if centred.min(initial=0) < ends.min or centred.max(initial=0) > ends.max:
        return None
    data = np.iinfo(data_type)
    offsets = zeros.data * centred.sum(terms, dtype="int64")
    largest = max(-int(data.min), int(data.max)) * np.abs(centred).sum(terms, dtype="int64")
    if np.max(largest + np.abs(offsets), initial=0) > _INT32.max:
        return None
    return CentredWeights(centred.astype("int8"), offsets.astype("int32"))


def integer_conv2d(
    data: te.Tensor, weights: te.Tensor, data_zero: int, weight_zero: int, border: int, attrs: Attrs
) -> te.Tensor:
    """Channels-last int32 convolution of (N, H, W, C) with (O, KH, KW, I), both integers minus their zero point.

    Padding writes `border` where that is not 0, and the number 0 after the subtraction elsewhere.
    """
    strides, padding, dilation = ([int(v) for v in a] for a in (attrs.strides, attrs.padding, attrs.dilation))
    if border and any(padding):
        top, left, bottom, right = padding
        value = tirx.const(border, str(data.dtype))
        data = topi.nn.pad(data, [0, top, left, 0], [0, bottom, right, 0], value, name="pad_temp")
        padding = [0, 0, 0, 0]
    return topi.nn.conv(
        _centred(data, data_zero),
        _centred(weights, weight_zero),
        strides,
        padding,
        dilation,
        int(attrs.groups),
        "NHWC",
        "OHWI",
        "int32",
    )


def integer_matmul(data: te.Tensor, weights: te.Tensor, data_zero: int, weight_zero: int) -> te.Tensor:
    """int32 product of (M, K) and (K, N), both integers minus their zero point."""
    return topi.nn.matmul(_centred(data, data_zero), _centred(weights, weight_zero), out_dtype="int32")


def _centred(tensor: te.Tensor, zero_point: int) -> te.Tensor:
    if not zero_point:
        return tensor  # the product widens it
    return te.compute(tensor.shape, lambda *i: tensor(*i).astype("int32") - zero_point, name="centred")
