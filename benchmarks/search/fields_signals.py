"""Expressions of signals and statistics, as these fields write them, chosen without a look at any rule.

Like `unforeseen.py`, each has a definition in double precision and no PyTorch side.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from tvm import te, tirx

from benchmarks.search.expression import EXP, LOG, Checked, Expression
from benchmarks.search.unforeseen import case, einsum


def signals() -> Iterator[Expression]:
    """All 14 cases."""
    yield _frames(61, 200, 80, 101)
    yield _mel(98, 257, 40)
    yield _polyphase(2000, 32, 12)
    yield _lags(16, 1000, 41)
    yield _moving_variance(31, 2000, 16)
    yield _haar(15, 56)
    yield _stuffed(16, 1000, 31, 3)
    yield _cross_covariance(500, 60, 61)
    yield _soft_histogram(8, 1000, 31)
    yield _weighted_variance(1000, 100)
    yield _z_scores(500, 127)
    yield _entropy(200, 321)
    yield _divergence(127, 321)
    yield einsum("weighted_gram", "ki,k,kj->ij", k=1000, i=61, j=61)


def _frames(frames: int, length: int, hop: int, bins: int) -> Expression:
    """A short-time Fourier transform: windowed frames that overlap, times cosines and sines."""

    def compute(x: te.Tensor, taper: te.Tensor, basis: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, length), "k")
        frame = te.compute((frames, length), lambda t, n: x[t * hop + n] * taper[n], "frame")
        return te.compute((frames, bins, 2), lambda t, f, c: te.sum(frame[t, k] * basis[f, c, k], axis=k), "transform")

    def reference(x: np.ndarray, taper: np.ndarray, basis: np.ndarray) -> Checked:
        seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), length)[::hop] * taper
        form = "tk,fck->tfc"
        return np.einsum(form, seen, basis), np.einsum(form, np.abs(seen), np.abs(basis))

    inputs = {"x": ((frames - 1) * hop + length,), "taper": (length,), "basis": (bins, 2, length)}
    operations = frames * length * (4 * bins + 1)
    return case("frames", inputs, (frames, bins, 2), operations, compute, reference)


def _mel(frames: int, bins: int, bands: int) -> Expression:
    """Logarithms of the power in bands, from a real and an imaginary part of each bin."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, bins), "k")
        power = te.compute((frames, bins), lambda t, f: x[t, f, 0] * x[t, f, 0] + x[t, f, 1] * x[t, f, 1], "power")
        energy = te.compute((frames, bands), lambda t, b: te.sum(power[t, k] * te.abs(w[k, b]), axis=k), "energy")
        return te.compute((frames, bands), lambda t, b: te.log(energy[t, b] + 1e-6), "mel")

    def reference(x: np.ndarray, w: np.ndarray) -> Checked:
        value = np.log((x.astype(np.float64) ** 2).sum(-1) @ np.abs(w) + 1e-6)
        return value, np.abs(value) + 1

    inputs = {"x": (frames, bins, 2), "w": (bins, bands)}
    operations = frames * (bins * (2 * bands + 3) + bands * (LOG + 1))
    return case("mel", inputs, (frames, bands), operations, compute, reference)


def _polyphase(results: int, phases: int, taps: int) -> Expression:
    """The filters of a polyphase bank, each along samples that are `phases` apart."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, taps), "k")
        return te.compute(
            (results, phases), lambda t, p: te.sum(x[(t + k) * phases + p] * w[k * phases + p], axis=k), "polyphase"
        )

    def reference(x: np.ndarray, w: np.ndarray) -> Checked:
        seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64).reshape(-1, phases), taps, axis=0)
        weights = w.astype(np.float64).reshape(taps, phases)
        form = "tpk,kp->tp"
        return np.einsum(form, seen, weights), np.einsum(form, np.abs(seen), np.abs(weights))

    inputs = {"x": ((results + taps - 1) * phases,), "w": (taps * phases,)}
    return case("polyphase", inputs, (results, phases), 2 * results * phases * taps, compute, reference)


def _lags(channels: int, length: int, lags: int) -> Expression:
    """Each channel's correlation with itself some samples later."""

    def compute(x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, length), "k")
        return te.compute((channels, lags), lambda c, d: te.sum(x[c, k] * x[c, k + d], axis=k), "lags")

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        seen = np.lib.stride_tricks.sliding_window_view(wide, length, axis=1)
        form, first = "ck,cdk->cd", wide[:, :length]
        return np.einsum(form, first, seen), np.einsum(form, np.abs(first), np.abs(seen))

    inputs = {"x": (channels, length + lags - 1)}
    return case("lags", inputs, (channels, lags), 2 * channels * lags * length, compute, reference)


