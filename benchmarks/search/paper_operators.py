"""The operators of the Ansor paper (Zheng et al., OSDI 2020, section 7.1) with the shapes of TVM's `te_workload`.

Tensors are channels last, as there. Weights are constants; the operands of GMM and TBS are inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

from tvm import te, tirx, topi

from benchmarks.search.expression import Expression, Tensors

MOST_OPERATIONS = 4 * 10**9
"""Larger cases are left out: a multiply-add is two operations."""


Call = Callable[[], Any]


def in_layouts(torch: Any, x: Any, w: Any, run: Callable[[Any, Any], Any]) -> list[Call]:
    """`run(x, w)` with both operands contiguous, and channels last where PyTorch has that for their rank."""
    formats = {4: [torch.channels_last], 5: [torch.channels_last_3d]}.get(x.dim(), [])
    operands = [[t.contiguous(memory_format=form) for t in (x, w)] for form in (torch.contiguous_format, *formats)]
    return [partial(run, *pair) for pair in operands]


class Window(NamedTuple):
    """The taps of a convolution, equal in all its dimensions."""

    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1


def convolution(
    name: str,
    batch: int,
    image: Sequence[int],
    channels: tuple[int, int],
    window: Window,
    groups: int = 1,
    *,
    normalised: bool = False,
) -> Expression:
    """A convolution of 1 to 3 dimensions; `normalised`: bias, batch normalisation and ReLU follow."""
    rank, (inner, outer) = len(image), channels
    kernel, stride, padding, dilation = window
    share = inner // groups
    result = [(size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for size in image]
    constants = {"w": (*[kernel] * rank, share, outer)}
    if normalised:
        constants |= dict.fromkeys(("bias", "scale", "offset"), (outer,))

    def compute(x: te.Tensor, w: te.Tensor, *after: te.Tensor) -> te.Tensor:
        edge = [0, *[padding] * rank, 0]
        padded = topi.nn.pad(x, edge, edge) if padding else x
        taps = [te.reduce_axis((0, kernel), f"k{'dhw'[3 - rank + axis]}") for axis in range(rank)]
        ic = te.reduce_axis((0, share), "ic")

        def value(n: Any, *place: Any) -> Any:
            *at, oc = place
            rows = [i * stride + k * dilation for i, k in zip(at, taps, strict=True)]
            channel = ic if groups == 1 else tirx.floordiv(oc, outer // groups) * share + ic
            return te.sum(padded(n, *rows, channel) * w(*taps, ic, oc), axis=[*taps, ic])

        found = te.compute((batch, *result, outer), value, "conv")
        if not after:
            return found
        bias, scale, offset = after
        return te.compute(
            found.shape,
            lambda *at: te.max((found(*at) + bias(at[-1])) * scale(at[-1]) + offset(at[-1]), tirx.const(0.0)),
            "relu",
        )

    def variants(torch: Any, t: Tensors) -> list[Callable[[], Any]]:
        function = getattr(torch.nn.functional, f"conv{rank}d")
        first, last = (0, rank + 1, *range(1, rank + 1)), (0, *range(2, rank + 2), 1)
        x, w = t["x"].permute(first), t["w"].permute(rank + 1, rank, *range(rank))

        def run(x: Any, w: Any) -> Any:
            y = function(x, w, t.get("bias"), stride, padding, dilation, groups)
            if normalised:
                shape = (1, outer, *[1] * rank)
                y = torch.relu(y * t["scale"].reshape(shape) + t["offset"].reshape(shape))
            return y.permute(last)

        return in_layouts(torch, x, w, run)

    operations = 2 * batch * prod(result) * outer * share * kernel**rank
    return Expression(
        name, {"x": (batch, *image, inner)}, constants, (batch, *result, outer), operations, compute, variants
    )


def depthwise(name: str, batch: int, size: int, channels: int, kernel: int, stride: int, padding: int) -> Expression:
    """A depthwise convolution of square images."""
    result = (size + 2 * padding - kernel) // stride + 1

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        padded = topi.nn.pad(x, [0, padding, padding, 0], [0, padding, padding, 0])
        kh, kw = te.reduce_axis((0, kernel), "kh"), te.reduce_axis((0, kernel), "kw")
        return te.compute(
            (batch, result, result, channels),
            lambda n, h, v, c: te.sum(padded[n, h * stride + kh, v * stride + kw, c] * w[kh, kw, c], axis=[kh, kw]),
            "depthwise",
        )

    def variants(torch: Any, t: Tensors) -> list[Callable[[], Any]]:
        x, w = t["x"].permute(0, 3, 1, 2), t["w"].permute(2, 0, 1).reshape(channels, 1, kernel, kernel)
        return in_layouts(
            torch,
            x,
            w,
            lambda x, w: torch.nn.functional.conv2d(x, w, None, stride, padding, 1, channels).permute(0, 2, 3, 1),
        )

    operations = 2 * batch * result**2 * channels * kernel**2
    return Expression(
        name,
        {"x": (batch, size, size, channels)},
        {"w": (kernel, kernel, channels)},
        (batch, result, result, channels),
        operations,
        compute,
        variants,
    )


def transposed(
    name: str, batch: int, size: int, channels: tuple[int, int], kernel: int, stride: int, padding: int
) -> Expression:
    """A transposed convolution of square images, written as a gather of the taps that meet an output pixel."""
    inner, outer = channels
    result = (size - 1) * stride - 2 * padding + kernel
    edge = kernel - 1 - padding

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        dilated = topi.nn.dilate(x, [1, stride, stride, 1], name="dilated")
        padded = topi.nn.pad(dilated, [0, edge, edge, 0], [0, edge, edge, 0])
        kh, kw = te.reduce_axis((0, kernel), "kh"), te.reduce_axis((0, kernel), "kw")
        ic = te.reduce_axis((0, inner), "ic")
        last = kernel - 1
        return te.compute(
            (batch, result, result, outer),
            lambda n, h, v, c: te.sum(
                padded[n, h + kh, v + kw, ic] * w[last - kh, last - kw, ic, c], axis=[kh, kw, ic]
            ),
            "transposed",
        )

    def variants(torch: Any, t: Tensors) -> list[Callable[[], Any]]:
        x, w = t["x"].permute(0, 3, 1, 2), t["w"].permute(2, 3, 0, 1)
        return in_layouts(
            torch,
            x,
            w,
            lambda x, w: torch.nn.functional.conv_transpose2d(x, w, None, stride, padding).permute(0, 2, 3, 1),
        )

    return Expression(
        name,
        {"x": (batch, size, size, inner)},
        {"w": (kernel, kernel, inner, outer)},
        (batch, result, result, outer),
        2 * batch * size**2 * inner * outer * kernel**2,
        compute,
        variants,
    )


def capsule(
    name: str, batch: int, size: int, channels: tuple[int, int], kernel: int, stride: int, padding: int
) -> Expression:
    """A convolution of matrices of 4x4. PyTorch computes it as a convolution of four times the batch."""
    inner, outer = channels
    side = 4
    result = (size + 2 * padding - kernel) // stride + 1

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        edge = [0, padding, padding, 0, 0, 0]
        padded = topi.nn.pad(x, edge, edge) if padding else x
        kh, kw = te.reduce_axis((0, kernel), "kh"), te.reduce_axis((0, kernel), "kw")
        k, ic = te.reduce_axis((0, side), "k"), te.reduce_axis((0, inner), "ic")
        return te.compute(
            (batch, result, result, side, side, outer),
            lambda n, h, v, i, j, c: te.sum(
                padded[n, h * stride + kh, v * stride + kw, i, k, ic] * w[kh, kw, k, j, ic, c], axis=[kh, kw, k, ic]
            ),
            "capsule",
        )

    def variants(torch: Any, t: Tensors) -> list[Callable[[], Any]]:
        x = t["x"].permute(0, 3, 4, 5, 1, 2).reshape(batch * side, side * inner, size, size)
        w = t["w"].permute(3, 5, 2, 4, 0, 1).reshape(side * outer, side * inner, kernel, kernel)
        return in_layouts(
            torch,
            x,
            w,
            lambda x, w: (
                torch.nn.functional.conv2d(x, w, None, stride, padding)
                .reshape(batch, side, side, outer, result, result)
                .permute(0, 4, 5, 1, 2, 3)
            ),
        )

    return Expression(
        name,
        {"x": (batch, size, size, side, side, inner)},
        {"w": (kernel, kernel, side, side, inner, outer)},
        (batch, result, result, side, side, outer),
        2 * batch * result**2 * side**3 * inner * outer * kernel**2,
        compute,
        variants,
    )


def product(name: str, batch: int, m: int, n: int, k: int, *, transposed_b: bool = False) -> Expression:
    """A batch of products of matrices, both of them inputs; `transposed_b`: of A and the transpose of B."""

    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        r = te.reduce_axis((0, k), "k")
        return te.compute(
            (batch, m, n),
            lambda i, x, y: te.sum(a[i, x, r] * (b[i, y, r] if transposed_b else b[i, r, y]), axis=r),
            "matmul",
        )

    def variants(torch: Any, t: Tensors) -> list[Callable[[], Any]]:
        right = t["b"].transpose(1, 2) if transposed_b else t["b"]
        return [lambda: torch.matmul(t["a"], right)]

    shape = (batch, n, k) if transposed_b else (batch, k, n)
    return Expression(
        name, {"a": (batch, m, k), "b": shape}, {}, (batch, m, n), 2 * batch * m * n * k, compute, variants
    )


def norm(name: str, batch: int, m: int, n: int) -> Expression:
    """The 2-norm of each matrix of a batch."""

    def compute(a: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, m), "i"), te.reduce_axis((0, n), "j")
        squares = te.compute((batch,), lambda b: te.sum(a[b, i, j] * a[b, i, j], axis=[i, j]), "squares")
        return te.compute((batch,), lambda b: te.sqrt(squares[b]), "norm")

    def variants(torch: Any, t: Tensors) -> list[Callable[[], Any]]:
        a = t["a"]
        return [
            lambda: torch.linalg.vector_norm(a, dim=(1, 2)),
            lambda: torch.sqrt((a * a).sum((1, 2))),
        ]

    return Expression(name, {"a": (batch, m, n)}, {}, (batch,), 2 * batch * m * n, compute, variants)


def scores(name: str, batch: int, length: int, heads: int, width: int) -> Expression:
    """Transposition, batch of products, softmax: the scores of attention (TBS)."""

    def compute(q: te.Tensor, v: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, width), "k")
        q_t = te.compute((batch, heads, length, width), lambda b, h, i, d: q[b, i, h, d], "q_t")
        v_t = te.compute((batch, heads, width, length), lambda b, h, d, j: v[b, j, h, d], "v_t")
        shape = (batch, heads, length, length)
        s = te.compute(shape, lambda b, h, i, j: te.sum(q_t[b, h, i, k] * v_t[b, h, k, j], axis=k), "s")
        return topi.nn.softmax(s, axis=-1)

    def variants(torch: Any, t: Tensors) -> list[Callable[[], Any]]:
        return [
            lambda: torch.softmax(torch.matmul(t["q"].permute(0, 2, 1, 3), t["v"].permute(0, 2, 3, 1)), -1),
        ]

    shape, result = (batch, length, heads, width), (batch, heads, length, length)
    operations = 2 * prod(result) * width + 20 * prod(result)
    return Expression(name, {"q": shape, "v": shape}, {}, result, operations, compute, variants)


_RESNET = (
    ((56, 56), (64, 64), Window(1, 1, 0)),
    ((14, 14), (256, 256), Window(3, 1, 1)),
    ((7, 7), (512, 512), Window(3, 1, 1)),
)
_IMAGE = ((224, 224), (3, 64), Window(7, 2, 3))
_SHAPES: dict[str, tuple[Callable[..., Expression], Sequence[tuple[Any, ...]]]] = {
    "C1D": (
        convolution,
        [
            ((256,), (64, 128), Window(3, 2, 1)),
            ((128,), (128, 256), Window(1, 2, 0)),
            ((64,), (256, 256), Window(5, 1, 2)),
            ((32,), (512, 512), Window(3, 1, 1)),
        ],
    ),
    "C2D": (convolution, [_IMAGE, *_RESNET]),
    "C3D": (convolution, [((16, *image), *rest) for image, *rest in (_IMAGE, *_RESNET)]),
    "GMM": (product, [(128, 128, 128), (512, 32, 512), (512, 512, 512), (1024, 1024, 1024)]),
    "GRP": (convolution, [(*shape, 4) for shape in (((56, 56), (64, 128), Window(3, 2, 1)), *_RESNET)]),
    "DIL": (convolution, [(*shape, window._replace(dilation=2)) for *shape, window in (_IMAGE, *_RESNET)]),
    "DEP": (depthwise, [(112, 32, 3, 1, 1), (112, 64, 3, 2, 1), (14, 512, 3, 2, 1), (7, 1024, 3, 1, 1)]),
    "T2D": (
        transposed,
        [
            (size, channels, 4, 2, 1)
            for size, channels in ((4, (512, 256)), (8, (256, 128)), (16, (128, 64)), (32, (64, 3)))
        ],
    ),
    "CAP": (
        capsule,
        [(16, (32, 32), 3, 2, 1), (8, (32, 32), 3, 1, 1), (16, (8, 16), 3, 2, 1), (8, (16, 16), 3, 1, 1)],
    ),
    "NRM": (norm, [(256, 256), (512, 512), (1024, 1024), (4096, 1024)]),
    "CBR": (
        partial(convolution, normalised=True),
        [
            _IMAGE,
            ((56, 56), (64, 128), Window(3, 2, 1)),
            ((28, 28), (128, 256), Window(1, 2, 0)),
            ((7, 7), (512, 512), Window(3, 1, 1)),
        ],
    ),
    "TBS": (scores, [(128, 12, 64), (128, 16, 64), (64, 12, 128), (128, 12, 128)]),
}
_SUBGRAPHS = ("CBR", "TBS")


def paper_operators() -> Iterator[Expression]:
    """All cases: four shapes of each operator with batch 1 and 16; the two subgraphs with batch 1 alone."""
    for name, (make, shapes) in _SHAPES.items():
        for batch in (1,) if name in _SUBGRAPHS else (1, 16):
            for number, shape in enumerate(shapes, start=1):
                case = make(f"{name.lower()}_{number}_b{batch}", batch, *shape)
                if case.operations <= MOST_OPERATIONS:
                    yield case


def is_quick(case: str) -> bool:
    """Whether a case is among those of the quick table: the second and the third shape with batch 1, C3D's second."""
    name, number, batch = case.split("_")
    return batch == "b1" and number in ("23" if name != "c3d" else "2")
