"""Everyday expressions of computer vision and of geometry, written without a look at any rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from tvm import te, tirx

from benchmarks.search.expression import Checked, Expression, in_double, multilinear
from benchmarks.search.unforeseen import case


def everyday_pictures() -> Iterator[Expression]:
    """All 15 cases."""
    yield _doubled(3, 128, 127)
    yield _tripled(67, 101)
    yield _resampled(3, 97, 224)
    yield _half_chroma(120, 160)
    yield _hue(60_011)
    yield _census(240, 321)
    yield _boxes_from_sums(400, 4)
    yield _nearest_descriptor(301, 257, 32)
    yield _hamming(127, 129, 128)
    yield _surface_normals(255, 301)
    yield _local_maxima(7, 127, 129)
    yield _unsharp(200, 201)
    yield _box_overlaps(500, 301)
    yield _flow_warped(3, 192)
    yield _patches(7, 16, 96)


def _clamped(index: Any, extent: int) -> Any:
    return te.max(te.min(index, extent - 1), 0)


def _doubled(channels: int, rows: int, columns: int) -> Expression:
    """Twice as many rows and columns, linear between the centres of pixels."""

    def compute(x: te.Tensor) -> te.Tensor:
        def value(c: Any, i: Any, j: Any) -> Any:
            row, column = i // 2, j // 2
            other_row, other_column = _clamped(row + i % 2 * 2 - 1, rows), _clamped(column + j % 2 * 2 - 1, columns)
            near = x[c, row, column] * 0.75 + x[c, row, other_column] * 0.25
            return near * 0.75 + (x[c, other_row, column] * 0.75 + x[c, other_row, other_column] * 0.25) * 0.25

        return te.compute((channels, 2 * rows, 2 * columns), value, "doubled")

    def reference(x: np.ndarray) -> Any:
        for axis in (1, 2):
            place = np.arange(2 * x.shape[axis])
            other = np.clip(place // 2 + place % 2 * 2 - 1, 0, x.shape[axis] - 1)
            x = 0.75 * np.take(x, place // 2, axis) + 0.25 * np.take(x, other, axis)
        return x

    output = (channels, 2 * rows, 2 * columns)
    operations = 9 * channels * 4 * rows * columns
    return case("doubled", {"x": (channels, rows, columns)}, output, operations, compute, multilinear(reference))


def _tripled(rows: int, columns: int) -> Expression:
    """Each pixel of three interleaved colours three times in both directions."""
    output = (3 * rows, 3 * columns, 3)

    def compute(x: te.Tensor) -> te.Tensor:
        return te.compute(output, lambda i, j, c: x[i // 3, j // 3, c], "tripled")

    def reference(x: np.ndarray) -> Any:
        return x.repeat(3, 0).repeat(3, 1)

    return case("tripled", {"x": (rows, columns, 3)}, output, 0, compute, multilinear(reference))


def _resampled(channels: int, side: int, result: int) -> Expression:
    """The nearest pixel at a ratio of sides that is not whole."""
    output = (channels, result, result)

    def compute(x: te.Tensor) -> te.Tensor:
        return te.compute(output, lambda c, i, j: x[c, i * side // result, j * side // result], "resampled")

    def reference(x: np.ndarray) -> Any:
        place = np.arange(result) * side // result
        return x[:, place][:, :, place]

    return case("resampled", {"x": (channels, side, side)}, output, 0, compute, multilinear(reference))


def _half_chroma(rows: int, columns: int) -> Expression:
    """The two differences of colour of every two by two pixels, as video stores them."""
    output = (rows, columns, 2)

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        u, v = te.reduce_axis((0, 2), "u"), te.reduce_axis((0, 2), "v")
        k = te.reduce_axis((0, 3), "k")
        mean = te.compute(
            (rows, columns, 3), lambda i, j, c: te.sum(x[i * 2 + u, j * 2 + v, c] * 0.25, axis=[u, v]), "mean"
        )
        mixed = te.compute(output, lambda i, j, c: te.sum(mean[i, j, k] * w[c, k], axis=k), "mixed")
        return te.compute(output, lambda i, j, c: mixed[i, j, c] + 0.5, "chroma")

    def reference(x: np.ndarray, w: np.ndarray) -> Any:
        return x.reshape(rows, 2, columns, 2, 3).mean((1, 3)) @ w.T + 0.5

    inputs = {"x": (2 * rows, 2 * columns, 3), "w": (2, 3)}
    return case("half_chroma", inputs, output, 26 * rows * columns, compute, multilinear(reference))


def _hue(pixels: int) -> Expression:
    """The hue of separate planes of red, green and blue, in sixths of a turn."""

    def compute(x: te.Tensor) -> te.Tensor:
        def value(p: Any) -> Any:
            red, green, blue = x[0, p], x[1, p], x[2, p]
            most, least = te.max(te.max(red, green), blue), te.min(te.min(red, green), blue)
            span = te.max(most - least, tirx.const(1e-6, "float32"))
            first = (green - blue) / span
            first = tirx.Select(first < 0.0, first + 6.0, first)
            later = tirx.Select(most == green, (blue - red) / span + 2.0, (red - green) / span + 4.0)
            return tirx.Select(most == red, first, later)

        return te.compute((pixels,), value, "hue")

    def reference(x: np.ndarray) -> Checked:
        red, green, blue = x
        most, span = x.max(0), np.maximum(np.ptp(x, axis=0), 1e-6)
        first = (green - blue) / span
        first = np.where(first < 0, first + 6, first)
        later = np.where(most == green, (blue - red) / span + 2, (red - green) / span + 4)
        value = np.where(most == red, first, later)
        return value, np.abs(value) + 1

    return case("hue", {"x": (3, pixels)}, (pixels,), 20 * pixels, compute, in_double(reference))


def _census(rows: int, columns: int) -> Expression:
    """Which of a pixel's 24 neighbours are darker than it, as the bits of a number."""
    places = [(i, j) for i in range(5) for j in range(5) if (i, j) != (2, 2)]

    def compute(x: te.Tensor) -> te.Tensor:
        def value(i: Any, j: Any) -> Any:
            result = tirx.const(0.0, "float32")
            for bit, (row, column) in enumerate(places):
                darker = x[i + row, j + column] < x[i + 2, j + 2]
                result = result + tirx.Select(
                    darker, tirx.const(float(1 << bit), "float32"), tirx.const(0.0, "float32")
                )
            return result

        return te.compute((rows, columns), value, "census")

    def reference(x: np.ndarray) -> Checked:
        seen = sliding_window_view(x, (5, 5))
        value = sum((seen[..., i, j] < seen[..., 2, 2]) * 2.0**bit for bit, (i, j) in enumerate(places))
        return np.asarray(value), np.asarray(value) + 1

    operations = 2 * len(places) * rows * columns
    return case("census", {"x": (rows + 4, columns + 4)}, (rows, columns), operations, compute, in_double(reference))


