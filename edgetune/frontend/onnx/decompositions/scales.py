"""Scales and zero points of quantised tensors, as the operators QuantizeLinear and DequantizeLinear of ONNX take them.

Quantised weights reach the graph as a DequantizeLinear of their constant integers: so they stay integers in a package.
"""

from __future__ import annotations

import math

import numpy as np

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.decompositions.builder import Builder

_DEFAULT_AXIS = 1
"""The axis of several scales where the operator names none."""


def dequantised(b: Builder, integers: str, scale: str, zero: str, axis: int | None = None) -> str:
    """(integers - zero) * scale; several scales apply along `axis`, None where they may only be one number.

    A zero point that is "" is 0. Scales that DequantizeLinear does not take, since they have several axes or the
    integers only one element along theirs, are broadcast as ONNX's other operators do it.
    """
    integers, zero = _in_bytes(b, integers), _in_bytes(b, zero)
    shape = b.shape(integers)
    place = _place(axis, len(shape))
    scale, zero = _aligned(b, scale, zero, len(shape), place)
    scales = b.shape(scale)
    if len(scales) == 0 or shape[place : place + 1] == scales:
        return b.op("DequantizeLinear", integers, *_given(scale, zero), **_along(b, scale, axis))
    if len(scales) == 1 and place < len(shape) - 1:
        raise _misfit(b, scales, shape)
    _common(b, shape, scales)
    centred = b.cast(integers, b.dtype(scale))
    centred = b.op("Sub", centred, b.cast(zero, b.dtype(scale))) if zero else centred
    return b.op("Mul", centred, scale)


def quantised(b: Builder, value: str, scale: str, zero: str, like: str = "", axis: int | None = None) -> str:
    """`value` in steps of `scale`, in the type of `zero`; a zero point that is "" is 0 in the type of `like`."""
    zero = zero or (b.constant(np.zeros(b.shape(scale)), b.dtype(like)) if like else "")
    rank = len(b.shape(value))
    scale, zero = _aligned(b, scale, zero, rank, _place(axis, rank))
    return b.op("QuantizeLinear", value, *_given(scale, zero), **_along(b, scale, axis))


def rounded_to_range(b: Builder, x: str) -> str:
    """`x` in floats, each rounded to a multiple of its range over 255."""
    integers, scale, zero = b.ops("DynamicQuantizeLinear", 3, x)
    return dequantised(b, integers, scale, zero)


def _place(axis: int | None, rank: int) -> int:
    """The axis of several scales, counted from the first one; there is none in a scalar."""
    return (_DEFAULT_AXIS if axis is None else axis) % max(rank, 1)


def _aligned(b: Builder, scale: str, zero: str, rank: int, axis: int) -> tuple[str, str]:
    """Both in one shape: no axes for one number, and one axis for numbers along `axis` of a tensor of that rank."""
    shape: tuple[int, ...] = ()
    for name in _given(scale, zero):
        shape = _common(b, shape, b.shape(name) if math.prod(b.shape(name)) != 1 else ())
    whole = (1,) * (rank - len(shape)) + shape
    flat = len(shape) > 1 and len(whole) == rank and math.prod(shape) == whole[axis]
    shown = (whole[axis],) if flat else shape
    return _spread(b, scale, shape, shown), _spread(b, zero, shape, shown) if zero else ""


def _spread(b: Builder, name: str, shape: tuple[int, ...], shown: tuple[int, ...]) -> str:
    """`name` repeated to `shape`, and that in another shape of as many elements."""
    if math.prod(b.shape(name)) != math.prod(shape):
        name = b.op("Expand", name, b.constant(shape, "int64"))
    return name if b.shape(name) == shown else b.reshape(name, *shown)


def _common(b: Builder, one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that both broadcast to."""
    try:
        return np.broadcast_shapes(one, other)
    except ValueError:
        raise _misfit(b, one, other) from None


def _misfit(b: Builder, one: tuple[int, ...], other: tuple[int, ...]) -> UnsupportedOperator:
    return UnsupportedOperator(
        f"{b.shown} has integers, scales or zero points of the shapes {one} and {other}, which do not fit one another; "
        "export the model again"
    )


def _given(scale: str, zero: str) -> list[str]:
    return [scale, zero] if zero else [scale]


def _along(b: Builder, scale: str, axis: int | None) -> dict[str, int]:
    return {} if axis is None or math.prod(b.shape(scale)) == 1 else {"axis": axis}


def _in_bytes(b: Builder, name: str) -> str:
    """Constant integers of fewer than 8 bits, one in each byte: the values are the same."""
    value = b.value(name) if name else None
    if value is None or value.dtype.name not in {"int4", "uint4", "int2", "uint2"}:
        return name
    return b.constant(value.astype("uint8" if value.dtype.name.startswith("u") else "int8"))
