"""Forms of operators of floats whose weights are integers of 8 or 4 bits, as dynamic-range quantisation leaves them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from tests.frontend.tflite.branches import Branches, Cases
from tests.frontend.tflite.writer import Quantised

_TYPES: Mapping[str, tuple[int, float]] = {"INT8": (127, 0.01), "INT4": (7, 0.15)}


def _weights(b: Branches, type_: str, *shape: int, axis: int | None = None) -> int:
    most, step = _TYPES[type_]
    count = 1 if axis is None else shape[axis]
    found = Quantised(b.random.uniform(step / 2, step, count).tolist(), [0] * count, axis or 0)
    return b.writer.constant(b.random.integers(-most, most + 1, shape), type_, found)


def _bias(b: Branches, count: int) -> int:
    return b.writer.constant(b.random.uniform(-1, 1, count), "FLOAT32")


def fully_connected(b: Branches) -> None:
    kind = "FullyConnectedOptions"
    for type_, axis, asymmetric in product(_TYPES, (None, 0), (False, True)):
        inputs = [b.x(4, 20), _weights(b, type_, 12, 20, axis=axis), _bias(b, 12)]
        b.make("FULLY_CONNECTED", inputs, "FLOAT32", kind=kind, AsymmetricQuantizeInputs=asymmetric)
    inputs = [b.x(2, 3, 20), _weights(b, "INT8", 12, 20, axis=0), -1]
    b.make("FULLY_CONNECTED", inputs, "FLOAT32", kind=kind, KeepNumDims=True, FusedActivationFunction=1)


def convolutions(b: Branches) -> None:
    plain: dict[str, Any] = {"Padding": 0, "StrideH": 2, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    for type_, axis in product(_TYPES, (None, 0)):
        inputs = [b.x(2, 7, 6, 3), _weights(b, type_, 5, 3, 3, 3, axis=axis), _bias(b, 5)]
        b.make("CONV_2D", inputs, "FLOAT32", kind="Conv2DOptions", FusedActivationFunction=1, **plain)
    inputs = [b.x(2, 7, 6, 4), _weights(b, "INT8", 1, 3, 3, 4, axis=3), _bias(b, 4)]
    kind, options = "DepthwiseConv2DOptions", plain | {"StrideW": 2, "DepthMultiplier": 1}
    b.make("DEPTHWISE_CONV_2D", inputs, "FLOAT32", kind=kind, **options)


def batch_matmul(b: Branches) -> None:
    for asymmetric, adjoint in product((False, True), (False, True)):
        options = {"AdjX": adjoint, "AdjY": adjoint, "AsymmetricQuantizeInputs": asymmetric}
        inputs = [b.x(2, 9, 4) if adjoint else b.x(2, 4, 9), _weights(b, "INT8", 2, *((5, 9) if adjoint else (9, 5)))]
        b.make("BATCH_MATMUL", inputs, "FLOAT32", kind="BatchMatMulOptions", **options)


def embedding_lookup(b: Branches) -> None:
    for type_ in _TYPES:
        inputs = [b.fed([3, 0, 6, 6], "INT32"), _weights(b, type_, 7, 6, axis=0)]
        b.make("EMBEDDING_LOOKUP", inputs, "FLOAT32")


HYBRID: tuple[Cases, ...] = (fully_connected, convolutions, batch_matmul, embedding_lookup)
"""Forms that LiteRT's reference kernels take."""