def _boxes_from_sums(side: int, reach: int) -> Expression:
    """Sums of boxes from a table of sums of all elements above and to the left; boxes end at the border."""

    def compute(table: te.Tensor) -> te.Tensor:
        def value(i: Any, j: Any) -> Any:
            top, left = te.max(i - reach, 0), te.max(j - reach, 0)
            bottom, right = te.min(i + reach + 1, side), te.min(j + reach + 1, side)
            return table[bottom, right] - table[top, right] - table[bottom, left] + table[top, left]

        return te.compute((side, side), value, "boxes")

    def reference(table: np.ndarray) -> Checked:
        place = np.arange(side)
        low, high = np.maximum(place - reach, 0), np.minimum(place + reach + 1, side)
        corners = [table[np.ix_(i, j)] for i, j in ((high, high), (low, high), (high, low), (low, low))]
        return corners[0] - corners[1] - corners[2] + corners[3], sum(map(np.abs, corners), np.zeros((side, side)))

    inputs = {"table": (side + 1, side + 1)}
    return case("boxes_from_sums", inputs, (side, side), 3 * side**2, compute, in_double(reference))


def _nearest_descriptor(first: int, second: int, depth: int) -> Expression:
    """The squared distance from each feature to the nearest one of another picture."""

    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        j, k = te.reduce_axis((0, second), "j"), te.reduce_axis((0, depth), "k")

        def square(i: Any, n: Any) -> Any:
            return te.sum((a[i, k] - b[n, k]) * (a[i, k] - b[n, k]), axis=k)

        squares = te.compute((first, second), square, "squares")
        return te.compute((first,), lambda i: te.min(squares[i, j], axis=j), "nearest")

    def reference(a: np.ndarray, b: np.ndarray) -> Checked:
        value = ((a[:, None] - b) ** 2).sum(-1).min(1)
        return value, value

    inputs = {"a": (first, depth), "b": (second, depth)}
    operations = first * second * (3 * depth + 1)
    return case("nearest_descriptor", inputs, (first,), operations, compute, in_double(reference))


def _hamming(first: int, second: int, bits: int) -> Expression:
    """How many signs differ between all pairs of descriptors."""

    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, bits), "k")

        def differs(i: Any, j: Any) -> Any:
            one, other = a[i, k] > 0.0, b[j, k] > 0.0
            either = tirx.any(tirx.all(one, tirx.Not(other)), tirx.all(tirx.Not(one), other))
            return te.sum(tirx.Select(either, tirx.const(1.0, "float32"), tirx.const(0.0, "float32")), axis=k)

        return te.compute((first, second), differs, "hamming")

    def reference(a: np.ndarray, b: np.ndarray) -> Checked:
        value = ((a > 0)[:, None] != (b > 0)).sum(-1).astype(np.float64)
        return value, value + 1

    inputs = {"a": (first, bits), "b": (second, bits)}
    return case("hamming", inputs, (first, second), 2 * first * second * bits, compute, in_double(reference))


