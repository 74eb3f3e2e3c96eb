"""Held-out expressions: written after the rules, and in none of their tests. What was learnt on others is tried here.

Like `unforeseen.py`, each has a definition in double precision and no PyTorch side.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from tvm import te, tirx, topi

from benchmarks.search.expression import EXP, Checked, Expression
from benchmarks.search.unforeseen import case, einsum, window


def held_out() -> Iterator[Expression]:
    """All 30 cases."""
    yield from _products()
    yield from _distances()
    yield from _channels_first()
    yield from _rows()
    yield from _sequences()


def _products() -> Iterator[Expression]:
    yield einsum("bilinear", "bi,ij,bj->b", b=16, i=127, j=128)
    yield einsum("heads", "hqk,hkd->qhd", h=4, q=127, k=127, d=32)
    yield einsum("agreement", "ijd,jd->ij", i=1152, j=10, d=16)
    yield einsum("single_rows", "bij,bjk->bik", b=127, i=1, j=128, k=7)
    yield einsum("tall", "ki,kj->ij", k=100_000, i=7, j=7)
    yield einsum("vector_matrix", "i,ij->j", i=1000, j=1000)
    yield einsum("trilinear", "ai,bi,ci->abc", a=32, b=32, c=32, i=64)
    yield einsum("channels_gram", "bcn,bcm->bnm", b=4, c=127, n=100, m=100)
    yield _triangular(128, 127)
    yield _gated(128, 256, 127)


def _triangular(rows: int, columns: int) -> Expression:
    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, rows), "k")
        zero = tirx.const(0.0, "float32")
        return te.compute(
            (rows, columns),
            lambda i, j: te.sum(tirx.if_then_else(k <= i, x[i, k], zero) * y[k, j], axis=k),
            "triangular",
        )

    def reference(x: np.ndarray, y: np.ndarray) -> Checked:
        lower = np.tril(x.astype(np.float64))
        return lower @ y, np.abs(lower) @ np.abs(y)

    operations = rows * (rows + 1) * columns
    inputs = {"x": (rows, rows), "y": (rows, columns)}
    return case("triangular", inputs, (rows, columns), operations, compute, reference)


def _gated(m: int, depth: int, n: int) -> Expression:
    def compute(x: te.Tensor, w: te.Tensor, gate: te.Tensor) -> te.Tensor:
        j, k = te.reduce_axis((0, depth), "j"), te.reduce_axis((0, depth), "k")
        value = te.compute((m, n), lambda i, o: te.sum(x[i, j] * w[j, o], axis=j), "value")
        gated = te.compute((m, n), lambda i, o: te.sum(x[i, k] * gate[k, o], axis=k), "gated")
        return te.compute((m, n), lambda i, o: value[i, o] * te.sigmoid(gated[i, o]), "out")

    def reference(x: np.ndarray, w: np.ndarray, gate: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        factor = 1 / (1 + np.exp(-(wide @ gate)))
        slope = np.abs(wide @ w) * (np.abs(wide) @ np.abs(gate)) / 4
        return (wide @ w) * factor, np.abs(wide) @ np.abs(w) * factor + slope

    inputs = {"x": (m, depth), "w": (depth, n), "gate": (depth, n)}
    return case("gated", inputs, (m, n), m * n * (4 * depth + EXP + 4), compute, reference)


def _pairwise(name: str, rows: int, columns: int, depth: int, *, largest: bool) -> Iterator[Expression]:
    """Largest gaps of all pairs of rows, or a Gaussian of their squared distances."""

    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, depth), "k")
        if largest:
            return te.compute((rows, columns), lambda i, j: te.max(te.abs(a[i, k] - b[j, k]), axis=k), "gaps")
        squares = te.compute(
            (rows, columns), lambda i, j: te.sum((a[i, k] - b[j, k]) * (a[i, k] - b[j, k]), axis=k), "squares"
        )
        return te.compute((rows, columns), lambda i, j: te.exp(squares[i, j] * -0.5), "gaussian")

    def reference(a: np.ndarray, b: np.ndarray) -> Checked:
        gaps = np.abs(a.astype(np.float64)[:, None] - b)
        squares = (gaps**2).sum(-1)
        value = gaps.max(-1) if largest else np.exp(squares * -0.5)
        return value, value if largest else value * (1 + squares)

    operations = rows * columns * (3 * depth + (0 if largest else EXP + 1))
    inputs = {"a": (rows, depth), "b": (columns, depth)}
    yield case(name, inputs, (rows, columns), operations, compute, reference)


def _distances() -> Iterator[Expression]:
    yield from _pairwise("largest_gaps", 127, 100, 32, largest=True)
    yield from _pairwise("gaussian", 128, 200, 7, largest=False)
    yield _cosine(127, 100, 96)
    yield _log_product(64)
    size = 127

    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, size), "k")
        return te.compute((size, size), lambda i, j: te.min(a[i, k] + b[k, j], axis=k), "min_plus")

    def reference(a: np.ndarray, b: np.ndarray) -> Checked:
        value = (a.astype(np.float64)[:, :, None] + b).min(1)
        return value, np.abs(value) + 1

    yield case("min_plus", {"a": (size, size), "b": (size, size)}, (size, size), 2 * size**3, compute, reference)


def _cosine(rows: int, columns: int, depth: int) -> Expression:
    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        i, j, k = (te.reduce_axis((0, depth), name) for name in "ijk")
        left = te.compute((rows,), lambda r: te.sum(a[r, i] * a[r, i], axis=i), "left")
        right = te.compute((columns,), lambda c: te.sum(b[c, j] * b[c, j], axis=j), "right")
        dot = te.compute((rows, columns), lambda r, c: te.sum(a[r, k] * b[c, k], axis=k), "dot")
        return te.compute((rows, columns), lambda r, c: dot[r, c] / te.sqrt(left[r] * right[c]), "cosine")

    def reference(a: np.ndarray, b: np.ndarray) -> Checked:
        left, right = (x / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True) for x in (a, b))
        return left @ right.T, np.abs(left) @ np.abs(right).T

    operations = rows * columns * (2 * depth + 3) + 2 * depth * (rows + columns)
    return case("cosine", {"a": (rows, depth), "b": (columns, depth)}, (rows, columns), operations, compute, reference)


def _log_product(size: int) -> Expression:
    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, size), "k")
        total = te.compute((size, size), lambda i, j: te.sum(te.exp(a[i, k] + b[k, j]), axis=k), "total")
        return te.compute((size, size), lambda i, j: te.log(total[i, j]), "log_product")

    def reference(a: np.ndarray, b: np.ndarray) -> Checked:
        value = np.log(np.exp(a.astype(np.float64)[:, :, None] + b).sum(1))
        return value, np.abs(value) + 1

    inputs = {"a": (size, size), "b": (size, size)}
    return case("log_product", inputs, (size, size), (EXP + 2) * size**3, compute, reference)


def _channels_first() -> Iterator[Expression]:
    yield window("nchw_strided", "nchwij,ocij->nohw", (1, 32, 57, 57), (48, 32, 3, 3), stride=2)
    yield window("nchw_pointwise", "nchwij,ocij->nohw", (1, 127, 28, 28), (64, 127, 1, 1))
    yield window("nchw_depthwise", "chwij,cij->chw", (64, 58, 58), (64, 3, 3))
    yield window("rows_filter", "rhwij,ij->rhw", (16, 1, 1126), (1, 127))
    yield _largest_in_window(64, 57)
    yield _instance_norm(32, 900)


def _largest_in_window(channels: int, side: int) -> Expression:
    size = (side - 3) // 2 + 1

    def compute(x: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 3), "j")
        return te.compute(
            (channels, size, size), lambda c, h, w: te.max(x[c, 2 * h + i, 2 * w + j], axis=[i, j]), "pool"
        )

    def reference(x: np.ndarray) -> Checked:
        seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), axis=(1, 2))[:, ::2, ::2]
        value = seen.max((-2, -1))
        return value, np.abs(value) + 1

    shape = (channels, size, size)
    return case("nchw_pool", {"x": (channels, side, side)}, shape, 9 * prod(shape), compute, reference)


def _instance_norm(channels: int, pixels: int) -> Expression:
    def compute(x: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, pixels), "i"), te.reduce_axis((0, pixels), "j")
        total = te.compute((channels,), lambda c: te.sum(x[c, i], axis=i), "total")
        gap = te.compute((channels, pixels), lambda c, p: x[c, p] - total[c] / pixels, "gap")
        squares = te.compute((channels,), lambda c: te.sum(gap[c, j] * gap[c, j], axis=j), "squares")
        return te.compute(
            (channels, pixels), lambda c, p: gap[c, p] / te.sqrt(squares[c] / pixels + 1e-5), "instance_norm"
        )

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        gap = wide - wide.mean(1, keepdims=True)
        value = gap / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
        return value, np.abs(value) + 1

    shape = (channels, pixels)
    return case("instance_norm", {"x": shape}, shape, 6 * prod(shape), compute, reference)


def _rows() -> Iterator[Expression]:
    yield softmax("odd_softmax", (127, 100))
    yield _softmax_product(127, 1000, 64)
    yield _squash(1000, 16)
    yield _response_norm(784, 96)


def softmax(name: str, shape: tuple[int, ...]) -> Expression:
    """A softmax over the last axis."""

    def compute(x: te.Tensor) -> te.Tensor:
        return topi.nn.softmax(x)

    def reference(x: np.ndarray) -> Checked:
        powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
        value = powers / powers.sum(-1, keepdims=True)
        return value, value

    return case(name, {"x": shape}, shape, (EXP + 4) * prod(shape), compute, reference)


def _softmax_product(rows: int, depth: int, columns: int) -> Expression:
    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, depth), "k")
        shares = topi.nn.softmax(x)
        return te.compute((rows, columns), lambda i, j: te.sum(shares[i, k] * y[k, j], axis=k), "mixed")

    def reference(x: np.ndarray, y: np.ndarray) -> Checked:
        powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
        shares = powers / powers.sum(-1, keepdims=True)
        return shares @ y, shares @ np.abs(y)

    operations = rows * depth * (2 * columns + EXP + 4)
    inputs = {"x": (rows, depth), "y": (depth, columns)}
    return case("softmax_product", inputs, (rows, columns), operations, compute, reference)


def _squash(rows: int, length: int) -> Expression:
    def compute(x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, length), "k")
        squares = te.compute((rows,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), "squares")
        return te.compute((rows, length), lambda i, j: x[i, j] * te.sqrt(squares[i]) / (1.0 + squares[i]), "squash")

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        squares = (wide**2).sum(1, keepdims=True)
        value = wide * np.sqrt(squares) / (1 + squares)
        return value, np.abs(value)

    return case("squash", {"x": (rows, length)}, (rows, length), 5 * rows * length, compute, reference)


def _response_norm(pixels: int, channels: int) -> Expression:
    """Elements over the square root of a sum of squares over five neighbouring channels."""

    def compute(x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 5), "k")
        zero = tirx.const(0.0, "float32")

        def padded(p: Any, c: Any) -> Any:
            return tirx.if_then_else(tirx.all(c >= 2, c < channels + 2), x[p, c - 2] * x[p, c - 2], zero)

        squares = te.compute((pixels, channels + 4), padded, "squares")
        near = te.compute((pixels, channels), lambda p, c: te.sum(squares[p, c + k], axis=k), "near")
        return te.compute((pixels, channels), lambda p, c: x[p, c] / te.sqrt(near[p, c] * 1e-4 + 1.0), "norm")

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        squares = np.pad(wide**2, ((0, 0), (2, 2)))
        near = np.lib.stride_tricks.sliding_window_view(squares, 5, axis=1).sum(-1)
        value = wide / np.sqrt(near * 1e-4 + 1)
        return value, np.abs(value)

    shape = (pixels, channels)
    return case("response_norm", {"x": shape}, shape, 10 * prod(shape), compute, reference)


def _running(name: str, shape: tuple[int, int], axis: int, *, later: bool = False, largest: bool = False) -> Expression:
    """Sums or maxima over the elements up to each one along `axis`, or from it on where `later`."""
    length = shape[axis]
    none = -1e30 if largest else 0.0

    def compute(x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, length), "k")

        def value(*place: Any) -> Any:
            counted = k >= place[axis] if later else k <= place[axis]
            seen = [k if number == axis else one for number, one in enumerate(place)]
            term = tirx.if_then_else(counted, x(*seen), tirx.const(none, "float32"))
            return (te.max if largest else te.sum)(term, axis=k)

        return te.compute(shape, value, "running")

    def reference(x: np.ndarray) -> Checked:
        wide = np.flip(x.astype(np.float64), axis) if later else x.astype(np.float64)
        value = np.maximum.accumulate(wide, axis) if largest else np.cumsum(wide, axis)
        terms = np.abs(value) + 1 if largest else np.cumsum(np.abs(wide), axis)
        return (np.flip(value, axis), np.flip(terms, axis)) if later else (value, terms)

    operations = prod(shape) * (length + 1) // 2
    return case(name, {"x": shape}, shape, operations, compute, reference)


def _sequences() -> Iterator[Expression]:
    yield _running("running_columns", (256, 64), 0)
    yield _running("later_sums", (100, 127), 1, later=True)
    yield _running("running_maximum", (64, 200), 1, largest=True)
    yield _dilated(128, 5)
    yield _statistics(8, 32, 400)


def _dilated(side: int, taps: int) -> Expression:
    """Greyscale dilation: the largest sum of a window's pixel and a weight."""
    size = side - taps + 1

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, taps), "i"), te.reduce_axis((0, taps), "j")
        return te.compute((size, size), lambda r, c: te.max(x[r + i, c + j] + w[i, j], axis=[i, j]), "dilated")

    def reference(x: np.ndarray, w: np.ndarray) -> Checked:
        seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (taps, taps))
        value = (seen + w).max((-2, -1))
        return value, np.abs(value) + 1

    inputs = {"x": (side, side), "w": (taps, taps)}
    return case("dilated", inputs, (size, size), 2 * size**2 * taps**2, compute, reference)


def _statistics(batch: int, channels: int, pixels: int) -> Expression:
    """The mean square of each channel, which is the middle one of three axes."""

    def compute(x: te.Tensor) -> te.Tensor:
        n, p = te.reduce_axis((0, batch), "n"), te.reduce_axis((0, pixels), "p")
        share = tirx.const(1 / (batch * pixels), "float32")
        return te.compute((channels,), lambda c: te.sum(x[n, c, p] * x[n, c, p] * share, axis=[n, p]), "squares")

    def reference(x: np.ndarray) -> Checked:
        value = (x.astype(np.float64) ** 2).mean((0, 2))
        return value, value

    shape = (batch, channels, pixels)
    return case("statistics", {"x": shape}, (channels,), 2 * prod(shape), compute, reference)
