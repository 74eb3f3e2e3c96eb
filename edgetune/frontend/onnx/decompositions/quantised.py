"""Quantised operators: computed on the integers and scaled once afterwards (ONNX operator specification).

Constant weights stay what they are, behind a DequantizeLinear: the graph passes make operators of integers of such
products, and the package has the weights as bytes. Operands that are computed are widened here.
"""

from __future__ import annotations

from math import prod

import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.decompositions.builder import Builder
from edgetune.frontend.onnx.decompositions.scales import dequantised, quantised

_MATRIX = 2
"""Axes of a matrix."""


def qlinear_matmul(b: Builder, _: onnx.NodeProto) -> None:
    """Quantised operands, quantised result."""
    parameters = [b.input(index) for index in (1, 2, 4, 5)]
    if (
        _has_constants(b, 1, 2, 3, 4, 5, 6, 7)
        and len(b.shape(b.input(3))) == _MATRIX <= len(b.shape(b.input(0)))
        and all(len(b.shape(name)) <= 1 for name in parameters)
        and _is_one(b, 1)
        and _is_one(b, 2)
    ):
        b.output(0, _product_of_weights(b))
        return
    left = _centred(b, b.input(0), b.input(2), -2)
    right = _centred(b, b.input(3), b.input(5), -1)
    product = b.op("MatMul", left, right)
    scale = b.op("Mul", _row(b, b.input(1), -2), _row(b, b.input(4), -1))
    b.output(0, _requantised(b, product, scale, b.input(6), b.input(7)))


def _product_of_weights(b: Builder) -> str:
    """Rows of integers times a matrix of constants."""
    *rows, depth = b.shape(b.input(0))
    data = dequantised(b, b.reshape(b.input(0), prod(rows), depth), b.input(1), b.input(2))
    weights = dequantised(b, b.input(3), b.input(4), b.input(5), axis=1)
    result = quantised(b, b.op("MatMul", data, weights), b.input(6), b.input(7))
    return b.reshape(result, *rows, b.shape(b.input(3))[1])


def matmul_integer(b: Builder, _: onnx.NodeProto) -> None:
    """Integers minus their zero points, multiplied to int32."""
    b.output(0, b.op("MatMul", _centred(b, b.input(0), b.input(2), -2), _centred(b, b.input(1), b.input(3), -1)))


def conv_integer(b: Builder, _: onnx.NodeProto) -> None:
    """Integers minus their zero points, convolved to int32."""
    data = _centred(b, b.input(0), b.input(2), 1)
    weights = _centred(b, b.input(1), b.input(3), 0)
    b.output(0, b.op("Conv", data, weights, **b.attributes))


def qlinear_conv(b: Builder, _: onnx.NodeProto) -> None:
    """Quantised operands, int32 bias, quantised result."""
    if _has_constants(b, 1, 2, 3, 4, 5, 6, 7) and (not b.input(8) or _has_constants(b, 8)) and _is_one(b, 2):
        operands = [dequantised(b, b.input(0), b.input(1), b.input(2))]
        operands.append(dequantised(b, b.input(3), b.input(4), b.input(5), axis=0))
        if b.input(8):
            operands.append(dequantised(b, b.input(8), b.op("Mul", b.input(1), b.input(4)), "", axis=0))
        b.output(0, quantised(b, b.op("Conv", *operands, **b.attributes), b.input(6), b.input(7)))
        return
    data = _centred(b, b.input(0), b.input(2), 1)
    weights = _centred(b, b.input(3), b.input(5), 0)
    rank = len(b.shape(data))
    result = b.op("Conv", data, weights, **b.attributes)
    if b.input(8):
        result = b.op("Add", result, b.reshape(b.input(8), 1, -1, *[1] * (rank - 2)))
    weight_scale = b.input(4)
    if np.prod(b.shape(weight_scale)) > 1:
        weight_scale = b.reshape(weight_scale, 1, -1, *[1] * (rank - 2))
    scale = b.op("Mul", b.input(1), weight_scale)
    b.output(0, _requantised(b, result, scale, b.input(6), b.input(7)))


def _has_constants(b: Builder, *indices: int) -> bool:
    """Whether all of these inputs are there and constant."""
    return all(b.input(index) and b.value(b.input(index)) is not None for index in indices)


def _is_one(b: Builder, index: int) -> bool:
    return prod(b.shape(b.input(index))) == 1


def _centred(b: Builder, name: str, zero_point: str, axis: int) -> str:
    """int32(name) - zero_point; several zero points apply along `axis`."""
    if not name:
        raise UnsupportedOperator(f"{b.shown} lacks an operand; export the model again")
    value = b.cast(name, "int32")
    known = b.value(zero_point) if zero_point else np.zeros(1)
    if known is not None and not np.any(known):
        return value
    zeros = b.cast(zero_point, "int32")
    shape = b.shape(zero_point)
    if np.prod(shape) > 1 and len(shape) == 1:
        aligned = [1] * len(b.shape(name))
        aligned[axis] = shape[0]
        zeros = b.reshape(zeros, *aligned)
    elif np.prod(shape) == 1:
        zeros = b.reshape(zeros)
    return b.op("Sub", value, zeros)


def _row(b: Builder, scale: str, axis: int) -> str:
    shape = b.shape(scale)
    if np.prod(shape) == 1:
        return b.reshape(scale)
    return b.reshape(scale, -1, 1) if len(shape) == 1 and axis == -2 else scale


def _requantised(b: Builder, sums: str, scale: str, result_scale: str, result_zero: str) -> str:
    """saturate(round(sums * scale / result_scale) + result_zero)."""
    factor = b.cast(b.op("Div", scale, b.reshape(result_scale)), "float32")
    value = b.op("Round", b.op("Mul", b.cast(sums, "float32"), factor))
    dtype = b.dtype(result_zero)
    value = b.op("Add", value, b.reshape(b.cast(result_zero, "float32")))
    limits = np.iinfo(dtype)
    low, high = b.constant(limits.min, "float32"), b.constant(limits.max, "float32")
    return b.cast(b.op("Min", b.op("Max", value, low), high), dtype)
