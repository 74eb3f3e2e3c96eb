"""Quantised convolutions whose sums are scaled in fixed point, as TensorFlow Lite does, and what they compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx, topi

from edgetune.graph.fixed_point import fixed_point_scale
from edgetune.graph.kernels import SCALES_SHIFT, SCALES_SHIFT_LITTLE, SYMMETRIC_BYTES
from tests.integer_samples import Quantised
from tests.sketch_samples import Array, prim_func

_ADDED = 2200318592  # a scale that does not shift
_SUM = 97102993  # and one that shifts by 17


@dataclass(frozen=True)
class FixedPoint(Quantised):
    """A convolution of int8 images, scaled per channel by shifts from `least` to `most`, with `zero` added.

    The other image of a `residual` one is scaled by a shift of `other` bits.
    """

    zeros: tuple[int, int] = (0, 0)
    border: int = 5
    least: int = 5
    most: int = 12
    zero: int = -3
    other: int = 2
    symmetric: bool = True  # no weight is -128

    def function(self) -> Any:
        """The unscheduled kernel: data, weights, scales (uint32), bias (int32), perhaps another image, output."""
        x, w, sums = self.sums()
        bias = te.placeholder((1, 1, 1, self.out), "int32", name="bias")
        scale = te.placeholder((self.out,), "uint32", name="scale")
        sums = topi.add(sums, bias)
        y = te.compute(
            sums.shape,
            lambda n, i, j, c: fixed_point_scale(sums[n, i, j, c], scale[c]) + tirx.const(self.zero, "int32"),
            name="scaled",
        )
        inputs = [x, w, scale, bias]
        y = topi.cast(topi.clip(y, -128, 127), "int8")
        if self.residual:
            inputs.append(te.placeholder(tuple(y.shape), "int8", name="other"))
            y = _added(y, inputs[-1], _ADDED + self.other)
        function = prim_func(inputs, y, [1]).with_attr(SCALES_SHIFT, [2])
        function = function.with_attr(SCALES_SHIFT_LITTLE, [2]) if self.most <= 12 else function
        return function.with_attr(SYMMETRIC_BYTES, 1) if self.symmetric else function

    def arrays(self, seed: int = 1) -> list[Array]:
        """Arguments with many numbers at the ends of their range, the output filled with another number."""
        random = np.random.default_rng(seed)
        shape = (self.out, *self.kernel, self.shape[2] // self.groups)
        x = random.integers(-128, 128, (1, *self.shape), np.int8)
        w = random.integers(-127 if self.symmetric else -128, 128, shape, np.int8)
        x[random.random(x.shape) < 0.4] = random.choice([-128, 127])
        w[random.random(w.shape) < 0.4] = random.choice([-127, 127])
        bias = random.integers(-4000, 4000, (1, 1, 1, self.out)).astype(np.int32)
        digits = random.integers(0, 1 << 27, self.out).astype(np.uint32)
        shifts = random.integers(self.least, self.most + 1, self.out).astype(np.uint32)
        scale = digits << np.uint32(5) | shifts
        sums = self._sums(x, w).shape
        other = [random.integers(-128, 128, sums, np.int8)] if self.residual else []
        return [x, w, scale, bias, *other, np.full(sums, 77, np.int8)]

    def expected(self, x: Array, w: Array, scale: Array, bias: Array, *other: Array) -> Array:
        """The output, exactly."""
        found = np.clip(scaled(self._sums(x, w) + bias, scale) + self.zero, -128, 127)
        if self.residual:
            added = scaled(other[0].astype("int64") * (1 << 20) + (1 << 27), np.array([_ADDED + self.other], np.uint32))
            found = np.clip(scaled(found * (1 << 19) + added - (1 << 21), np.array([_SUM], np.uint32)) - 128, -128, 127)
        result: Array = found.astype(np.int8)
        return result


def _added(y: Any, other: Any, scale: int) -> Any:
    """The sum of two images of bytes with different scales."""

    def total(*place: Any) -> Any:
        own = y(*place).astype("int32") * tirx.const(1 << 19, "int32")
        shifted = other(*place).astype("int32") * tirx.const(1 << 20, "int32") + tirx.const(1 << 27, "int32")
        added = fixed_point_scale(shifted, tirx.const(scale, "uint32"))
        whole = fixed_point_scale(own + added - tirx.const(1 << 21, "int32"), tirx.const(_SUM, "uint32"))
        return whole + tirx.const(-128, "int32")

    whole = te.compute(y.shape, total, name="total")
    return topi.cast(topi.clip(whole, -128, 127), "int8")


def scaled(x: Array, scale: Array) -> Array:
    """`MultiplyByQuantizedMultiplier` of TensorFlow Lite, of numbers whose last axis is that of the scales."""
    wide = x.astype("int64")
    m = ((scale.astype("int64") >> 5) + (1 << 27)) << 3
    right = scale.astype("int64") & 31
    high = (wide * m + (1 << 30)) >> 31
    half = (1 << right) >> 1
    found: Array = np.where(high >= 0, (high + half) >> right, -((half - high) >> right))
    return found
