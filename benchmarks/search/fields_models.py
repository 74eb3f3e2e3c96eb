"""Expressions of recent layers and of linear algebra in stages, chosen without a look at any rule.

Like `unforeseen.py`, each has a definition in double precision and no PyTorch side.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from tvm import te, tirx

from benchmarks.search.expression import EXP, Checked, Expression
from benchmarks.search.unforeseen import case


def models() -> Iterator[Expression]:
    """All 10 cases."""
    yield _biased_attention(4, 61, 32)
    yield _linear_attention(4, 200, 32)
    yield _banded_attention(2, 200, 32, 17)
    yield _top_expert(100, 4, 64)
    yield _separable(28, 32, 61)
    yield _squeezed(61, 16, 784)
    yield _turned_scores(4, 100, 24)
    yield _soft_argmax(21, 48)
    yield _tucker(8, (31, 32, 33))
    yield _deflated(500, 16, 61)


def _biased_attention(heads: int, length: int, depth: int) -> Expression:
    """Attention whose scores have an offset for each distance of two places."""
    shape, square = (heads, length, depth), (heads, length, length)

    def compute(q: te.Tensor, k: te.Tensor, v: te.Tensor, offset: te.Tensor) -> te.Tensor:
        d, j, s, o = (te.reduce_axis((0, n), name) for n, name in zip((depth, *[length] * 3), "djso", strict=True))
        raw = te.compute(square, lambda h, a, b: te.sum(q[h, a, d] * k[h, b, d], axis=d), "raw")
        score = te.compute(square, lambda h, a, b: raw[h, a, b] * depth**-0.5 + offset[h, b - a + length - 1], "score")
        top = te.compute(square[:2], lambda h, a: te.max(score[h, a, j], axis=j), "top")
        powers = te.compute(square, lambda h, a, b: te.exp(score[h, a, b] - top[h, a]), "powers")
        total = te.compute(square[:2], lambda h, a: te.sum(powers[h, a, s], axis=s), "total")
        share = te.compute(square, lambda h, a, b: powers[h, a, b] / total[h, a], "share")
        return te.compute(shape, lambda h, a, c: te.sum(share[h, a, o] * v[h, o, c], axis=o), "attention")

    def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, offset: np.ndarray) -> Checked:
        place = np.arange(length) - np.arange(length)[:, None] + length - 1
        form = "had,hbd->hab"
        score = np.einsum(form, q.astype(np.float64), k) * depth**-0.5 + offset[:, place]
        terms = np.einsum(form, np.abs(q), np.abs(k)) * depth**-0.5 + np.abs(offset)[:, place]
        powers = np.exp(score - score.max(-1, keepdims=True))
        share = powers / powers.sum(-1, keepdims=True)
        return share @ v, (share * (1 + terms)) @ np.abs(v)

    inputs = {"q": shape, "k": shape, "v": shape, "offset": (heads, 2 * length - 1)}
    operations = prod(square) * (4 * depth + EXP + 6)
    return case("biased_attention", inputs, shape, operations, compute, reference)


def _linear_attention(heads: int, length: int, depth: int) -> Expression:
    """Attention by positive features, whose keys and values are summed first."""
    shape = (heads, length, depth)

    def compute(q: te.Tensor, k: te.Tensor, v: te.Tensor) -> te.Tensor:
        def feature(x: te.Tensor, name: str) -> te.Tensor:
            def value(h: Any, t: Any, d: Any) -> Any:
                return tirx.Select(x[h, t, d] > 0, x[h, t, d] + 1.0, te.exp(x[h, t, d]))

            return te.compute(shape, value, name)

        s, t = te.reduce_axis((0, length), "s"), te.reduce_axis((0, length), "t")
        d, e = te.reduce_axis((0, depth), "d"), te.reduce_axis((0, depth), "e")
        left, right = feature(q, "left"), feature(k, "right")
        state = te.compute((heads, depth, depth), lambda h, a, b: te.sum(right[h, s, a] * v[h, s, b], axis=s), "state")
        keys = te.compute((heads, depth), lambda h, a: te.sum(right[h, t, a], axis=t), "keys")
        mixed = te.compute(shape, lambda h, i, b: te.sum(left[h, i, d] * state[h, d, b], axis=d), "mixed")
        total = te.compute(shape[:2], lambda h, i: te.sum(left[h, i, e] * keys[h, e], axis=e), "total")
        return te.compute(shape, lambda h, i, b: mixed[h, i, b] / total[h, i], "linear_attention")

    def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Checked:
        left, right = (np.where(x > 0, x + 1, np.exp(x.astype(np.float64))) for x in (q, k))
        total = left @ right.sum(1)[..., None]
        turned = right.transpose(0, 2, 1)
        return left @ (turned @ v) / total, left @ (turned @ np.abs(v)) / total

    operations = heads * length * (4 * depth * depth + 4 * depth + 2 * depth * (EXP + 2))
    return case("linear_attention", dict.fromkeys("qkv", shape), shape, operations, compute, reference)


def _banded_attention(heads: int, length: int, depth: int, band: int) -> Expression:
    """Attention of each place to the next ones alone."""
    shape, wide, scores = (heads, length, depth), (heads, length + band - 1, depth), (heads, length, band)

    def compute(q: te.Tensor, k: te.Tensor, v: te.Tensor) -> te.Tensor:
        d, j, s, o = (te.reduce_axis((0, n), name) for n, name in zip((depth, *[band] * 3), "djso", strict=True))
        raw = te.compute(scores, lambda h, t, w: te.sum(q[h, t, d] * k[h, t + w, d], axis=d), "raw")
        top = te.compute(scores[:2], lambda h, t: te.max(raw[h, t, j], axis=j), "top")
        powers = te.compute(scores, lambda h, t, w: te.exp((raw[h, t, w] - top[h, t]) * (depth**-0.5)), "powers")
        total = te.compute(scores[:2], lambda h, t: te.sum(powers[h, t, s], axis=s), "total")
        mixed = te.compute(shape, lambda h, t, c: te.sum(powers[h, t, o] * v[h, t + o, c], axis=o), "mixed")
        return te.compute(shape, lambda h, t, c: mixed[h, t, c] / total[h, t], "banded_attention")

    def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Checked:
        keys, values = (np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), band, axis=1) for x in (k, v))
        form = "htd,htdw->htw"
        score = np.einsum(form, q, keys) * depth**-0.5
        terms = np.einsum(form, np.abs(q), np.abs(keys)) * depth**-0.5
        powers = np.exp(score - score.max(-1, keepdims=True))
        share = powers / powers.sum(-1, keepdims=True)
        mixed = "htw,htdw->htd"
        return np.einsum(mixed, share, values), np.einsum(mixed, share * (1 + terms), np.abs(values))

    operations = prod(scores) * (4 * depth + EXP + 4)
    return case("banded_attention", {"q": shape, "k": wide, "v": wide}, shape, operations, compute, reference)


def _top_expert(tokens: int, experts: int, depth: int) -> Expression:
    """The product with the likeliest expert's matrix, by its share; a definition that computes all experts."""

    def compute(x: te.Tensor, gate: te.Tensor, w: te.Tensor) -> te.Tensor:
        d, e, j, s, o = (
            te.reduce_axis((0, n), name)
            for n, name in zip((depth, depth, experts, experts, experts), "dejso", strict=True)
        )
        score = te.compute((tokens, experts), lambda t, n: te.sum(x[t, d] * gate[d, n], axis=d), "score")
        top = te.compute((tokens,), lambda t: te.max(score[t, j], axis=j), "top")
        total = te.compute((tokens,), lambda t: te.sum(te.exp(score[t, s] - top[t]), axis=s), "total")
        zero = tirx.const(0.0, "float32")
        share = te.compute(
            (tokens, experts), lambda t, n: tirx.Select(score[t, n] >= top[t], 1.0 / total[t], zero), "share"
        )
        return te.compute(
            (tokens, depth), lambda t, c: te.sum(share[t, o] * x[t, e] * w[o, e, c], axis=[o, e]), "top_expert"
        )

    def reference(x: np.ndarray, gate: np.ndarray, w: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        score = wide @ gate
        top = score.max(1, keepdims=True)
        share = np.where(score >= top, 1 / np.exp(score - top).sum(1, keepdims=True), 0)
        error = 1 + (np.abs(wide) @ np.abs(gate)).max(1, keepdims=True)
        form = "te,td,edc->tc"
        value = np.einsum(form, share, wide, w, optimize=True)
        return value, np.einsum(form, share * error, np.abs(wide), np.abs(w), optimize=True)

    inputs = {"x": (tokens, depth), "gate": (depth, experts), "w": (experts, depth, depth)}
    operations = tokens * experts * (depth * (2 * depth + 3) + EXP + 3)
    return case("top_expert", inputs, (tokens, depth), operations, compute, reference)


def _separable(size: int, channels: int, outputs: int) -> Expression:
    """A depthwise 3x3 convolution, what is positive of it, and a product of the channels."""

    def compute(x: te.Tensor, w: te.Tensor, mix: te.Tensor) -> te.Tensor:
        i, j, k = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 3), "j"), te.reduce_axis((0, channels), "k")
        shape, zero = (size, size, channels), tirx.const(0.0, "float32")
        depthwise = te.compute(shape, lambda r, s, c: te.sum(x[r + i, s + j, c] * w[i, j, c], axis=[i, j]), "depthwise")
        positive = te.compute(shape, lambda r, s, c: te.max(depthwise[r, s, c], zero), "positive")
        return te.compute(
            (size, size, outputs), lambda r, s, o: te.sum(positive[r, s, k] * mix[k, o], axis=k), "separable"
        )

    def reference(x: np.ndarray, w: np.ndarray, mix: np.ndarray) -> Checked:
        seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), axis=(0, 1))
        form = "rscij,ijc->rsc"
        positive = np.maximum(np.einsum(form, seen, w), 0)
        return positive @ mix, np.einsum(form, np.abs(seen), np.abs(w)) @ np.abs(mix)

    inputs = {"x": (size + 2, size + 2, channels), "w": (3, 3, channels), "mix": (channels, outputs)}
    operations = size**2 * channels * (19 + 2 * outputs)
    return case("separable", inputs, (size, size, outputs), operations, compute, reference)


