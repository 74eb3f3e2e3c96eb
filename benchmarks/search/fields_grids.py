"""Expressions of simulations, images and geometry, as these fields write them, chosen without a look at any rule.

Like `unforeseen.py`, each has a definition in double precision and no PyTorch side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np
from tvm import te, tirx

from benchmarks.search.expression import Checked, Expression
from benchmarks.search.unforeseen import case

Reader = Callable[[int, int], Any]


def grids() -> Iterator[Expression]:
    """All 13 cases."""
    yield _heat_step(48)
    yield _nine_points(321, 322)
    yield _wave_step(255, 300)
    yield _upwind(200, 501)
    yield _relaxed(300, 301)
    yield _slopes(127, 1001)
    yield _sobel(255, 321)
    yield _corners(120, 127)
    yield _blurred(200, 321, 7)
    yield _medians(240, 321)
    yield _opened(200, 201)
    yield _integral(64, 127)
    yield _chroma(120, 161)


def _shifts(x: np.ndarray, rows: int, columns: int) -> Reader:
    """Reads an image that is wider than `rows` x `columns` by one pixel on each side, moved by some pixels."""
    return lambda i, j: x[1 + i : 1 + i + rows, 1 + j : 1 + j + columns]


def _around(x: te.Tensor, r: Any, c: Any) -> Reader:
    return lambda i, j: x[r + 1 + i, c + 1 + j]


def _heat_step(size: int) -> Expression:
    """An explicit step of the heat equation in three dimensions."""
    rate = 0.1

    def compute(x: te.Tensor) -> te.Tensor:
        def value(i: Any, j: Any, k: Any) -> Any:
            a, b, c = i + 1, j + 1, k + 1
            near = x[i, b, c] + x[i + 2, b, c] + x[a, j, c] + x[a, j + 2, c] + x[a, b, k] + x[a, b, k + 2]
            return x[a, b, c] + (near - x[a, b, c] * 6.0) * rate

        return te.compute((size, size, size), value, "heat_step")

    def summed(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        low, mid, high = slice(0, -2), slice(1, -1), slice(2, None)
        rows, columns = x[low, mid, mid] + x[high, mid, mid], x[mid, low, mid] + x[mid, high, mid]
        return x[mid, mid, mid], rows + columns + x[mid, mid, low] + x[mid, mid, high]

    def reference(x: np.ndarray) -> Checked:
        (here, near), (size_here, size_near) = summed(x.astype(np.float64)), summed(np.abs(x).astype(np.float64))
        return here + (near - 6 * here) * rate, size_here + (size_near + 6 * size_here) * rate

    shape = (size, size, size)
    return case("heat_step", {"x": tuple(n + 2 for n in shape)}, shape, 9 * prod(shape), compute, reference)


def _nine_points(rows: int, columns: int) -> Expression:
    """The Laplacian of fourth order, from the nine pixels of a square."""

    def sides(at: Reader) -> Any:
        return at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1)

    def corners(at: Reader) -> Any:
        return at(-1, -1) + at(-1, 1) + at(1, -1) + at(1, 1)

    def compute(x: te.Tensor) -> te.Tensor:
        def value(r: Any, c: Any) -> Any:
            at = _around(x, r, c)
            return (sides(at) * 4.0 + corners(at) - at(0, 0) * 20.0) * (1 / 6)

        return te.compute((rows, columns), value, "nine_points")

    def reference(x: np.ndarray) -> Checked:
        at, size = (_shifts(one, rows, columns) for one in (x.astype(np.float64), np.abs(x).astype(np.float64)))
        value = (sides(at) * 4 + corners(at) - at(0, 0) * 20) / 6
        return value, (sides(size) * 4 + corners(size) + size(0, 0) * 20) / 6

    inputs = {"x": (rows + 2, columns + 2)}
    return case("nine_points", inputs, (rows, columns), 11 * rows * columns, compute, reference)


def _wave_step(rows: int, columns: int) -> Expression:
    """A step of the wave equation, whose speed differs at each point, from two levels of time."""

    def laplacian(at: Reader, minus: float) -> Any:
        return at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1) + at(0, 0) * minus

    def compute(x: te.Tensor, before: te.Tensor, speed: te.Tensor) -> te.Tensor:
        def value(r: Any, c: Any) -> Any:
            at = _around(x, r, c)
            return at(0, 0) * 2.0 - before[r, c] + speed[r, c] * laplacian(at, -4.0)

        return te.compute((rows, columns), value, "wave_step")

    def reference(x: np.ndarray, before: np.ndarray, speed: np.ndarray) -> Checked:
        at, size = (_shifts(one, rows, columns) for one in (x.astype(np.float64), np.abs(x).astype(np.float64)))
        terms = size(0, 0) * 2 + np.abs(before) + np.abs(speed) * laplacian(size, 4)
        return at(0, 0) * 2 - before + speed * laplacian(at, -4), terms

    inputs = {"x": (rows + 2, columns + 2), "before": (rows, columns), "speed": (rows, columns)}
    return case("wave_step", inputs, (rows, columns), 9 * rows * columns, compute, reference)


def _upwind(rows: int, columns: int) -> Expression:
    """A step of advection along rows that go on at their start, with differences against the wind."""

    def compute(x: te.Tensor, wind: te.Tensor) -> te.Tensor:
        zero = tirx.const(0.0, "float32")

        def value(r: Any, c: Any) -> Any:
            left, right = x[r, (c + columns - 1) % columns], x[r, (c + 1) % columns]
            forth, back = te.max(wind[r, c], zero), te.min(wind[r, c], zero)
            return x[r, c] - (forth * (x[r, c] - left) + back * (right - x[r, c])) * 0.2

        return te.compute((rows, columns), value, "upwind")

    def reference(x: np.ndarray, wind: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        left, right, size = np.roll(wide, 1, 1), np.roll(wide, -1, 1), np.abs(wide)
        moved = np.maximum(wind, 0) * (wide - left) + np.minimum(wind, 0) * (right - wide)
        return wide - moved * 0.2, size + np.abs(wind) * (size + np.abs(np.where(wind > 0, left, right))) * 0.2

    shape = (rows, columns)
    return case("upwind", {"x": shape, "wind": shape}, shape, 9 * prod(shape), compute, reference)


def _relaxed(rows: int, columns: int) -> Expression:
    """A sweep of Jacobi's method for Poisson's equation, which keeps the border."""

    def compute(x: te.Tensor, source: te.Tensor) -> te.Tensor:
        def value(r: Any, c: Any) -> Any:
            inside = tirx.all(r > 0, r < rows - 1, c > 0, c < columns - 1)
            near = x[r - 1, c] + x[r + 1, c] + x[r, c - 1] + x[r, c + 1]
            return tirx.if_then_else(inside, (near - source[r, c]) * 0.25, x[r, c])

        return te.compute((rows, columns), value, "relaxed")

    def reference(x: np.ndarray, source: np.ndarray) -> Checked:
        def kept(x: np.ndarray, inner: np.ndarray) -> np.ndarray:
            at, result = _shifts(x, rows - 2, columns - 2), x.copy()
            result[1:-1, 1:-1] = (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1) + inner[1:-1, 1:-1]) / 4
            return result

        wide = x.astype(np.float64)
        return kept(wide, -source), kept(np.abs(wide), np.abs(source)) + 1e-3

    shape = (rows, columns)
    return case("relaxed", {"x": shape, "source": shape}, shape, 5 * prod(shape), compute, reference)


def _slopes(rows: int, columns: int) -> Expression:
    """Central differences along rows, and one-sided ones at both ends."""

    def compute(x: te.Tensor) -> te.Tensor:
        def value(r: Any, c: Any) -> Any:
            middle = (x[r, c + 1] - x[r, c - 1]) * 0.5
            last = tirx.if_then_else(c == columns - 1, x[r, c] - x[r, c - 1], middle)
            return tirx.if_then_else(c == 0, x[r, c + 1] - x[r, c], last)

        return te.compute((rows, columns), value, "slopes")

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        padded = np.pad(np.abs(wide), ((0, 0), (1, 1)), mode="edge")
        return np.gradient(wide, axis=1), padded[:, 2:] + padded[:, :-2]

    shape = (rows, columns)
    return case("slopes", {"x": shape}, shape, 2 * prod(shape), compute, reference)


def _sobel(rows: int, columns: int) -> Expression:
    """The magnitude of the gradient by Sobel's filters."""

    def across(at: Reader) -> Any:
        return (at(-1, 1) - at(-1, -1)) + (at(0, 1) - at(0, -1)) * 2.0 + (at(1, 1) - at(1, -1))

    def down(at: Reader) -> Any:
        return (at(1, -1) - at(-1, -1)) + (at(1, 0) - at(-1, 0)) * 2.0 + (at(1, 1) - at(-1, 1))

    def compute(x: te.Tensor) -> te.Tensor:
        def value(r: Any, c: Any) -> Any:
            at = _around(x, r, c)
            return te.sqrt(across(at) * across(at) + down(at) * down(at))

        return te.compute((rows, columns), value, "sobel")

    def reference(x: np.ndarray) -> Checked:
        at, size = (_shifts(one, rows, columns) for one in (x.astype(np.float64), np.abs(x).astype(np.float64)))
        return np.hypot(across(at), down(at)), 2 * sum(size(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1))

    inputs = {"x": (rows + 2, columns + 2)}
    return case("sobel", inputs, (rows, columns), 16 * rows * columns, compute, reference)


