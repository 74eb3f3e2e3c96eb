"""Quantised convolutions as graphs leave them, and what they compute, by numpy."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from tvm import te, tirx, topi

from edgetune.graph.integer_products import ZeroPoints, integer_convolution
from tests.sketch_samples import Array, conv2d_reference, prim_func


@dataclass(frozen=True)
class Quantised:
    """A convolution of int8 images (height, width, channels), scaled per channel and quantised again."""

    shape: tuple[int, int, int] = (6, 10, 8)
    out: int = 32
    kernel: tuple[int, int] = (3, 3)
    stride: int = 1
    pad: tuple[int, int, int, int] = (1, 1, 1, 1)
    groups: int = 1
    zeros: tuple[int, int] = (-128, 0)  # of data and of weights
    border: int = 0  # what padding writes, where it is not 0
    data: str = "int8"
    residual: bool = False

    def sums(self) -> tuple[Any, Any, Any]:
        """The placeholders of data and weights, and the sums of their products (int32)."""
        x = te.placeholder((1, *self.shape), self.data, name="x")
        w = te.placeholder((self.out, *self.kernel, self.shape[2] // self.groups), "int8", name="w")
        attrs = SimpleNamespace(
            strides=[self.stride] * 2,
            padding=self.pad,
            dilation=[1, 1],
            groups=self.groups,
            data_layout="NHWC",
            kernel_layout="OHWI",
        )
        return x, w, integer_convolution(x, w, zeros=ZeroPoints(*self.zeros, self.border), attrs=attrs)

    def function(self) -> Any:
        """The unscheduled kernel: data, weights (free to be packed), scale, bias, perhaps another image, output."""
        x, w, sums = self.sums()
        scale = te.placeholder((1, 1, 1, self.out), name="scale")
        bias = te.placeholder((1, 1, 1, self.out), name="bias")
        y = topi.cast(sums, "float32")
        y = topi.add(topi.multiply(y, scale), bias)
        inputs = [x, w, scale, bias]
        if self.residual:
            inputs.append(te.placeholder(tuple(y.shape), "int8", name="other"))
            y = topi.add(y, topi.multiply(topi.cast(inputs[-1], "float32"), tirx.const(0.5, "float32")))
        rounded = te.compute(y.shape, lambda *i: tirx.nearbyint(y(*i)) + tirx.const(-3, "float32"), name="rounded")
        return prim_func(inputs, topi.cast(topi.clip(rounded, -128.0, 127.0), "int8"), [1])

    def arrays(self, seed: int = 1) -> list[Array]:
        """Arguments, the output filled with a value that no kernel leaves everywhere."""
        random = np.random.default_rng(seed)
        shapes = (1, *self.shape), (self.out, *self.kernel, self.shape[2] // self.groups)
        ends = np.iinfo(self.data)
        x, w = (
            random.integers(ends.min, ends.max, shapes[0], self.data, endpoint=True),
            random.integers(-128, 128, shapes[1], np.int8),
        )
        depth = int(np.prod(w.shape[1:]))
        scale = (random.uniform(0.5, 1.5, (1, 1, 1, self.out)) / (80.0 * depth**0.5 * 50)).astype(np.float32)
        bias = random.uniform(-40, 40, (1, 1, 1, self.out)).astype(np.float32)
        shape = self._sums(x, w).shape
        other = [random.integers(-128, 128, shape, np.int8)] if self.residual else []
        return [x, w, scale, bias, *other, np.full(shape, 77, np.int8)]

    def _sums(self, x: Array, w: Array) -> Array:
        centred = x.astype("int64") - self.zeros[0], w.astype("int64") - self.zeros[1]
        own = self.border * centred[1].sum((1, 2, 3))
        sums: Array = conv2d_reference(centred[0] - self.border, centred[1], self.stride, self.pad, self.groups) + own
        return sums

    def expected(self, x: Array, w: Array, scale: Array, bias: Array, *other: Array) -> Array:
        """The output, float32 behind exact sums; where a product falls between two numbers, off by one at most."""
        y = self._sums(x, w).astype(np.float32) * scale + bias
        if self.residual:
            y = y + other[0].astype(np.float32) * np.float32(0.5)
        result: Array = np.clip(np.rint(y) - 3, -128, 127).astype(np.int8)
        return result


def close(result: Array, expected: Array) -> None:
    """Asserts agreement: float contraction may move a value across a half, rarely."""
    steps = np.abs(result.astype(int) - expected.astype(int))
    assert steps.max() <= 1, steps.max()
    assert (steps > 0).mean() < 0.01
    assert len(np.unique(expected)) > 10