def _surface_normals(rows: int, columns: int) -> Expression:
    """Unit normals of a picture of heights, interleaved."""

    def compute(z: te.Tensor) -> te.Tensor:
        def value(i: Any, j: Any, c: Any) -> Any:
            across, down = (z[i + 1, j] - z[i + 1, j + 2]) * 0.5, (z[i, j + 1] - z[i + 2, j + 1]) * 0.5
            part = tirx.Select(c == 0, across, tirx.Select(c == 1, down, tirx.const(1.0, "float32")))
            return part / te.sqrt(across * across + down * down + 1.0)

        return te.compute((rows, columns, 3), value, "normals")

    def reference(z: np.ndarray) -> Checked:
        across, down = (z[1:-1, :-2] - z[1:-1, 2:]) / 2, (z[:-2, 1:-1] - z[2:, 1:-1]) / 2
        value = np.stack([across, down, np.ones_like(across)], -1)
        value /= np.linalg.norm(value, axis=-1, keepdims=True)
        return value, np.abs(value) + 1

    inputs = {"z": (rows + 2, columns + 2)}
    return case("surface_normals", inputs, (rows, columns, 3), 13 * rows * columns, compute, in_double(reference))


def _local_maxima(planes: int, rows: int, columns: int) -> Expression:
    """A picture where only pixels remain that are the largest of their eight neighbours."""
    shape = (planes, rows, columns)

    def compute(x: te.Tensor) -> te.Tensor:
        u, v = te.reduce_axis((0, 3), "u"), te.reduce_axis((0, 3), "v")

        def pixel(p: Any, i: Any, j: Any) -> Any:
            row, column = i + u - 1, j + v - 1
            inside = tirx.all(row >= 0, row < rows, column >= 0, column < columns)
            return te.max(tirx.if_then_else(inside, x[p, row, column], tirx.const(-1e30, "float32")), axis=[u, v])

        most = te.compute(shape, pixel, "most")
        zero = tirx.const(0.0, "float32")
        return te.compute(shape, lambda p, i, j: tirx.Select(x[p, i, j] >= most[p, i, j], x[p, i, j], zero), "maxima")

    def reference(x: np.ndarray) -> Checked:
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-1e30)
        most = sliding_window_view(padded, (3, 3), axis=(1, 2)).max((-2, -1))
        return np.where(x >= most, x, 0), np.abs(x)

    return case("local_maxima", {"x": shape}, shape, 10 * planes * rows * columns, compute, in_double(reference))


def _unsharp(rows: int, columns: int) -> Expression:
    """A picture less its blurred copy; five taps in each direction, and pixels of the border repeat."""
    shape = (rows, columns)

    def compute(x: te.Tensor, w: te.Tensor, amount: te.Tensor) -> te.Tensor:
        u, v = te.reduce_axis((0, 5), "u"), te.reduce_axis((0, 5), "v")
        across = te.compute(shape, lambda i, j: te.sum(x[i, _clamped(j + u - 2, columns)] * w[u], axis=u), "across")
        blurred = te.compute(shape, lambda i, j: te.sum(across[_clamped(i + v - 2, rows), j] * w[v], axis=v), "blurred")
        return te.compute(shape, lambda i, j: x[i, j] + amount[0] * (x[i, j] - blurred[i, j]), "unsharp")

    def blur(x: np.ndarray, w: np.ndarray) -> Any:
        return np.einsum("ijuv,u,v->ij", sliding_window_view(np.pad(x, 2, mode="edge"), (5, 5)), w, w)

    def reference(x: np.ndarray, w: np.ndarray, amount: np.ndarray) -> Checked:
        terms = np.abs(x) + np.abs(amount) * (np.abs(x) + blur(np.abs(x), np.abs(w)))
        return x + amount * (x - blur(x, w)), terms

    inputs = {"x": shape, "w": (5,), "amount": (1,)}
    return case("unsharp", inputs, shape, 23 * rows * columns, compute, in_double(reference))