def _corners(rows: int, columns: int) -> Expression:
    """Harris' measure of corners: sums over windows of products of both differences."""

    def compute(x: te.Tensor) -> te.Tensor:
        high, wide = rows + 2, columns + 2
        across = te.compute((high, wide), lambda r, c: x[r + 1, c + 2] - x[r + 1, c], "across")
        down = te.compute((high, wide), lambda r, c: x[r + 2, c + 1] - x[r, c + 1], "down")

        def summed(a: te.Tensor, b: te.Tensor, name: str) -> te.Tensor:
            i, j = te.reduce_axis((0, 3), f"i_{name}"), te.reduce_axis((0, 3), f"j_{name}")
            return te.compute(
                (rows, columns), lambda r, c: te.sum(a[r + i, c + j] * b[r + i, c + j], axis=[i, j]), name
            )

        xx, yy, xy = summed(across, across, "xx"), summed(down, down, "yy"), summed(across, down, "xy")

        def value(r: Any, c: Any) -> Any:
            trace = xx[r, c] + yy[r, c]
            return xx[r, c] * yy[r, c] - xy[r, c] * xy[r, c] - trace * trace * 0.05

        return te.compute((rows, columns), value, "corners")

    def reference(x: np.ndarray) -> Checked:
        image = x.astype(np.float64)
        across, down = image[1:-1, 2:] - image[1:-1, :-2], image[2:, 1:-1] - image[:-2, 1:-1]

        def summed(product: np.ndarray) -> np.ndarray:
            seen: np.ndarray = np.lib.stride_tricks.sliding_window_view(product, (3, 3)).sum((-2, -1))
            return seen

        xx, yy, xy = summed(across**2), summed(down**2), summed(across * down)
        return xx * yy - xy**2 - 0.05 * (xx + yy) ** 2, xx * yy + summed(np.abs(across * down)) ** 2 + (xx + yy) ** 2

    operations = rows * columns * (2 + 3 * 18 + 7)
    return case("corners", {"x": (rows + 4, columns + 4)}, (rows, columns), operations, compute, reference)


