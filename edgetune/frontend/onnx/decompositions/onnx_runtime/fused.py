"""Fused operators of ONNX Runtime: an operator of ONNX with an activation, a sum or a transposition in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt, tau
from typing import Any

import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.decompositions.builder import Builder

_LAYER_NORMALIZATION = 17
"""The first opset of ONNX's own LayerNormalization."""

_CUBIC = 0.044715
"""The coefficient of x^3 in the tanh form of GELU."""


def gelu(b: Builder, _: onnx.NodeProto) -> None:
    """GELU, x / 2 (1 + erf(x / sqrt(2)))."""
    b.output(0, _gelu(b, b.input(0)))


def bias_gelu(b: Builder, _: onnx.NodeProto) -> None:
    """GELU of a sum."""
    b.output(0, _gelu(b, b.op("Add", b.input(0), b.input(1))))


def _gelu(b: Builder, x: str) -> str:
    one = b.constant(1, b.dtype(x))
    return b.op("Mul", b.scaled(x, 0.5), b.op("Add", b.op("Erf", b.scaled(x, sqrt(0.5))), one))


def fast_gelu(b: Builder, _: onnx.NodeProto) -> None:
    """GELU by tanh, x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), of a sum where there is a bias."""
    x = b.op("Add", b.input(0), b.input(1)) if b.input(1) else b.input(0)
    one = b.constant(1, b.dtype(x))
    cube = b.op("Mul", b.op("Mul", x, x), x)
    inner = b.scaled(b.op("Add", x, b.scaled(cube, _CUBIC)), 2 / sqrt(tau))
    b.output(0, b.op("Mul", b.scaled(x, 0.5), b.op("Add", b.op("Tanh", inner), one)))


def quick_gelu(b: Builder, _: onnx.NodeProto) -> None:
    """GELU by a sigmoid, x sigmoid(alpha x)."""
    x = b.input(0)
    b.output(0, b.op("Mul", x, b.op("Sigmoid", b.scaled(x, b.number("alpha", 1.702)))))


def _clip(b: Builder, value: str, given: Sequence[float]) -> str:
    low, high = (b.constant(limit, b.dtype(value)) for limit in given)
    return b.op("Min", b.op("Max", value, low), high)


_ACTIVATIONS: dict[str, tuple[int, Callable[[Builder, str, Sequence[float]], str]]] = {
    "Relu": (0, lambda b, x, _: b.op("Relu", x)),
    "Sigmoid": (0, lambda b, x, _: b.op("Sigmoid", x)),
    "Tanh": (0, lambda b, x, _: b.op("Tanh", x)),
    "Softsign": (0, lambda b, x, _: b.op("Softsign", x)),
    "Softplus": (0, lambda b, x, _: b.op("Softplus", x)),
    "LeakyRelu": (1, lambda b, x, given: b.op("LeakyRelu", x, alpha=given[0])),
    "Elu": (1, lambda b, x, given: b.op("Elu", x, alpha=given[0])),
    "ThresholdedRelu": (1, lambda b, x, given: b.op("ThresholdedRelu", x, alpha=given[0])),
    "HardSigmoid": (2, lambda b, x, given: b.op("HardSigmoid", x, alpha=given[0], beta=given[1])),
    "Clip": (2, _clip),
}
"""By name: the number of parameters, and how to write the activation out."""


def _activated(b: Builder, value: str, parameters: Sequence[float]) -> str:
    name = b.text("activation", "")
    if not name:
        return value
    count, write = _ACTIVATIONS.get(name, (0, None))
    if write is None or len(parameters) < count:
        wrong = f"does not know activation {name!r}" if write is None else f"has too few parameters for {name}"
        raise UnsupportedOperator(f"{b.shown} {wrong}; optimise the model at level basic")
    return write(b, value, parameters)


def fused_conv(b: Builder, _: onnx.NodeProto) -> None:
    """A convolution, to which a tensor may be added before the activation."""
    attributes = {name: value for name, value in b.attributes.items() if not name.startswith("activation")}
    operands = [name for name in (b.input(0), b.input(1), b.input(2)) if name]
    result = b.op("Conv", *operands, **attributes)
    if b.input(3):
        result = b.op("Add", result, b.input(3))
    b.output(0, _activated(b, result, b.attributes.get("activation_params", [])))


def fused_gemm(b: Builder, _: onnx.NodeProto) -> None:
    """A product of matrices and a sum before an activation."""
    attributes = {name: value for name, value in b.attributes.items() if not name.startswith("activation")}
    operands = [name for name in (b.input(0), b.input(1), b.input(2)) if name]
    named = (b.attributes.get(f"activation_{name}") for name in ("alpha", "beta", "gamma"))
    given = [value for value in named if value is not None]
    b.output(0, _activated(b, b.op("Gemm", *operands, **attributes), given))