def _moving_variance(channels: int, results: int, taps: int) -> Expression:
    """Variances of windows, as means of squares less squares of means."""

    def compute(x: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, taps), "i"), te.reduce_axis((0, taps), "j")
        shape = (channels, results)
        total = te.compute(shape, lambda c, t: te.sum(x[c, t + i], axis=i), "total")
        squares = te.compute(shape, lambda c, t: te.sum(x[c, t + j] * x[c, t + j], axis=j), "squares")

        def value(c: Any, t: Any) -> Any:
            mean = total[c, t] * (1 / taps)
            return squares[c, t] * (1 / taps) - mean * mean

        return te.compute(shape, value, "moving_variance")

    def reference(x: np.ndarray) -> Checked:
        seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), taps, axis=1)
        return seen.var(-1), (seen**2).mean(-1) + np.abs(seen).mean(-1) ** 2

    inputs = {"x": (channels, results + taps - 1)}
    operations = channels * results * (3 * taps + 4)
    return case("moving_variance", inputs, (channels, results), operations, compute, reference)


def _haar(images: int, size: int) -> Expression:
    """A level of Haar's wavelet: a mean and three differences of each square of 2x2 pixels."""

    def compute(x: te.Tensor) -> te.Tensor:
        def value(n: Any, band: Any, r: Any, c: Any) -> Any:
            a, b = x[n, 2 * r, 2 * c], x[n, 2 * r, 2 * c + 1]
            d, e = x[n, 2 * r + 1, 2 * c], x[n, 2 * r + 1, 2 * c + 1]
            differences = tirx.Select(band == 2, (a + b) - (d + e), (a - b) - (d - e))
            return (
                tirx.Select(band == 0, (a + b) + (d + e), tirx.Select(band == 1, (a - b) + (d - e), differences)) * 0.5
            )

        return te.compute((images, 4, size, size), value, "haar")

    def reference(x: np.ndarray) -> Checked:
        squares = x.astype(np.float64).reshape(images, size, 2, size, 2)
        signs = np.array([[[1, 1], [1, 1]], [[1, -1], [1, -1]], [[1, 1], [-1, -1]], [[1, -1], [-1, 1]]])
        form = "nricj,bij->nbrc"
        return np.einsum(form, squares, signs) / 2, np.einsum(form, np.abs(squares), np.abs(signs)) / 2

    shape = (images, 4, size, size)
    return case("haar", {"x": (images, 2 * size, 2 * size)}, shape, 4 * prod(shape), compute, reference)


def _stuffed(channels: int, length: int, taps: int, factor: int) -> Expression:
    """A higher rate: zeros between samples, then a filter; products with zeros are not counted."""
    results = length * factor - taps + 1

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k, zero = te.reduce_axis((0, taps), "k"), tirx.const(0.0, "float32")
        wide = te.compute(
            (channels, length * factor),
            lambda c, t: tirx.if_then_else(t % factor == 0, x[c, t // factor], zero),
            "wide",
        )
        return te.compute((channels, results), lambda c, t: te.sum(wide[c, t + k] * w[k], axis=k), "stuffed")

    def reference(x: np.ndarray, w: np.ndarray) -> Checked:
        wide = np.zeros((channels, length * factor))
        wide[:, ::factor] = x
        seen = np.lib.stride_tricks.sliding_window_view(wide, taps, axis=1)
        return seen @ w, np.abs(seen) @ np.abs(w)

    inputs = {"x": (channels, length), "w": (taps,)}
    operations = 2 * channels * results * taps // factor
    return case("stuffed", inputs, (channels, results), operations, compute, reference)


def _cross_covariance(rows: int, left: int, right: int) -> Expression:
    """Covariances of the columns of two tables, each less its mean."""

    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        i, j, k = (te.reduce_axis((0, rows), name) for name in "ijk")
        of_x = te.compute((left,), lambda a: te.sum(x[i, a], axis=i), "of_x")
        of_y = te.compute((right,), lambda b: te.sum(y[j, b], axis=j), "of_y")
        gap_x = te.compute((rows, left), lambda r, a: x[r, a] - of_x[a] * (1 / rows), "gap_x")
        gap_y = te.compute((rows, right), lambda r, b: y[r, b] - of_y[b] * (1 / rows), "gap_y")
        total = te.compute((left, right), lambda a, b: te.sum(gap_x[k, a] * gap_y[k, b], axis=k), "products")
        return te.compute((left, right), lambda a, b: total[a, b] * (1 / (rows - 1)), "cross_covariance")

    def reference(x: np.ndarray, y: np.ndarray) -> Checked:
        gaps = [one - one.astype(np.float64).mean(0) for one in (x, y)]
        return gaps[0].T @ gaps[1] / (rows - 1), np.abs(gaps[0]).T @ np.abs(gaps[1]) / (rows - 1)

    inputs = {"x": (rows, left), "y": (rows, right)}
    operations = rows * (2 * left * right + 2 * (left + right))
    return case("cross_covariance", inputs, (left, right), operations, compute, reference)


def _soft_histogram(rows: int, length: int, bins: int) -> Expression:
    """How many elements of each row are near each bin, by a Gaussian of their distance."""

    def compute(x: te.Tensor, centre: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, length), "k")

        def near(r: Any, b: Any) -> Any:
            gap = x[r, k] - centre[b]
            return te.sum(te.exp(gap * gap * -2.0), axis=k)

        total = te.compute((rows, bins), near, "total")
        return te.compute((rows, bins), lambda r, b: total[r, b] * (1 / length), "soft_histogram")

    def reference(x: np.ndarray, centre: np.ndarray) -> Checked:
        square = (x.astype(np.float64)[:, None] - centre[:, None]) ** 2
        near = np.exp(-2 * square)
        return near.mean(-1), (near * (1 + square)).mean(-1)

    inputs = {"x": (rows, length), "centre": (bins,)}
    return case("soft_histogram", inputs, (rows, bins), rows * length * bins * (EXP + 4), compute, reference)


def _weighted_variance(rows: int, columns: int) -> Expression:
    """Each column's variance, where rows count by the square of a weight."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        i, j, k = (te.reduce_axis((0, rows), name) for name in "ijk")
        count = te.compute((1,), lambda _: te.sum(w[i] * w[i], axis=i), "count")
        total = te.compute((columns,), lambda c: te.sum(w[j] * w[j] * x[j, c], axis=j), "total")

        def square(c: Any) -> Any:
            gap = x[k, c] - total[c] / count[0]
            return te.sum(w[k] * w[k] * gap * gap, axis=k)

        squares = te.compute((columns,), square, "squares")
        return te.compute((columns,), lambda c: squares[c] / count[0], "weighted_variance")

    def reference(x: np.ndarray, w: np.ndarray) -> Checked:
        weights = w.astype(np.float64) ** 2
        shares = weights / weights.sum()
        value = shares @ (x - shares @ x) ** 2
        return value, value

    inputs = {"x": (rows, columns), "w": (rows,)}
    return case("weighted_variance", inputs, (columns,), 6 * rows * columns + 2 * rows, compute, reference)


def _z_scores(rows: int, columns: int) -> Expression:
    """Elements less their column's mean, in standard deviations."""

    def compute(x: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, rows), "j")
        total = te.compute((columns,), lambda c: te.sum(x[i, c], axis=i), "total")
        squares = te.compute((columns,), lambda c: te.sum(x[j, c] * x[j, c], axis=j), "squares")
        mean = te.compute((columns,), lambda c: total[c] * (1 / rows), "mean")
        scale = te.compute((columns,), lambda c: 1.0 / te.sqrt(squares[c] * (1 / rows) - mean[c] * mean[c]), "scale")
        return te.compute((rows, columns), lambda r, c: (x[r, c] - mean[c]) * scale[c], "z_scores")

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        value = (wide - wide.mean(0)) / wide.std(0)
        return value, np.abs(value) + 1

    shape = (rows, columns)
    return case("z_scores", {"x": shape}, shape, 5 * prod(shape), compute, reference)