def _blurred(rows: int, columns: int, taps: int) -> Expression:
    """A separable filter, first down the columns."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, taps), "i"), te.reduce_axis((0, taps), "j")
        wide = columns + taps - 1
        down = te.compute((rows, wide), lambda r, c: te.sum(x[r + i, c] * w[i], axis=i), "down")
        return te.compute((rows, columns), lambda r, c: te.sum(down[r, c + j] * w[j], axis=j), "blurred")

    def reference(x: np.ndarray, w: np.ndarray) -> Checked:
        seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (taps, taps))
        form = "rcij,i,j->rc"
        return (
            np.einsum(form, seen, w, w, optimize=True),
            np.einsum(form, np.abs(seen), np.abs(w), np.abs(w), optimize=True),
        )

    inputs = {"x": (rows + taps - 1, columns + taps - 1), "w": (taps,)}
    return case("blurred", inputs, (rows, columns), 4 * taps * rows * columns, compute, reference)


def _medians(rows: int, columns: int) -> Expression:
    """Medians of three neighbours, along rows and then down the columns."""

    def middle(a: Any, b: Any, c: Any) -> Any:
        return te.max(te.min(a, b), te.min(te.max(a, b), c))

    def compute(x: te.Tensor) -> te.Tensor:
        along = te.compute((rows + 2, columns), lambda r, c: middle(x[r, c], x[r, c + 1], x[r, c + 2]), "along")
        return te.compute(
            (rows, columns), lambda r, c: middle(along[r, c], along[r + 1, c], along[r + 2, c]), "medians"
        )

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        along = np.median([wide[:, :-2], wide[:, 1:-1], wide[:, 2:]], axis=0)
        value = np.median([along[:-2], along[1:-1], along[2:]], axis=0)
        return value, np.abs(value) + 1

    inputs = {"x": (rows + 2, columns + 2)}
    return case("medians", inputs, (rows, columns), 8 * rows * columns, compute, reference)


def _opened(rows: int, columns: int) -> Expression:
    """Flat morphological opening: the largest of the least of 3x3 pixels."""

    def compute(x: te.Tensor) -> te.Tensor:
        i, j, k, m = (te.reduce_axis((0, 3), name) for name in "ijkm")
        least = te.compute((rows + 2, columns + 2), lambda r, c: te.min(x[r + i, c + j], axis=[i, j]), "least")
        return te.compute((rows, columns), lambda r, c: te.max(least[r + k, c + m], axis=[k, m]), "opened")

    def reference(x: np.ndarray) -> Checked:
        windows = np.lib.stride_tricks.sliding_window_view
        least = windows(x.astype(np.float64), (3, 3)).min((-2, -1))
        value = windows(least, (3, 3)).max((-2, -1))
        return value, np.abs(value) + 1

    inputs = {"x": (rows + 4, columns + 4)}
    return case("opened", inputs, (rows, columns), 18 * rows * columns, compute, reference)


def _integral(rows: int, columns: int) -> Expression:
    """The sums of all rectangles that begin at the first pixel; two triangles of additions are counted."""

    def compute(x: te.Tensor) -> te.Tensor:
        i, j, zero = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, columns), "j"), tirx.const(0.0, "float32")
        shape = (rows, columns)
        along = te.compute(shape, lambda r, c: te.sum(tirx.if_then_else(j <= c, x[r, j], zero), axis=j), "along")
        return te.compute(shape, lambda r, c: te.sum(tirx.if_then_else(i <= r, along[i, c], zero), axis=i), "integral")

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        return wide.cumsum(0).cumsum(1), np.abs(wide).cumsum(0).cumsum(1)

    operations = rows * columns * (rows + columns + 2) // 2
    return case("integral", {"x": (rows, columns)}, (rows, columns), operations, compute, reference)


def _chroma(rows: int, columns: int) -> Expression:
    """Both differences of colour of interleaved pixels, each a mean over 2x2 pixels (4:2:0)."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        i, j, c = te.reduce_axis((0, 2), "i"), te.reduce_axis((0, 2), "j"), te.reduce_axis((0, 3), "c")
        total = te.compute(
            (2, rows, columns),
            lambda o, r, s: te.sum(x[2 * r + i, 2 * s + j, c] * w[o, c], axis=[i, j, c]),
            "total",
        )
        return te.compute((2, rows, columns), lambda o, r, s: total[o, r, s] * 0.25 + 0.5, "chroma")

    def reference(x: np.ndarray, w: np.ndarray) -> Checked:
        squares = x.astype(np.float64).reshape(rows, 2, columns, 2, 3)
        form = "risjc,oc->ors"
        value, terms = np.einsum(form, squares, w), np.einsum(form, np.abs(squares), np.abs(w))
        return value / 4 + 0.5, terms / 4 + 0.5

    inputs = {"x": (2 * rows, 2 * columns, 3), "w": (2, 3)}
    return case("chroma", inputs, (2, rows, columns), 26 * 2 * rows * columns, compute, reference)
