"""Quantised operators of ONNX Runtime: dequantise, compute, quantise, as it defines them.

Recognising the operator of integers between these is the work of the graph passes, as in models that are written so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from edgetune.frontend.onnx.decompositions.builder import Builder
from edgetune.frontend.onnx.decompositions.scales import dequantised, quantised

_LAST_FLATTENING = 12
"""The last opset in which Softmax takes all axes from its own on for one."""


def quantize_linear(b: Builder, _: onnx.NodeProto) -> None:
    """ONNX's own operator, also of 16 and 4 bits, which ONNX has from opset 21 on."""
    b.output(0, quantised(b, b.input(0), b.input(1), b.input(2), axis=b.attributes.get("axis")))


def dequantize_linear(b: Builder, _: onnx.NodeProto) -> None:
    """ONNX's own operator, also of 16 and 4 bits, which ONNX has from opset 21 on."""
    b.output(0, dequantised(b, b.input(0), b.input(1), b.input(2), b.attributes.get("axis")))


def qlinear_add(b: Builder, _: onnx.NodeProto) -> None:
    """A sum."""
    _binary(b, "Add")


def qlinear_mul(b: Builder, _: onnx.NodeProto) -> None:
    """A product."""
    _binary(b, "Mul")


def _binary(b: Builder, operator: str) -> None:
    left, right = dequantised(b, *_three(b, 0)), dequantised(b, *_three(b, 3))
    b.output(0, quantised(b, b.op(operator, left, right), b.input(6), b.input(7), b.input(0)))


def qlinear_where(b: Builder, _: onnx.NodeProto) -> None:
    """A choice between elements of two scales."""
    chosen = b.op("Where", b.input(0), dequantised(b, *_three(b, 1)), dequantised(b, *_three(b, 4)))
    b.output(0, quantised(b, chosen, b.input(7), b.input(8), b.input(1)))


def qlinear_concat(b: Builder, node: onnx.NodeProto) -> None:
    """The scale and zero point of the result come first, then three inputs for each part."""
    parts = [dequantised(b, *_three(b, first)) for first in range(2, len(node.input), 3)]
    whole = b.op("Concat", *parts, axis=b.integer("axis"))
    b.output(0, quantised(b, whole, b.input(0), b.input(1), b.input(2)))


def qlinear_sigmoid(b: Builder, _: onnx.NodeProto) -> None:
    """A sigmoid."""
    _unary(b, lambda x: b.op("Sigmoid", x))


def qlinear_leaky_relu(b: Builder, _: onnx.NodeProto) -> None:
    """A rectifier with a slope for negative elements."""
    _unary(b, lambda x: b.op("LeakyRelu", x, alpha=b.number("alpha", 0.01)))


def qlinear_softmax(b: Builder, _: onnx.NodeProto) -> None:
    """A softmax as the model's opset had it: along an axis, or before 13 along all axes from that one on."""

    def softmax(x: str) -> str:
        shape = b.shape(x)
        axis = b.integer("axis", -1) % max(len(shape), 1)
        if b.integer("opset", b.opset) > _LAST_FLATTENING:
            return along(b, x, axis)
        flat = b.reshape(x, int(np.prod(shape[:axis])), int(np.prod(shape[axis:])))
        return b.reshape(b.op("Softmax", flat, axis=1), *shape)

    _unary(b, softmax)


def along(b: Builder, x: str, axis: int) -> str:
    """The softmax of `x` along one axis, which a Softmax before opset 13 computes only along the last one."""
    last = len(b.shape(x)) - 1
    if b.opset > _LAST_FLATTENING or axis == last:
        return b.op("Softmax", x, axis=axis)
    order = [*(a for a in range(last + 1) if a != axis), axis]
    moved = b.op("Softmax", b.moved(x, *order), axis=last)
    return b.moved(moved, *(order.index(a) for a in range(last + 1)))


def qlinear_average_pool(b: Builder, _: onnx.NodeProto) -> None:
    """Averages of windows."""
    attributes = {name: value for name, value in b.attributes.items() if name != "channels_last"}
    _unary(b, lambda x: _channels_first(b, x, lambda first: b.op("AveragePool", first, **attributes)))


def qlinear_global_average_pool(b: Builder, _: onnx.NodeProto) -> None:
    """Averages of channels."""
    _unary(b, lambda x: _channels_first(b, x, lambda first: b.op("GlobalAveragePool", first)))


def _unary(b: Builder, compute: Callable[[str], str]) -> None:
    b.output(0, quantised(b, compute(dequantised(b, *_three(b, 0))), b.input(3), b.input(4), b.input(0)))


def _three(b: Builder, first: int) -> tuple[str, str, str]:
    return b.input(first), b.input(first + 1), b.input(first + 2)


def _channels_first(b: Builder, x: str, compute: Callable[[str], str]) -> str:
    """What `compute` makes of `x`, whose channels may be its last axis."""
    return compute(x) if not b.integer("channels_last", 0) else with_channels_first(b, x, compute)


def with_channels_first(b: Builder, x: str, compute: Callable[[str], str]) -> str:
    """What `compute` makes of `x` with its last axis second, in the order of `x`."""
    rank = len(b.shape(x))
    return b.moved(compute(b.moved(x, 0, rank - 1, *range(1, rank - 1))), 0, *range(2, rank), 1)


def qlinear_conv(b: Builder, node: onnx.NodeProto) -> None:
    """ONNX's own operator; the channels of the data may be its last axis."""
    attributes: dict[str, Any] = {name: value for name, value in b.attributes.items() if name != "channels_last"}
    rest = list(node.input)[1:]
    b.output(0, _channels_first(b, b.input(0), lambda x: b.op("QLinearConv", x, *rest, **attributes)))


def nhwc_max_pool(b: Builder, _: onnx.NodeProto) -> None:
    """Maxima of windows; the channels of the data are its last axis."""
    b.output(0, with_channels_first(b, b.input(0), lambda x: b.op("MaxPool", x, **b.attributes)))


def qgemm(b: Builder, _: onnx.NodeProto) -> None:
    """A product of matrices; the bias is in steps of both scales, and the result is of floats without a scale."""
    columns = 0 if b.integer("transB", 0) else 1
    operands = [dequantised(b, *_three(b, 0)), dequantised(b, *_three(b, 3), axis=columns)]
    alpha = b.number("alpha", 1.0)
    if b.input(6):
        scale = b.op("Mul", b.input(1), b.input(4))
        operands.append(dequantised(b, b.input(6), scale, "", axis=len(b.shape(b.input(6))) - 1))
    transposed = {name: b.integer(name, 0) for name in ("transA", "transB")}
    result = b.op("Gemm", *operands, alpha=alpha, beta=alpha, **transposed)
    b.output(0, quantised(b, result, b.input(7), b.input(8), b.input(0)) if b.input(7) else result)