def _entropy(rows: int, columns: int) -> Expression:
    """The entropy of each row of counts, which need not sum to one."""

    def compute(x: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, columns), "i"), te.reduce_axis((0, columns), "j")
        total = te.compute((rows,), lambda r: te.sum(te.abs(x[r, i]), axis=i), "total")
        share = te.compute((rows, columns), lambda r, c: te.abs(x[r, c]) / total[r], "share")
        return te.compute((rows,), lambda r: te.sum(share[r, j] * te.log(share[r, j] + 1e-9) * -1.0, axis=j), "entropy")

    def reference(x: np.ndarray) -> Checked:
        share = np.abs(x.astype(np.float64))
        share /= share.sum(1, keepdims=True)
        value = -(share * np.log(share + 1e-9)).sum(1)
        return value, value

    return case("entropy", {"x": (rows, columns)}, (rows,), (LOG + 5) * rows * columns, compute, reference)


def _divergence(rows: int, columns: int) -> Expression:
    """The Kullback-Leibler divergence of the softmaxes of pairs of rows."""

    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        def logarithms(z: te.Tensor, name: str) -> te.Tensor:
            i, j = (te.reduce_axis((0, columns), f"{axis}_{name}") for axis in "ij")
            top = te.compute((rows,), lambda r: te.max(z[r, i], axis=i), f"top_{name}")
            total = te.compute((rows,), lambda r: te.sum(te.exp(z[r, j] - top[r]), axis=j), f"total_{name}")
            return te.compute((rows, columns), lambda r, c: z[r, c] - top[r] - te.log(total[r]), f"log_{name}")

        p, q, k = logarithms(x, "p"), logarithms(y, "q"), te.reduce_axis((0, columns), "k")
        return te.compute((rows,), lambda r: te.sum(te.exp(p[r, k]) * (p[r, k] - q[r, k]), axis=k), "divergence")

    def reference(x: np.ndarray, y: np.ndarray) -> Checked:
        def logarithms(z: np.ndarray) -> np.ndarray:
            wide = z.astype(np.float64) - z.max(1, keepdims=True)
            return np.asarray(wide - np.log(np.exp(wide).sum(1, keepdims=True)))

        p, q = logarithms(x), logarithms(y)
        return (np.exp(p) * (p - q)).sum(1), (np.exp(p) * (np.abs(p) + np.abs(q))).sum(1)

    inputs = {"x": (rows, columns), "y": (rows, columns)}
    return case("divergence", inputs, (rows,), (3 * EXP + 11) * rows * columns, compute, reference)
