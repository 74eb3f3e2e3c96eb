"""Decompositions for what TVM lacks: mixed types, signs of remainders, one-sided tests, selection."""

from __future__ import annotations

import numpy as np
import onnx

from edgetune.frontend.onnx.decompositions.builder import Builder


def power(b: Builder, _: onnx.NodeProto) -> bool:
    """Base and exponent of two types, or integers: computed in floating point, returned in the type of the base."""
    base, exponent = b.dtype(b.input(0)), b.dtype(b.input(1))
    if base == exponent and base.kind not in "iu":
        return False
    wide = np.dtype("float64") if base.kind in "iu" else base
    result = b.op("Pow", b.cast(b.input(0), wide), b.cast(b.input(1), wide))
    b.output(0, b.cast(b.op("Round", result), base) if base.kind in "iu" else result)
    return True


def remainder(b: Builder, _: onnx.NodeProto) -> bool:
    """Remainder of floats with the sign of the divisor: C's remainder, corrected."""
    x, y = b.input(0), b.input(1)
    if b.attributes.get("fmod", 0) or b.dtype(x).kind in "iu":
        return False
    zero = b.constant(0, b.dtype(x))
    plain = b.op("Mod", x, y, fmod=1)
    signs = b.op("Xor", b.op("Less", plain, zero), b.op("Less", y, zero))
    wrong = b.op("And", b.op("Not", b.op("Equal", plain, zero)), signs)
    b.output(0, b.op("Where", wrong, b.op("Add", plain, y), plain))
    return True


def is_inf(b: Builder, _: onnx.NodeProto) -> bool:
    """Test for infinities of one sign."""
    positive, negative = (b.attributes.get(f"detect_{sign}", 1) for sign in ("positive", "negative"))
    if positive and negative:
        return False
    x = b.input(0)
    side = b.op("Greater" if positive else "Less", x, b.constant(0, b.dtype(x)))
    found = b.op("And", b.op("IsInf", x), side)
    b.output(0, found if positive or negative else b.op("And", found, b.op("Not", found)))
    return True


def one_hot(b: Builder, _: onnx.NodeProto) -> bool:
    """Each index as a row of off values with one on value; for an index outside the depth, only off values."""
    depth = int(b.needed(1, "depth").reshape(-1)[0])
    indices = b.cast(b.input(0), "int64")
    shape = b.shape(indices)
    axis = int(b.attributes.get("axis", -1)) % (len(shape) + 1)
    size = b.constant(depth, "int64")
    indices = b.op("Where", b.op("Less", indices, b.constant(0, "int64")), b.op("Add", indices, size), indices)
    spread = [1] * (len(shape) + 1)
    spread[axis] = depth
    hit = b.op(
        "Equal", b.reshape(indices, *shape[:axis], 1, *shape[axis:]), b.constant(np.arange(depth).reshape(spread))
    )
    off, on = (b.take(b.input(2), i, 0) for i in (0, 1))
    b.output(0, b.op("Where", hit, on, off))
    return True


def compress(b: Builder, _: onnx.NodeProto) -> bool:
    """The places whose condition holds, where it is constant; all elements in their order without an axis."""
    condition = b.value(b.input(1))
    if condition is None:
        return False
    x, axis = b.input(0), b.attributes.get("axis")
    if axis is None:
        x, axis = b.reshape(x, -1), 0
    extent = b.shape(x)[int(axis)]
    places = np.flatnonzero(condition.reshape(-1)[:extent])
    b.output(0, b.op("Gather", x, b.constant(places, "int64"), axis=int(axis)))
    return True


def pad(b: Builder, _: onnx.NodeProto) -> bool:
    """Constant padding with a value that is not known before run time."""
    if not b.input(2) or b.value(b.input(2)) is not None or b.text("mode", "constant") != "constant":
        return False
    x = b.input(0)
    shape = b.shape(x)
    given = [int(v) for v in b.needed(1, "pads")]
    axes = [int(a) for a in b.needed(3, "axes")] if b.input(3) else list(range(len(shape)))
    widths = [(0, 0)] * len(shape)
    for i, axis in enumerate(axes):
        widths[axis % len(shape)] = (given[i], given[len(axes) + i])
    inside = np.ones([e + min(low, 0) + min(high, 0) for e, (low, high) in zip(shape, widths, strict=True)], bool)
    inside = np.pad(inside, [(max(low, 0), max(high, 0)) for low, high in widths])
    flat = b.constant([w[0] for w in widths] + [w[1] for w in widths], "int64")
    value = b.reshape(b.input(2))
    b.output(0, b.op("Where", b.constant(inside), b.op("Pad", x, flat), value))
    return True