def fused_matmul(b: Builder, _: onnx.NodeProto) -> None:
    """A product of transposed operands, times a number."""
    left, right = (_transposed(b, b.input(index), side) for index, side in enumerate("AB"))
    b.output(0, b.scaled(b.op("MatMul", left, right), b.number("alpha", 1.0)))


def _transposed(b: Builder, name: str, side: str) -> str:
    """An operand: its first axis may have to go behind those of the batch, and its last two may have to change."""
    order = list(range(len(b.shape(name))))
    if len(order) < 2:
        return name
    if b.integer(f"transBatch{side}", 0):
        order = [*order[1:-1], order[0], order[-1]]
    if b.integer(f"trans{side}", 0):
        order[-2:] = order[:-3:-1]
    return b.moved(name, *order)


def matmul_integer16(b: Builder, _: onnx.NodeProto) -> None:
    """A product of integers of 16 bits, summed in 32."""
    b.output(0, b.op("MatMul", b.cast(b.input(0), "int32"), b.cast(b.input(1), "int32")))


def layer_normalization(b: Builder, node: onnx.NodeProto) -> None:
    """That of ONNX, in a model of an opset that does not have it yet."""
    rank = len(b.shape(b.input(0)))
    axes = list(range(int(b.integer("axis", -1)) % rank, rank))
    result, mean, inverse = normalised(b, b.input(0), axes, b.number("epsilon", 1e-5), centred=True)
    _give_normalised(b, node, result, [mean, inverse], b.input(1), b.input(2))


def simplified_layer_normalization(b: Builder, node: onnx.NodeProto) -> None:
    """Each row divided by its root mean square."""
    rank = len(b.shape(b.input(0)))
    axes = list(range(int(b.integer("axis", -1)) % rank, rank))
    result, _, inverse = normalised(b, b.input(0), axes, b.number("epsilon", 1e-5), centred=False)
    _give_normalised(b, node, result, [inverse], b.input(1), "")


def skip_layer_normalization(b: Builder, node: onnx.NodeProto) -> None:
    """The normalised sum of two tensors, and of a bias; the sum itself may be the fourth output."""
    total = b.op("Add", b.input(0), b.input(1))
    total = b.op("Add", total, b.input(4)) if b.input(4) else total
    _skip(b, node, total, b.input(3), centred=True)


def skip_simplified_layer_normalization(b: Builder, node: onnx.NodeProto) -> None:
    """The sum of two tensors, and of a bias, each row divided by its root mean square."""
    total = b.op("Add", b.input(0), b.input(1))
    total = b.op("Add", total, b.input(3)) if b.input(3) else total
    _skip(b, node, total, "", centred=False)


def _skip(b: Builder, node: onnx.NodeProto, total: str, offset: str, *, centred: bool) -> None:
    axes = [len(b.shape(total)) - 1]
    if centred and not any(node.output[1:3]):
        b.output(0, layer_normalised(b, total, b.input(2), offset))
        b.output(3, total)
        return
    result, mean, inverse = normalised(b, total, axes, b.number("epsilon", 1e-12), centred=centred)
    _give_normalised(b, node, result, [mean, inverse], b.input(2), offset)
    b.output(3, total)


def layer_normalised(b: Builder, x: str, scale: str, offset: str) -> str:
    """The rows of `x`, normalised, times `scale` and plus `offset`, which may be ""."""
    epsilon, last = b.number("epsilon", 1e-12), len(b.shape(x)) - 1
    if b.opset >= _LAYER_NORMALIZATION:
        return b.op("LayerNormalization", x, scale, *filter(None, [offset]), axis=last, epsilon=epsilon)
    result, _, _ = normalised(b, x, [last], epsilon, centred=True)
    result = b.op("Mul", result, scale)
    return b.op("Add", result, offset) if offset else result


def _give_normalised(
    b: Builder, node: onnx.NodeProto, result: str, statistics: Sequence[str], scale: str, offset: str
) -> None:
    result = b.op("Mul", result, scale)
    b.output(0, b.op("Add", result, offset) if offset else result)
    for index, value in enumerate(statistics, 1):
        if index < len(node.output):
            b.output(index, value)


def normalised(b: Builder, x: str, axes: list[int], epsilon: float, *, centred: bool) -> tuple[str, str, str]:
    """(x - mean) / sqrt(variance + epsilon) along `axes`, the mean, and 1 / sqrt(variance + epsilon).

    The mean is 0 where the rows are not `centred`. Halves are computed in float32.
    """
    dtype: Any = b.dtype(x)
    wide = b.cast(x, "float32") if dtype == np.float16 else x
    mean = b.mean(wide, axes)
    wide = b.op("Sub", wide, mean) if centred else wide
    variance = b.mean(b.op("Mul", wide, wide), axes)
    root = b.op("Sqrt", b.op("Add", variance, b.constant(epsilon, b.dtype(wide))))
    result, inverse = b.op("Div", wide, root), b.op("Reciprocal", root)
    return (b.cast(result, dtype) if dtype == np.float16 else result), mean, inverse
