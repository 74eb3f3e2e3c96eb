"""Expressions written after the rules and after the other lists, by somebody who looked at neither.

Like `unforeseen.py`, each has a definition in double precision and no PyTorch side.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from tvm import te, tirx

from benchmarks.search.expression import EXP, Checked, Expression
from benchmarks.search.unforeseen import case, einsum


def later() -> Iterator[Expression]:
    """All 24 cases."""
    yield einsum("contraction", "abcd,dceb->ae", a=24, b=16, c=12, d=20, e=36)
    yield einsum("kronecker", "ab,cd->acbd", a=16, b=31, c=32, d=33)
    yield einsum("quadratic_form", "ni,ij,nj->n", n=500, i=48, j=48)
    yield einsum("multi_query", "bhqd,bkd->bhqk", b=2, h=8, q=31, k=100, d=64)
    yield einsum("batch_matrix_vector", "bij,bj->bi", b=31, i=100, j=127)
    yield _complex_product(64, 96, 64)
    yield _block_transform(1024, 8)
    yield _rank_update(4, 500, 300)
    yield from _distances()
    yield from _windows()
    yield from _rows()
    yield from _elements()


def _complex_product(m: int, depth: int, n: int) -> Expression:
    """A product of matrices whose last axis has a real and an imaginary part."""

    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, depth), "k")

        def part(i: Any, j: Any, c: Any) -> Any:
            sign = tirx.if_then_else(c == 0, tirx.const(-1.0, "float32"), tirx.const(1.0, "float32"))
            return te.sum(a[i, k, 0] * b[k, j, c] + sign * a[i, k, 1] * b[k, j, 1 - c], axis=k)

        return te.compute((m, n, 2), part, "complex_product")

    def reference(a: np.ndarray, b: np.ndarray) -> Checked:
        left, right = (x.astype(np.float64) @ np.array([1, 1j]) for x in (a, b))
        value, terms = left @ right, (np.abs(a).sum(-1) @ np.abs(b).sum(-1)).astype(np.float64)
        return np.stack([value.real, value.imag], -1), np.stack([terms, terms], -1)

    inputs = {"a": (m, depth, 2), "b": (depth, n, 2)}
    return case("complex_product", inputs, (m, n, 2), 8 * m * n * depth, compute, reference)


def _block_transform(blocks: int, size: int) -> Expression:
    """A matrix on both sides of each small block, as in a cosine transform."""

    def compute(x: te.Tensor, t: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, size), "i"), te.reduce_axis((0, size), "j")
        rows = te.compute((blocks, size, size), lambda b, u, c: te.sum(t[u, i] * x[b, i, c], axis=i), "rows")
        return te.compute((blocks, size, size), lambda b, u, v: te.sum(rows[b, u, j] * t[v, j], axis=j), "transform")

    def reference(x: np.ndarray, t: np.ndarray) -> Checked:
        wide = t.astype(np.float64)
        return wide @ x @ wide.T, np.abs(wide) @ np.abs(x) @ np.abs(wide.T)

    shape = (blocks, size, size)
    return case("block_transform", {"x": shape, "t": (size, size)}, shape, 4 * blocks * size**3, compute, reference)


def _rank_update(rank: int, rows: int, columns: int) -> Expression:
    def compute(c: te.Tensor, a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, rank), "k")
        update = te.compute((rows, columns), lambda i, j: te.sum(a[k, i] * b[k, j], axis=k), "update")
        return te.compute((rows, columns), lambda i, j: c[i, j] - update[i, j], "updated")

    def reference(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> Checked:
        return c - a.astype(np.float64).T @ b, np.abs(c) + np.abs(a.astype(np.float64)).T @ np.abs(b)

    inputs = {"c": (rows, columns), "a": (rank, rows), "b": (rank, columns)}
    operations = rows * columns * (2 * rank + 1)
    return case("rank_update", inputs, (rows, columns), operations, compute, reference)


def _distances() -> Iterator[Expression]:
    rows, columns, depth = 127, 100, 64

    def jaccard(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k, m = te.reduce_axis((0, depth), "k"), te.reduce_axis((0, depth), "m")
        shape = (rows, columns)
        least = te.compute(shape, lambda i, j: te.sum(te.min(te.abs(a[i, k]), te.abs(b[j, k])), axis=k), "least")
        most = te.compute(shape, lambda i, j: te.sum(te.max(te.abs(a[i, m]), te.abs(b[j, m])), axis=m), "most")
        return te.compute(shape, lambda i, j: least[i, j] / most[i, j], "jaccard")

    def jaccard_reference(a: np.ndarray, b: np.ndarray) -> Checked:
        left, right = np.abs(a.astype(np.float64))[:, None], np.abs(b.astype(np.float64))
        value = np.minimum(left, right).sum(-1) / np.maximum(left, right).sum(-1)
        return value, value

    inputs = {"a": (rows, depth), "b": (columns, depth)}
    yield case("jaccard", inputs, (rows, columns), 4 * rows * columns * depth, jaccard, jaccard_reference)
    points, others = 1000, 500

    def nearest(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k, j = te.reduce_axis((0, 3), "k"), te.reduce_axis((0, others), "j")
        squares = te.compute(
            (points, others), lambda i, o: te.sum((a[i, k] - b[o, k]) * (a[i, k] - b[o, k]), axis=k), "squares"
        )
        return te.compute((points,), lambda i: te.min(squares[i, j], axis=j), "nearest")

    def nearest_reference(a: np.ndarray, b: np.ndarray) -> Checked:
        value = ((a.astype(np.float64)[:, None] - b) ** 2).sum(-1).min(1)
        return value, value

    inputs = {"a": (points, 3), "b": (others, 3)}
    yield case("nearest_point", inputs, (points,), 10 * points * others, nearest, nearest_reference)


def _windows() -> Iterator[Expression]:
    yield _unshared(14, 16, 16)
    yield _block_matching(12, 8, 9)
    yield _bilateral(60, 5)
    yield _decimated(16, 1000, 63, 4)
    yield _toeplitz(64, 200)
    yield _circular(32, 256)


def _unshared(size: int, channels: int, outputs: int) -> Expression:
    """A 3x3 convolution whose weights differ at each pixel."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        i, j, c = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 3), "j"), te.reduce_axis((0, channels), "c")
        return te.compute(
            (size, size, outputs),
            lambda r, s, o: te.sum(x[r + i, s + j, c] * w[r, s, o, i, j, c], axis=[i, j, c]),
            "unshared",
        )

    def reference(x: np.ndarray, w: np.ndarray) -> Checked:
        seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), axis=(0, 1))
        form = "rscij,rsoijc->rso"
        return np.einsum(form, seen, w), np.einsum(form, np.abs(seen), np.abs(w))

    inputs = {"x": (size + 2, size + 2, channels), "w": (size, size, outputs, 3, 3, channels)}
    operations = 18 * size**2 * channels * outputs
    return case("unshared", inputs, (size, size, outputs), operations, compute, reference)


