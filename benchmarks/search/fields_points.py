"""Expressions of small vectors: colours, points, rays and rotations, chosen without a look at any rule.

Like `unforeseen.py`, each has a definition in double precision and no PyTorch side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tvm import te, tirx

from benchmarks.search.expression import EXP, LOG, Checked, Expression
from benchmarks.search.unforeseen import case, einsum


def points() -> Iterator[Expression]:
    """All 10 cases."""
    yield _colours(61_003)
    yield _blended(181, 181)
    yield _gamma(100_003)
    yield _quaternions(20_011)
    yield _cross_products(30_011)
    yield einsum("small_products", "bij,bjk->bik", b=10_007, i=3, j=3, k=3)
    yield einsum("moved_points", "oij,opj->opi", o=16, p=1001, i=4, j=4)
    yield _determinants(20_011)
    yield _farthest(500, 301)
    yield _rays(401, 127)


def _colours(pixels: int) -> Expression:
    """Interleaved colours in another space, clipped."""

    def compute(x: te.Tensor, w: te.Tensor, offset: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 3), "k")
        mixed = te.compute((pixels, 3), lambda p, c: te.sum(x[p, k] * w[c, k], axis=k), "mixed")
        low, high = tirx.const(0.0, "float32"), tirx.const(1.0, "float32")
        return te.compute((pixels, 3), lambda p, c: te.min(te.max(mixed[p, c] + offset[c], low), high), "colours")

    def reference(x: np.ndarray, w: np.ndarray, offset: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        return np.clip(wide @ w.T + offset, 0, 1), np.abs(wide) @ np.abs(w.T) + np.abs(offset)

    inputs = {"x": (pixels, 3), "w": (3, 3), "offset": (3,)}
    return case("colours", inputs, (pixels, 3), 9 * 3 * pixels, compute, reference)


def _blended(rows: int, columns: int) -> Expression:
    """A picture over another one, by its opacity at each pixel."""

    def compute(front: te.Tensor, back: te.Tensor, alpha: te.Tensor) -> te.Tensor:
        def value(r: Any, s: Any, c: Any) -> Any:
            return front[r, s, c] * alpha[r, s] + back[r, s, c] * (1.0 - alpha[r, s])

        return te.compute((rows, columns, 3), value, "blended")

    def reference(front: np.ndarray, back: np.ndarray, alpha: np.ndarray) -> Checked:
        share = alpha.astype(np.float64)[..., None]
        value = front * share + back * (1 - share)
        return value, np.abs(front * share) + np.abs(back) * (1 + np.abs(share))

    shape = (rows, columns, 3)
    inputs = {"front": shape, "back": shape, "alpha": (rows, columns)}
    return case("blended", inputs, shape, 4 * rows * columns * 3, compute, reference)


def _gamma(count: int) -> Expression:
    """Linear light as sRGB: a line near zero, and a power."""

    def compute(x: te.Tensor) -> te.Tensor:
        def value(i: Any) -> Any:
            light = te.max(x[i], tirx.const(1e-6, "float32"))
            power = te.exp(te.log(light) * (1 / 2.4)) * 1.055 - 0.055
            return tirx.Select(x[i] <= 0.0031308, x[i] * 12.92, power)

        return te.compute((count,), value, "gamma")

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        power = np.maximum(wide, 1e-6) ** (1 / 2.4) * 1.055
        dark = wide <= np.float32(0.0031308)
        return np.where(dark, wide * 12.92, power - 0.055), np.where(dark, np.abs(wide) * 12.92, 2 * power + 0.055)

    return case("gamma", {"x": (count,)}, (count,), (EXP + LOG + 5) * count, compute, reference)


def _quaternions(count: int) -> Expression:
    """Products of pairs of quaternions."""

    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        def value(i: Any, part: Any) -> Any:
            (aw, ax, ay, az), (bw, bx, by, bz) = ([one[i, n] for n in range(4)] for one in (a, b))
            parts = [
                aw * bw - ax * bx - ay * by - az * bz,
                aw * bx + ax * bw + ay * bz - az * by,
                aw * by - ax * bz + ay * bw + az * bx,
                aw * bz + ax * by - ay * bx + az * bw,
            ]
            result = parts[3]
            for number in (2, 1, 0):
                result = tirx.Select(part == number, parts[number], result)
            return result

        return te.compute((count, 4), value, "quaternions")

    def reference(a: np.ndarray, b: np.ndarray) -> Checked:
        wide = a.astype(np.float64)
        place = np.array([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]])
        sign = np.array([[1, -1, -1, -1], [1, 1, 1, -1], [1, -1, 1, 1], [1, 1, -1, 1]])
        terms = wide[:, None, :] * b[:, place]
        return (terms * sign).sum(-1), np.abs(terms).sum(-1)

    inputs = {"a": (count, 4), "b": (count, 4)}
    return case("quaternions", inputs, (count, 4), 7 * 4 * count, compute, reference)


def _cross_products(count: int) -> Expression:
    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        def value(i: Any, c: Any) -> Any:
            second, third = (c + 1) % 3, (c + 2) % 3
            return a[i, second] * b[i, third] - a[i, third] * b[i, second]

        return te.compute((count, 3), value, "cross_products")

    def reference(a: np.ndarray, b: np.ndarray) -> Checked:
        wide = a.astype(np.float64)
        first, second = (np.roll(wide, -n, 1) * np.roll(b, -m, 1) for n, m in ((1, 2), (2, 1)))
        return first - second, np.abs(first) + np.abs(second)

    inputs = {"a": (count, 3), "b": (count, 3)}
    return case("cross_products", inputs, (count, 3), 3 * 3 * count, compute, reference)


def _determinants(count: int) -> Expression:
    def expanded(m: Any, minus: float) -> Any:
        def minor(i: int, j: int) -> Any:
            return m(1, i) * m(2, j) + m(1, j) * m(2, i) * minus

        return m(0, 0) * minor(1, 2) + m(0, 1) * minor(0, 2) * minus + m(0, 2) * minor(0, 1)

    def compute(x: te.Tensor) -> te.Tensor:
        return te.compute((count,), lambda b: expanded(lambda i, j: x[b, i, j], -1.0), "determinants")

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        return np.linalg.det(wide), expanded(lambda i, j: np.abs(wide)[:, i, j], 1.0)

    return case("determinants", {"x": (count, 3, 3)}, (count,), 14 * count, compute, reference)


def _farthest(points: int, others: int) -> Expression:
    """The directed Hausdorff distance of many sets of points: the farthest of all nearest neighbours."""
    sets = 4

    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, points), "i"), te.reduce_axis((0, others), "j")

        def square(s: Any, p: Any, o: Any) -> Any:
            gaps = [a[s, p, n] - b[s, o, n] for n in range(2)]
            return gaps[0] * gaps[0] + gaps[1] * gaps[1]

        nearest = te.compute((sets, points), lambda s, p: te.min(square(s, p, j), axis=j), "nearest")
        return te.compute((sets,), lambda s: te.max(nearest[s, i], axis=i), "farthest")

    def reference(a: np.ndarray, b: np.ndarray) -> Checked:
        value = ((a.astype(np.float64)[:, :, None] - b[:, None]) ** 2).sum(-1).min(2).max(1)
        return value, value

    inputs = {"a": (sets, points, 2), "b": (sets, others, 2)}
    return case("farthest", inputs, (sets,), sets * points * (6 * others + 1), compute, reference)


def _rays(rays: int, spheres: int) -> Expression:
    """The discriminants of all pairs of a ray and a sphere: below zero they do not meet."""

    def compute(origin: te.Tensor, direction: te.Tensor, centre: te.Tensor, radius: te.Tensor) -> te.Tensor:
        k, m = te.reduce_axis((0, 3), "k"), te.reduce_axis((0, 3), "m")
        shape = (rays, spheres)
        along = te.compute(shape, lambda i, j: te.sum((centre[j, k] - origin[i, k]) * direction[i, k], axis=k), "along")
        square = te.compute(
            shape,
            lambda i, j: te.sum((centre[j, m] - origin[i, m]) * (centre[j, m] - origin[i, m]), axis=m),
            "square",
        )
        return te.compute(shape, lambda i, j: along[i, j] * along[i, j] - square[i, j] + radius[j] * radius[j], "rays")

    def reference(origin: np.ndarray, direction: np.ndarray, centre: np.ndarray, radius: np.ndarray) -> Checked:
        gap = centre.astype(np.float64) - origin[:, None]
        square, along = (gap**2).sum(-1), np.einsum("ijk,ik->ij", gap, direction)
        terms = np.einsum("ijk,ik->ij", np.abs(gap), np.abs(direction)) ** 2 + square
        return along**2 - square + radius.astype(np.float64) ** 2, terms + radius**2

    inputs = {"origin": (rays, 3), "direction": (rays, 3), "centre": (spheres, 3), "radius": (spheres,)}
    return case("rays", inputs, (rays, spheres), 19 * rays * spheres, compute, reference)