def _squeezed(channels: int, hidden: int, pixels: int) -> Expression:
    """Channels weighted by a small net of their means."""

    def compute(x: te.Tensor, first: te.Tensor, second: te.Tensor) -> te.Tensor:
        p, k, m = (te.reduce_axis((0, n), name) for n, name in ((pixels, "p"), (channels, "k"), (hidden, "m")))
        total = te.compute((channels,), lambda c: te.sum(x[c, p], axis=p), "total")
        mean = te.compute((channels,), lambda c: total[c] * (1 / pixels), "mean")
        inner = te.compute((hidden,), lambda h: te.sum(first[h, k] * mean[k], axis=k), "inner")
        active = te.compute((hidden,), lambda h: te.max(inner[h], tirx.const(0.0, "float32")), "active")
        outer = te.compute((channels,), lambda c: te.sum(second[c, m] * active[m], axis=m), "outer")
        return te.compute((channels, pixels), lambda c, n: x[c, n] * te.sigmoid(outer[c]), "squeezed")

    def reference(x: np.ndarray, first: np.ndarray, second: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        factor = 1 / (1 + np.exp(-(second @ np.maximum(first @ wide.mean(1), 0))))
        terms = np.abs(second) @ (np.abs(first) @ np.abs(wide).mean(1))
        return wide * factor[:, None], np.abs(wide) * (factor + terms / 4)[:, None]

    inputs = {"x": (channels, pixels), "first": (hidden, channels), "second": (channels, hidden)}
    operations = 2 * channels * pixels + 4 * channels * hidden
    return case("squeezed", inputs, (channels, pixels), operations, compute, reference)


def _turned_scores(heads: int, length: int, half: int) -> Expression:
    """Products of queries and keys whose halves are turned by their place first."""
    shape = (heads, length, 2 * half)

    def compute(q: te.Tensor, k: te.Tensor, cosine: te.Tensor, sine: te.Tensor) -> te.Tensor:
        def turned(x: te.Tensor, name: str) -> te.Tensor:
            def value(h: Any, t: Any, d: Any) -> Any:
                other = tirx.if_then_else(d < half, -x[h, t, d + half], x[h, t, d - half])
                return x[h, t, d] * cosine[t, d % half] + other * sine[t, d % half]

            return te.compute(shape, value, name)

        left, right, d = turned(q, "left"), turned(k, "right"), te.reduce_axis((0, 2 * half), "d")
        return te.compute(
            (heads, length, length), lambda h, a, b: te.sum(left[h, a, d] * right[h, b, d], axis=d), "scores"
        )

    def reference(q: np.ndarray, k: np.ndarray, cosine: np.ndarray, sine: np.ndarray) -> Checked:
        c, s = (np.tile(one.astype(np.float64), 2) for one in (cosine, sine))
        halves = [np.concatenate([-x[..., half:], x[..., :half]], -1) for x in (q, k)]
        left, right = (x * c + other * s for x, other in zip((q, k), halves, strict=True))
        sizes = [np.abs(x * c) + np.abs(other * s) for x, other in zip((q, k), halves, strict=True)]
        return left @ right.transpose(0, 2, 1), sizes[0] @ sizes[1].transpose(0, 2, 1)

    inputs = {"q": shape, "k": shape, "cosine": (length, half), "sine": (length, half)}
    operations = 2 * heads * length * half * (2 * length + 6)
    return case("turned_scores", inputs, (heads, length, length), operations, compute, reference)


def _soft_argmax(maps: int, size: int) -> Expression:
    """The expected row and column under a softmax over each map."""

    def compute(x: te.Tensor) -> te.Tensor:
        axes = [te.reduce_axis((0, size), f"{name}{turn}") for turn in range(3) for name in "rc"]
        top = te.compute((maps,), lambda m: te.max(x[m, axes[0], axes[1]], axis=axes[:2]), "top")
        power = te.compute((maps, size, size), lambda m, r, c: te.exp(x[m, r, c] - top[m]), "power")
        total = te.compute((maps,), lambda m: te.sum(power[m, axes[2], axes[3]], axis=axes[2:4]), "total")

        def place(m: Any, way: Any) -> Any:
            at = tirx.Select(way == 0, axes[4], axes[5]).astype("float32")
            return te.sum(power[m, axes[4], axes[5]] * at, axis=axes[4:])

        summed = te.compute((maps, 2), place, "summed")
        return te.compute((maps, 2), lambda m, way: summed[m, way] / total[m], "soft_argmax")

    def reference(x: np.ndarray) -> Checked:
        powers = np.exp(x.astype(np.float64) - x.max((1, 2), keepdims=True))
        share, places = powers / powers.sum((1, 2), keepdims=True), np.arange(size)
        value = np.stack([share.sum(2) @ places, share.sum(1) @ places], -1)
        return value, value

    operations = maps * size**2 * (EXP + 7)
    return case("soft_argmax", {"x": (maps, size, size)}, (maps, 2), operations, compute, reference)


def _tucker(rank: int, shape: tuple[int, int, int]) -> Expression:
    """A tensor from a small core and a matrix for each axis, one axis after the other."""
    first, second, third = shape

    def compute(core: te.Tensor, a: te.Tensor, b: te.Tensor, c: te.Tensor) -> te.Tensor:
        i, j, k = (te.reduce_axis((0, rank), name) for name in "ijk")
        rows = te.compute((first, rank, rank), lambda x, q, r: te.sum(a[x, i] * core[i, q, r], axis=i), "rows")
        faces = te.compute((first, second, rank), lambda x, y, r: te.sum(b[y, j] * rows[x, j, r], axis=j), "faces")
        return te.compute(shape, lambda x, y, z: te.sum(c[z, k] * faces[x, y, k], axis=k), "tucker")

    def reference(core: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Checked:
        def product(*factors: np.ndarray) -> np.ndarray:
            return np.asarray(np.einsum("ijk,xi,yj,zk->xyz", *factors, optimize=True))

        wide = [x.astype(np.float64) for x in (core, a, b, c)]
        return product(*wide), product(*map(np.abs, wide))

    inputs = {"core": (rank, rank, rank), "a": (first, rank), "b": (second, rank), "c": (third, rank)}
    operations = 2 * rank * first * (rank * rank + second * (rank + third))
    return case("tucker", inputs, shape, operations, compute, reference)


def _deflated(rows: int, kept: int, columns: int) -> Expression:
    """A step of block Gram-Schmidt: columns less their part along some others."""

    def compute(x: te.Tensor, base: te.Tensor) -> te.Tensor:
        i, k = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, kept), "k")
        shape = (rows, columns)
        along = te.compute((kept, columns), lambda a, c: te.sum(base[i, a] * x[i, c], axis=i), "along")
        part = te.compute(shape, lambda r, c: te.sum(base[r, k] * along[k, c], axis=k), "part")
        return te.compute(shape, lambda r, c: x[r, c] - part[r, c], "deflated")

    def reference(x: np.ndarray, base: np.ndarray) -> Checked:
        wide, size = base.astype(np.float64), np.abs(base.astype(np.float64))
        return x - wide @ (wide.T @ x), np.abs(x) + size @ (size.T @ np.abs(x))

    inputs = {"x": (rows, columns), "base": (rows, kept)}
    return case("deflated", inputs, (rows, columns), rows * columns * (4 * kept + 1), compute, reference)