def _block_matching(blocks: int, size: int, shifts: int) -> Expression:
    """Sums of absolute differences of each block of an image and shifted blocks of another one."""

    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, size), "i"), te.reduce_axis((0, size), "j")
        return te.compute(
            (blocks, blocks, shifts, shifts),
            lambda r, c, u, v: te.sum(
                te.abs(x[r * size + i, c * size + j] - y[r * size + i + u, c * size + j + v]), axis=[i, j]
            ),
            "block_matching",
        )

    def reference(x: np.ndarray, y: np.ndarray) -> Checked:
        seen = np.lib.stride_tricks.sliding_window_view(y.astype(np.float64), (shifts, shifts))
        gaps = np.abs(x[..., None, None] - seen).reshape(blocks, size, blocks, size, shifts, shifts)
        value = gaps.sum((1, 3))
        return value, value

    side = blocks * size
    inputs = {"x": (side, side), "y": (side + shifts - 1, side + shifts - 1)}
    shape = (blocks, blocks, shifts, shifts)
    return case("block_matching", inputs, shape, 3 * prod(shape) * size**2, compute, reference)


def _bilateral(size: int, taps: int) -> Expression:
    """A mean of a window's pixels, weighted by how near they are to the middle one."""

    def compute(x: te.Tensor) -> te.Tensor:
        def weight(r: Any, c: Any, i: Any, j: Any) -> Any:
            gap = x[r + i, c + j] - x[r + taps // 2, c + taps // 2]
            return te.exp(gap * gap * -1.0)

        axes = [[te.reduce_axis((0, taps), f"{name}{turn}") for name in "ij"] for turn in range(2)]
        (i, j), (k, m) = axes
        shape = (size, size)
        total = te.compute(shape, lambda r, c: te.sum(weight(r, c, i, j), axis=[i, j]), "total")
        mixed = te.compute(shape, lambda r, c: te.sum(weight(r, c, k, m) * x[r + k, c + m], axis=[k, m]), "mixed")
        return te.compute(shape, lambda r, c: mixed[r, c] / total[r, c], "bilateral")

    def reference(x: np.ndarray) -> Checked:
        seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (taps, taps))
        weights = np.exp(-((seen - seen[..., taps // 2, taps // 2, None, None]) ** 2))
        total = weights.sum((-2, -1))
        return (weights * seen).sum((-2, -1)) / total, (weights * np.abs(seen)).sum((-2, -1)) / total

    side = size + taps - 1
    operations = size**2 * taps**2 * (EXP + 6)
    return case("bilateral", {"x": (side, side)}, (size, size), operations, compute, reference)


def _decimated(channels: int, results: int, taps: int, stride: int) -> Expression:
    """A filter of which every fourth result is kept."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, taps), "k")
        return te.compute((channels, results), lambda c, t: te.sum(x[c, t * stride + k] * w[k], axis=k), "decimated")

    def reference(x: np.ndarray, w: np.ndarray) -> Checked:
        seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), taps, axis=1)[:, ::stride]
        return seen @ w, np.abs(seen) @ np.abs(w)

    inputs = {"x": (channels, (results - 1) * stride + taps), "w": (taps,)}
    return case("decimated", inputs, (channels, results), 2 * channels * results * taps, compute, reference)


def _toeplitz(batch: int, length: int) -> Expression:
    """A causal filter as long as the sequence."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, length), "k")
        zero = tirx.const(0.0, "float32")
        return te.compute(
            (batch, length),
            lambda b, t: te.sum(tirx.if_then_else(k <= t, x[b, t - k], zero) * w[k], axis=k),
            "toeplitz",
        )

    def reference(x: np.ndarray, w: np.ndarray) -> Checked:
        padded = np.pad(x.astype(np.float64), ((0, 0), (length - 1, 0)))
        seen = np.lib.stride_tricks.sliding_window_view(padded, length, axis=1)[:, :, ::-1]
        return seen @ w, np.abs(seen) @ np.abs(w)

    inputs = {"x": (batch, length), "w": (length,)}
    return case("toeplitz", inputs, (batch, length), batch * length * (length + 1), compute, reference)


def _circular(batch: int, length: int) -> Expression:
    """A correlation whose second operand goes on at its start."""

    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, length), "k")
        return te.compute((batch, length), lambda b, t: te.sum(x[b, k] * y[(t + k) % length], axis=k), "circular")

    def reference(x: np.ndarray, y: np.ndarray) -> Checked:
        place = (np.arange(length)[:, None] + np.arange(length)) % length
        seen = y.astype(np.float64)[place]
        return x @ seen, np.abs(x) @ np.abs(seen)

    inputs = {"x": (batch, length), "y": (length,)}
    return case("circular", inputs, (batch, length), 2 * batch * length**2, compute, reference)


def _rows() -> Iterator[Expression]:
    yield _causal_attention(4, 100, 32)
    yield _soft_assignment(400, 32, 64)
    yield _group_norm(784, 8, 12)
    yield _log_softmax_of_columns(200, 127)
    yield _between_extremes(127, 1000)


def _causal_attention(heads: int, length: int, depth: int) -> Expression:
    shape = (heads, length, depth)

    def compute(q: te.Tensor, k: te.Tensor, v: te.Tensor) -> te.Tensor:
        d, j, s, o = (te.reduce_axis((0, n), name) for n, name in zip((depth, *[length] * 3), "djso", strict=True))
        whole, least = (heads, length, length), tirx.const(-1e30, "float32")
        raw = te.compute(whole, lambda h, a, b: te.sum(q[h, a, d] * k[h, b, d], axis=d), "raw")
        scale = tirx.const(depth**-0.5, "float32")
        seen = te.compute(whole, lambda h, a, b: tirx.if_then_else(b <= a, raw[h, a, b] * scale, least), "seen")
        top = te.compute(whole[:2], lambda h, a: te.max(seen[h, a, j], axis=j), "top")
        powers = te.compute(whole, lambda h, a, b: te.exp(seen[h, a, b] - top[h, a]), "powers")
        total = te.compute(whole[:2], lambda h, a: te.sum(powers[h, a, s], axis=s), "total")
        mixed = te.compute(
            (heads, length, depth), lambda h, a, c: te.sum(powers[h, a, o] * v[h, o, c], axis=o), "mixed"
        )
        return te.compute(shape, lambda h, a, c: mixed[h, a, c] / total[h, a], "attention")

    def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Checked:
        raw = np.einsum("had,hbd->hab", q.astype(np.float64), k) * depth**-0.5
        raw = np.where(np.tri(length, dtype=bool), raw, -np.inf)
        powers = np.exp(raw - raw.max(-1, keepdims=True))
        shares = powers / powers.sum(-1, keepdims=True)
        # The error of a share is that of its score, whose terms are these.
        terms = np.einsum("had,hbd->hab", np.abs(q).astype(np.float64), np.abs(k)) * depth**-0.5
        return shares @ v, (shares * (1 + terms)) @ np.abs(v)

    operations = heads * length * length * (4 * depth + EXP + 4)
    return case("causal_attention", dict.fromkeys("qkv", shape), shape, operations, compute, reference)


def _soft_assignment(points: int, words: int, depth: int) -> Expression:
    """Sums of the points' distances from each word, weighted by a softmax over the words."""

    def compute(x: te.Tensor, w: te.Tensor, c: te.Tensor) -> te.Tensor:
        d, j, s, p = (te.reduce_axis((0, n), m) for n, m in zip((depth, words, words, points), "djsp", strict=True))
        score = te.compute((points, words), lambda i, k: te.sum(x[i, d] * w[d, k], axis=d), "score")
        top = te.compute((points,), lambda i: te.max(score[i, j], axis=j), "top")
        powers = te.compute((points, words), lambda i, k: te.exp(score[i, k] - top[i]), "powers")
        total = te.compute((points,), lambda i: te.sum(powers[i, s], axis=s), "total")
        share = te.compute((points, words), lambda i, k: powers[i, k] / total[i], "share")
        return te.compute((words, depth), lambda k, o: te.sum(share[p, k] * (x[p, o] - c[k, o]), axis=p), "residuals")

    def reference(x: np.ndarray, w: np.ndarray, c: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        score = wide @ w
        powers = np.exp(score - score.max(1, keepdims=True))
        share = powers / powers.sum(1, keepdims=True)
        gaps = wide[:, None] - c
        terms = share * (1 + np.abs(wide) @ np.abs(w))
        return np.einsum("nk,nkd->kd", share, gaps), np.einsum("nk,nkd->kd", terms, np.abs(gaps))

    inputs = {"x": (points, depth), "w": (depth, words), "c": (words, depth)}
    operations = points * words * (5 * depth + EXP + 4)
    return case("soft_assignment", inputs, (words, depth), operations, compute, reference)


def _group_norm(pixels: int, groups: int, size: int) -> Expression:
    """Channels last; a group's mean and variance are over all pixels."""
    count = pixels * size

    def compute(x: te.Tensor) -> te.Tensor:
        axes = [(te.reduce_axis((0, pixels), f"p{turn}"), te.reduce_axis((0, size), f"c{turn}")) for turn in range(2)]
        (p, c), (q, d) = axes
        total = te.compute((groups,), lambda g: te.sum(x[p, g, c], axis=[p, c]), "total")
        gap = te.compute((pixels, groups, size), lambda a, g, b: x[a, g, b] - total[g] / count, "gap")
        squares = te.compute((groups,), lambda g: te.sum(gap[q, g, d] * gap[q, g, d], axis=[q, d]), "squares")
        return te.compute(
            (pixels, groups, size), lambda a, g, b: gap[a, g, b] / te.sqrt(squares[g] / count + 1e-5), "group_norm"
        )

    def reference(x: np.ndarray) -> Checked:
        gap = x - x.astype(np.float64).mean((0, 2), keepdims=True)
        value = gap / np.sqrt((gap**2).mean((0, 2), keepdims=True) + 1e-5)
        return value, np.abs(value) + 1

    shape = (pixels, groups, size)
    return case("group_norm", {"x": shape}, shape, 6 * prod(shape), compute, reference)


def _log_softmax_of_columns(rows: int, columns: int) -> Expression:
    def compute(x: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, rows), "j")
        top = te.compute((columns,), lambda c: te.max(x[i, c], axis=i), "top")
        total = te.compute((columns,), lambda c: te.sum(te.exp(x[j, c] - top[c]), axis=j), "total")
        return te.compute((rows, columns), lambda r, c: x[r, c] - top[c] - te.log(total[c]), "log_softmax")

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        value = wide - wide.max(0) - np.log(np.exp(wide - wide.max(0)).sum(0))
        return value, np.abs(value) + np.abs(wide) + 1

    shape = (rows, columns)
    return case("log_softmax_of_columns", {"x": shape}, shape, (EXP + 5) * prod(shape), compute, reference)


def _between_extremes(rows: int, columns: int) -> Expression:
    """Elements as shares of the way from the least to the largest one of their row."""

    def compute(x: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, columns), "i"), te.reduce_axis((0, columns), "j")
        low = te.compute((rows,), lambda r: te.min(x[r, i], axis=i), "low")
        high = te.compute((rows,), lambda r: te.max(x[r, j], axis=j), "high")
        return te.compute((rows, columns), lambda r, c: (x[r, c] - low[r]) / (high[r] - low[r]), "shares")

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        low, high = wide.min(1, keepdims=True), wide.max(1, keepdims=True)
        value = (wide - low) / (high - low)
        return value, value + 1

    shape = (rows, columns)
    return case("between_extremes", {"x": shape}, shape, 5 * prod(shape), compute, reference)


def _elements() -> Iterator[Expression]:
    """Expressions without a reduction, which only move and combine elements."""
    count, degree = 100_000, 7

    def horner(x: te.Tensor, c: te.Tensor) -> te.Tensor:
        def value(i: Any) -> Any:
            result = c[degree]
            for power in reversed(range(degree)):
                result = result * x[i] + c[power]
            return result

        return te.compute((count,), value, "horner")

    def horner_reference(x: np.ndarray, c: np.ndarray) -> Checked:
        powers = x.astype(np.float64)[:, None] ** np.arange(degree + 1)
        return powers @ c, np.abs(powers) @ np.abs(c)

    inputs: dict[str, tuple[int, ...]] = {"x": (count,), "c": (degree + 1,)}
    yield case("horner", inputs, (count,), 2 * degree * count, horner, horner_reference)
    places, heads, pairs = 128, 8, 32

    def rotary(x: te.Tensor, cosine: te.Tensor, sine: te.Tensor) -> te.Tensor:
        def value(t: Any, h: Any, d: Any, c: Any) -> Any:
            turned = tirx.if_then_else(c == 0, -x[t, h, d, 1], x[t, h, d, 0])
            return x[t, h, d, c] * cosine[t, d] + turned * sine[t, d]

        return te.compute((places, heads, pairs, 2), value, "rotary")

    def rotary_reference(x: np.ndarray, cosine: np.ndarray, sine: np.ndarray) -> Checked:
        wide, c, s = x.astype(np.float64), cosine[:, None, :, None], sine[:, None, :, None]
        turned = np.stack([-wide[..., 1], wide[..., 0]], -1)
        return wide * c + turned * s, np.abs(wide * c) + np.abs(turned * s)

    shape = (places, heads, pairs, 2)
    inputs = {"x": shape, "cosine": (places, pairs), "sine": (places, pairs)}
    yield case("rotary", inputs, shape, 3 * prod(shape), rotary, rotary_reference)
    channels, size = 24, 28

    def shuffled(x: te.Tensor) -> te.Tensor:
        def value(c: Any, r: Any, s: Any) -> Any:
            return x[c * 4 + r % 2 * 2 + s % 2, r // 2, s // 2]

        return te.compute((channels, 2 * size, 2 * size), value, "pixel_shuffle")

    def shuffled_reference(x: np.ndarray) -> Checked:
        parts = x.astype(np.float64).reshape(channels, 2, 2, size, size)
        value = parts.transpose(0, 3, 1, 4, 2).reshape(channels, 2 * size, 2 * size)
        return value, np.abs(value) + 1

    inputs = {"x": (4 * channels, size, size)}
    yield case("pixel_shuffle", inputs, (channels, 2 * size, 2 * size), 0, shuffled, shuffled_reference)
