"""Convolutions of the Ansor paper, word for word as TVM's `te_workload` writes them: what a reader of it tries first.

Each has the shape, and the PyTorch side, of a case of `paper_operators.py`, whose form is more plain. Here every image
is padded, by zero rows too, a convolution of one group divides its channels by all of them, and a transposed one asks
for each element whether it lies between those of the image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tvm import te, tirx, topi

from benchmarks.search.expression import Expression, Tensors
from benchmarks.search.paper_operators import Window, capsule, convolution, depthwise, transposed


def published() -> Iterator[Expression]:
    """All 8 cases: the second shape of each operator with batch 1."""
    yield grouped("published_c1d", (128,), (128, 256), Window(1, 2, 0))
    yield grouped("published_c2d", (56, 56), (64, 64), Window(1, 1, 0))
    yield grouped("published_c3d", (16, 56, 56), (64, 64), Window(1, 1, 0))
    yield grouped("published_dil", (56, 56), (64, 64), Window(3, 1, 1, 2))
    yield grouped("published_grp", (56, 56), (64, 64), Window(1, 1, 0), 4)
    yield by_channel("published_dep", 112, 64, 3, 2, 1)
    yield spread("published_t2d", 8, (256, 128), 4, 2, 1)
    yield capsules("published_cap", 8, (32, 32), 3, 1, 1)


def grouped(
    name: str, image: tuple[int, ...], channels: tuple[int, int], window: Window, groups: int = 1
) -> Expression:
    """C1D, C2D, C3D, GRP and DIL: `conv1d_nlc`, `conv2d_nhwc` and `conv3d_ndhwc` have this one form."""
    plain = convolution(name, 1, image, channels, window, groups)
    kernel, stride, padding, dilation = window
    share, each = channels[0] // groups, channels[1] // groups

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        taps = [te.reduce_axis((0, kernel), f"r{axis}") for axis in range(len(image))]
        rc = te.reduce_axis((0, share), "rc")
        padded = topi.nn.pad(x, [0, *[padding] * len(image), 0])

        def value(n: Any, *place: Any) -> Any:
            *at, co = place
            rows = [i * stride + r * dilation for i, r in zip(at, taps, strict=True)]
            return te.sum(padded(n, *rows, co // each * share + rc) * w(*taps, rc, co), axis=[*taps, rc])

        return te.compute(plain.output, value, "conv")

    return replace(plain, compute=compute)


def by_channel(name: str, size: int, channels: int, kernel: int, stride: int, padding: int) -> Expression:
    """DEP: `depthwise_conv2d_nhwc` divides by the results of a channel, of which there is one."""
    plain = depthwise(name, 1, size, channels, kernel, stride, padding)
    factor = 1

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        padded = topi.nn.pad(x, [0, padding, padding, 0])
        rh, rw = te.reduce_axis((0, kernel), "rh"), te.reduce_axis((0, kernel), "rw")

        def value(n: Any, h: Any, v: Any, c: Any) -> Any:
            element = padded[n, h * stride + rh, v * stride + rw, c // factor]
            return te.sum(element * w[c % factor, rh, rw, c // factor], axis=[rh, rw])

        return te.compute(plain.output, value, "depth_conv2d_nhwc")

    def variants(torch: Any, t: Tensors) -> Sequence[Callable[[], Any]]:
        return plain.variants(torch, {**t, "w": t["w"][0]}) if plain.variants else []

    return replace(plain, constants={"w": (factor, kernel, kernel, channels)}, compute=compute, variants=variants)


def spread(name: str, size: int, channels: tuple[int, int], kernel: int, stride: int, padding: int) -> Expression:
    """T2D: `conv2d_transpose_nhwc` has the zeros between elements in the sum."""
    plain = transposed(name, 1, size, channels, kernel, stride, padding)
    edge = (kernel - 1 - padding + stride - 1) // stride
    border = (stride - (kernel - 1 - padding) % stride) % stride

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        padded = topi.nn.pad(x, [0, edge, edge, 0], [0, edge, edge, 0])
        rc = te.reduce_axis((0, channels[0]), "rc")
        rh, rw = te.reduce_axis((0, kernel), "rh"), te.reduce_axis((0, kernel), "rw")

        def dilated(n: Any, h: Any, v: Any, c: Any) -> Any:
            exists = te.all(te.indexmod(h, stride).equal(0), te.indexmod(v, stride).equal(0))
            element = padded(n, te.indexdiv(h, stride), te.indexdiv(v, stride), c)
            return te.if_then_else(exists, element, tirx.const(0.0, "float32"))

        return te.compute(
            plain.output,
            lambda n, h, v, co: te.sum(
                dilated(n, h + rh + border, v + rw + border, rc) * w[kernel - 1 - rh, kernel - 1 - rw, rc, co],
                axis=[rh, rw, rc],
            ),
            "conv2d_transpose_nhwc",
        )

    return replace(plain, compute=compute)


def capsules(name: str, size: int, channels: tuple[int, int], kernel: int, stride: int, padding: int) -> Expression:
    """CAP: `conv2d_capsule_nhwijc`."""
    plain = capsule(name, 1, size, channels, kernel, stride, padding)

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        rh, rw = te.reduce_axis((0, kernel), "rh"), te.reduce_axis((0, kernel), "rw")
        cap_k, rc = te.reduce_axis((0, 4), "cap_k"), te.reduce_axis((0, channels[0]), "rc")
        padded = topi.nn.pad(x, [0, padding, padding, 0, 0, 0])
        return te.compute(
            plain.output,
            lambda n, h, v, i, j, co: te.sum(
                padded[n, h * stride + rh, v * stride + rw, i, cap_k, rc] * w[rh, rw, cap_k, j, rc, co],
                axis=[rh, rw, cap_k, rc],
            ),
            "conv2d_capsule_nhwijc",
        )

    return replace(plain, compute=compute)
