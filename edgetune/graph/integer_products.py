"""Sums of products of 8-bit integers that have zero points, which are kept out of the sum where weights are constant.

sum((x - zx)(w - zw)) is sum(x v) - zx sum(v) with v = w - zw. Where the weights are known when the package is built, v
is stored in place of w, and the second term is a constant of each output channel (Jacob et al., Quantization and
Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference, CVPR 2018, equations 7 to 9). Padding then
writes zx, which stands for the number 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from tvm import te, tirx, topi

from edgetune.tvm_types import Attrs, Expr, Var

_INT32 = np.iinfo("int32")


class ZeroPoints(NamedTuple):
    """What is subtracted of each integer in a sum, and the integer that padding writes: it stands for the number 0."""

    data: int
    weights: int
    border: int


@dataclass(frozen=True)
class CentredWeights:
    """Weights less their zero point, and their sum for each output channel (int32).

    The sums have the axes of the weights, those that are summed with one element.
    """

    integers: np.ndarray
    sums: np.ndarray


def centred_weights(
    weights: np.ndarray, zeros: ZeroPoints, data_type: str, terms: tuple[int, ...]
) -> CentredWeights | None:
    """Weights as int8 without a zero point, where they fit and no sum of products can overflow; None elsewhere.

    `data_type` is the type of the integers that they are multiplied by, and `terms` are the axes that are summed. The
    zero point of the data is taken off the sum.
    """
    centred = weights.astype("int64") - zeros.weights
    ends = np.iinfo("int8")
    if centred.min(initial=0) < ends.min or centred.max(initial=0) > ends.max:
        return None
    sums = centred.sum(terms, keepdims=True)
    if np.max(_largest(centred, data_type, 0, terms) + np.abs(zeros.data * sums), initial=0) > _INT32.max:
        return None
    return CentredWeights(centred.astype("int8"), sums.astype("int32"))


def fits_32_bits(
    weights: np.ndarray | str, zeros: ZeroPoints, data_type: str, terms: tuple[int, ...], count: int
) -> bool:
    """Whether the sum of `count` products of integers less their zero points is a number of 32 bits, whatever they are.

    `weights` are known, and summed along the axes `terms`, or of a type.
    """
    if isinstance(weights, str):
        ends = np.iinfo(weights)
        weights = np.array([max(zeros.weights - int(ends.min), int(ends.max) - zeros.weights) * count], "int64")
        zeros, terms = zeros._replace(weights=0), ()
    largest = _largest(weights.astype("int64") - zeros.weights, data_type, zeros.data, terms)
    return int(np.max(largest, initial=0)) <= _INT32.max


def _largest(weights: np.ndarray, data_type: str, zero_point: int, terms: tuple[int, ...]) -> np.ndarray:
    """The largest magnitude of sums of `weights` times integers of a type, less their zero point."""
    ends = np.iinfo(data_type)
    largest: np.ndarray = max(zero_point - int(ends.min), int(ends.max) - zero_point) * np.abs(weights).sum(
        terms, keepdims=True
    )
    return largest


def integer_convolution(
    data: te.Tensor, weights: te.Tensor, *border: te.Tensor, zeros: ZeroPoints, attrs: Attrs
) -> te.Tensor:
    """Channels-last int32 convolution of (N, ..., C) with (O, ..., I), both integers minus their zero point.

    Padding writes the one element of `border` or, without it, `zeros.border` where that is not 0, and the number 0
    after the subtraction elsewhere.
    """
    strides, padding, dilation = ([int(v) for v in a] for a in (attrs.strides, attrs.padding, attrs.dilation))
    if (border or zeros.border) and any(padding):
        rank = len(strides)
        value = border[0]().astype(str(data.dtype)) if border else tirx.const(zeros.border, str(data.dtype))
        data = topi.nn.pad(data, [0, *padding[:rank], 0], [0, *padding[rank:], 0], value, name="pad_temp")
        padding = [0] * len(padding)
    return topi.nn.conv(
        _centred(data, zeros.data),
        _centred(weights, zeros.weights),
        strides,
        padding,
        dilation,
        int(attrs.groups),
        str(attrs.data_layout),
        str(attrs.kernel_layout),
        "int32",
    )


def integer_matmul(data: te.Tensor, weights: te.Tensor, *, zeros: ZeroPoints, attrs: Attrs) -> te.Tensor:
    """int32 products of (..., M, K) and (..., K, N), both integers minus their zero point; other axes broadcast."""
    del attrs
    left, right = _centred(data, zeros.data), _centred(weights, zeros.weights)
    if len(left.shape) == len(right.shape) == _MATRIX:
        return topi.nn.matmul(left, right, out_dtype="int32")
    batches = [[int(extent) for extent in one.shape[:-2]] for one in (left, right)]
    term = te.reduce_axis((0, left.shape[-1]), name="k")

    def product(*place: Var) -> Expr:
        *outer, row, column = place
        from_left, from_right = (_broadcast(outer, extents) for extents in batches)
        factors = left(*from_left, row, term), right(*from_right, term, column)
        return te.sum(factors[0].astype("int32") * factors[1].astype("int32"), axis=term)

    return te.compute([*np.broadcast_shapes(*batches), left.shape[-2], right.shape[-1]], product, name="matmul")


def _broadcast(place: Sequence[Expr], extents: Sequence[int]) -> list[Expr]:
    """The place in a tensor of these extents of what numpy broadcasts to `place`."""
    own = place[len(place) - len(extents) :]
    return [tirx.IntImm("int64", 0) if extent == 1 else axis for axis, extent in zip(own, extents, strict=True)]


_MATRIX = 2


def less_products(sums: te.Tensor, zero_point: te.Tensor, factors: te.Tensor) -> te.Tensor:
    """int32 sums less a zero point that is computed, of no axes, times factors, which broadcast."""
    extents = [int(extent) for extent in factors.shape]

    def value(*place: Var) -> Expr:
        return sums(*place) - zero_point() * factors(*_broadcast(place, extents))

    return te.compute(sums.shape, value, name="less_products")


def _centred(tensor: te.Tensor, zero_point: int) -> te.Tensor:
    if not zero_point:
        return tensor  # the product widens it
    return te.compute(tensor.shape, lambda *i: tensor(*i).astype("int32") - zero_point, name="centred")
