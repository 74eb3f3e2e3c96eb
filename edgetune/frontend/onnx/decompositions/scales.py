"""Scales and zero points of quantised tensors, as the operators QuantizeLinear and DequantizeLinear of ONNX take them.

Quantised weights reach the graph as a DequantizeLinear of their constant integers: so they stay integers in a package.
"""

from __future__ import annotations

import math

import numpy as np

from edgetune.frontend.onnx.decompositions.builder import Builder


def dequantised(b: Builder, integers: str, scale: str, zero: str, axis: int | None = None) -> str:
    """(integers - zero) * scale; several scales apply along `axis`, None where they may only be one number.

    A zero point that is "" is 0.
    """
    integers, zero = _in_bytes(b, integers), _in_bytes(b, zero)
    return b.op("DequantizeLinear", integers, *_aligned(b, scale, zero), **_along(b, scale, axis))


def quantised(b: Builder, value: str, scale: str, zero: str, like: str = "", axis: int | None = None) -> str:
    """`value` in steps of `scale`, in the type of `zero`; a zero point that is "" is 0 in the type of `like`."""
    zero = zero or (b.constant(np.zeros(b.shape(scale)), b.dtype(like)) if like else "")
    return b.op("QuantizeLinear", value, *_aligned(b, scale, zero), **_along(b, scale, axis))


def rounded_to_range(b: Builder, x: str) -> str:
    """`x` in floats, each rounded to a multiple of its range over 255."""
    integers, scale, zero = b.ops("DynamicQuantizeLinear", 3, x)
    return dequantised(b, integers, scale, zero)


def _single(b: Builder, name: str) -> str:
    """A number that a model gives as a tensor of one element, without axes."""
    return b.reshape(name) if name and b.shape(name) else name


def _aligned(b: Builder, scale: str, zero: str) -> list[str]:
    if math.prod(b.shape(scale)) == 1:
        scale, zero = _single(b, scale), _single(b, zero)
    return [scale, zero] if zero else [scale]


def _along(b: Builder, scale: str, axis: int | None) -> dict[str, int]:
    return {} if axis is None or math.prod(b.shape(scale)) == 1 else {"axis": axis}


def _in_bytes(b: Builder, name: str) -> str:
    """Constant integers of fewer than 8 bits, one in each byte: the values are the same."""
    value = b.value(name) if name else None
    if value is None or value.dtype.name not in {"int4", "uint4", "int2", "uint2"}:
        return name
    return b.constant(value.astype("uint8" if value.dtype.name.startswith("u") else "int8"))