def _box_overlaps(first: int, second: int) -> Expression:
    """The shared part of the area of all pairs of boxes, from their centres and sizes."""

    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        def corners(x: te.Tensor, count: int, name: str) -> te.Tensor:
            def corner(n: Any, c: Any) -> Any:
                half = (te.abs(x[n, c % 2 + 2]) + 0.5) * 0.5
                return x[n, c % 2] + tirx.Select(c < 2, half * -1.0, half)

            return te.compute((count, 4), corner, name)

        one, other = corners(a, first, "one"), corners(b, second, "other")

        def value(i: Any, j: Any) -> Any:
            spans = [te.min(one[i, c + 2], other[j, c + 2]) - te.max(one[i, c], other[j, c]) for c in range(2)]
            zero = tirx.const(0.0, "float32")
            shared = te.max(spans[0], zero) * te.max(spans[1], zero)
            areas = [(x[n, 2] - x[n, 0]) * (x[n, 3] - x[n, 1]) for x, n in ((one, i), (other, j))]
            return shared / (areas[0] + areas[1] - shared)

        return te.compute((first, second), value, "overlaps")

    def reference(a: np.ndarray, b: np.ndarray) -> Checked:
        halves = [(np.abs(x[:, 2:]) + 0.5) / 2 for x in (a, b)]
        lows, highs = ([x[:, :2] + sign * half for x, half in zip((a, b), halves, strict=True)] for sign in (-1, 1))
        spans = np.minimum(highs[0][:, None], highs[1]) - np.maximum(lows[0][:, None], lows[1])
        shared = np.maximum(spans, 0).prod(-1)
        areas = [4 * half.prod(-1) for half in halves]
        value = shared / (areas[0][:, None] + areas[1] - shared)
        return value, value + np.abs(a[:, :2]).sum(-1)[:, None] + np.abs(b[:, :2]).sum(-1) + 1

    inputs = {"a": (first, 4), "b": (second, 4)}
    operations = 12 * first * second + 11 * (first + second)
    return case("box_overlaps", inputs, (first, second), operations, compute, in_double(reference))


def _flow_warped(channels: int, side: int) -> Expression:
    """A picture taken at places that a flow moves, linear between pixels."""
    shape = (channels, side, side)

    def compute(x: te.Tensor, flow: te.Tensor) -> te.Tensor:
        def place(axis: int, start: Any, i: Any, j: Any) -> Any:
            low, high = tirx.const(0.0, "float32"), tirx.const(side - 1.5, "float32")
            return te.min(te.max(start.astype("float32") + flow[axis, i, j], low), high)

        def value(c: Any, i: Any, j: Any) -> Any:
            y, z = place(0, i, i, j), place(1, j, i, j)
            row, column = te.floor(y).astype("int32"), te.floor(z).astype("int32")
            down, right = y - te.floor(y), z - te.floor(z)
            above = x[c, row, column] * (1.0 - right) + x[c, row, column + 1] * right
            below = x[c, row + 1, column] * (1.0 - right) + x[c, row + 1, column + 1] * right
            return above * (1.0 - down) + below * down

        return te.compute(shape, value, "warped")

    def reference(x: np.ndarray, flow: np.ndarray) -> Checked:
        # Places are rounded as those of the kernel are: a place that falls on the other side of a pixel is no error.
        start = np.arange(side, dtype=np.float32)
        y, z = (np.clip(own + part, 0, side - 1.5) for own, part in ((start[:, None], flow[0]), (start, flow[1])))
        row, column = np.floor(y).astype(int), np.floor(z).astype(int)
        down, right = np.float64(y - np.floor(y)), np.float64(z - np.floor(z))

        def mixed(x: np.ndarray) -> Any:
            rows = [x[:, r, column] * (1 - right) + x[:, r, column + 1] * right for r in (row, row + 1)]
            return rows[0] * (1 - down) + rows[1] * down

        return mixed(x.astype(np.float64)), mixed(np.abs(x.astype(np.float64)))

    inputs = {"x": shape, "flow": (2, side, side)}
    return case("flow_warped", inputs, shape, (14 + 9 * channels) * side**2, compute, reference)


def _patches(side: int, patch: int, width: int) -> Expression:
    """Patches of a picture of separate colours times a matrix, as a vision transformer begins."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        c = te.reduce_axis((0, 3), "c")
        u, v = te.reduce_axis((0, patch), "u"), te.reduce_axis((0, patch), "v")

        def value(p: Any, d: Any) -> Any:
            pixel = x[c, p // side * patch + u, p % side * patch + v]
            return te.sum(pixel * w[d, c, u, v], axis=[c, u, v])

        return te.compute((side**2, width), value, "patches")

    def reference(x: np.ndarray, w: np.ndarray) -> Any:
        cut = x.reshape(3, side, patch, side, patch)
        return np.einsum("cyuxv,dcuv->yxd", cut, w, optimize=True).reshape(side**2, width)

    inputs = {"x": (3, side * patch, side * patch), "w": (width, 3, patch, patch)}
    operations = 2 * side**2 * width * 3 * patch**2
    return case("patches", inputs, (side**2, width), operations, compute, multilinear(reference))
