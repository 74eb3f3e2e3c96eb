"""Expressions that are in no rule's tests, each with a definition in double precision.

They have no PyTorch side: what counts is the share of the roofline. A definition returns the value and the sum of the
absolute values of its terms, which is what errors are measured by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
from tvm import te, tirx, topi

from benchmarks.search.expression import EXP, Checked, Expression, Reference

Shapes = Mapping[str, tuple[int, ...]]


def unforeseen() -> Iterator[Expression]:
    """All 20 cases."""
    yield from _products()
    yield from _distances()
    yield from _windows()
    yield from _rows()


def case(
    name: str, inputs: Shapes, output: tuple[int, ...], operations: int, compute: Any, reference: Reference
) -> Expression:
    """A case of this table or of `held_out.py`: no constants, and no PyTorch side."""
    return Expression(f"new_{name}", inputs, {}, output, operations, compute, reference=reference)


def einsum(name: str, equation: str, **extents: int) -> Expression:
    """A sum of products of two or more tensors, by the rules of numpy's `einsum`."""
    left, result = equation.split("->")
    operands = left.split(",")
    inputs = {f"x{number}": tuple(extents[a] for a in axes) for number, axes in enumerate(operands)}
    output = tuple(extents[axis] for axis in result)

    def compute(*tensors: te.Tensor) -> te.Tensor:
        summed = {axis: te.reduce_axis((0, size), axis) for axis, size in extents.items() if axis not in result}

        def value(*place: Any) -> Any:
            at = dict(zip(result, place, strict=True)) | summed
            factors = [x(*(at[axis] for axis in axes)) for x, axes in zip(tensors, operands, strict=True)]
            return te.sum(prod(factors[1:], start=factors[0]), axis=list(summed.values()))

        return te.compute(output, value, "einsum")

    def reference(*values: np.ndarray) -> Checked:
        wide = [np.asarray(value, np.float64) for value in values]
        return np.einsum(equation, *wide), np.einsum(equation, *map(np.abs, wide))

    return case(name, inputs, output, len(operands) * prod(extents.values()), compute, reference)


def _products() -> Iterator[Expression]:
    yield einsum("three_operands", "ik,jk,k->ij", i=128, j=96, k=256)
    yield einsum("routing", "ij,ijd->jd", i=1152, j=10, d=16)
    yield einsum("batch_at_b", "bki,bkj->bij", b=8, i=64, j=96, k=128)
    yield einsum("outer_sums", "ri,rj->ij", i=127, j=128, r=512)
    yield _gram(200, 1000)
    yield einsum("odd_product", "ik,kj->ij", i=127, j=127, k=1000)
    yield einsum("matrix_vector", "ik,k->i", i=1000, k=1000)


def _gram(rows: int, depth: int) -> Expression:
    def compute(x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, depth), "k")
        return te.compute((rows, rows), lambda i, j: te.sum(x[i, k] * x[j, k], axis=k), "gram")

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        return wide @ wide.T, np.abs(wide) @ np.abs(wide.T)

    return case("gram", {"x": (rows, depth)}, (rows, rows), 2 * rows * rows * depth, compute, reference)


def _pairs(name: str, rows: int, columns: int, depth: int, *, squared: bool) -> Expression:
    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, depth), "k")

        def term(i: Any, j: Any) -> Any:
            gap = a[i, k] - b[j, k]
            return te.sum(gap * gap if squared else te.abs(gap), axis=k)

        return te.compute((rows, columns), term, "distances")

    def reference(a: np.ndarray, b: np.ndarray) -> Checked:
        gap = np.abs(a.astype(np.float64)[:, None] - b.astype(np.float64))
        value = (gap**2 if squared else gap).sum(-1)
        return value, value

    inputs = {"a": (rows, depth), "b": (columns, depth)}
    return case(name, inputs, (rows, columns), 3 * rows * columns * depth, compute, reference)


def _distances() -> Iterator[Expression]:
    yield _pairs("squared_distances", 256, 128, 64, squared=True)
    yield _pairs("l1_distances", 127, 100, 77, squared=False)
    size = 192

    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, size), "k")
        return te.compute((size, size), lambda i, j: te.max(a[i, k] + b[k, j], axis=k), "max_plus")

    def reference(a: np.ndarray, b: np.ndarray) -> Checked:
        terms = a.astype(np.float64)[:, :, None] + b
        value = terms.max(1)
        return value, np.abs(value) + 1

    yield case("max_plus", {"a": (size, size), "b": (size, size)}, (size, size), 2 * size**3, compute, reference)


def window(name: str, equation: str, image: tuple[int, ...], kernel: tuple[int, ...], stride: int = 1) -> Expression:
    """Sums over windows at the end of an image's axes, as `equation` multiplies windows and kernel."""
    size = ((image[-2] - kernel[-2]) // stride + 1, (image[-1] - kernel[-1]) // stride + 1)
    operands, result = equation.split("->")
    windows, kernel_axes = operands.split(",")
    extents = dict(zip(windows, (*image[:-2], *size, *kernel[-2:]), strict=True))
    extents |= dict(zip(kernel_axes, kernel, strict=True))
    output = tuple(extents[axis] for axis in result)

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        summed = {axis: te.reduce_axis((0, extent), axis) for axis, extent in extents.items() if axis not in result}

        def value(*place: Any) -> Any:
            at = dict(zip(result, place, strict=True)) | summed
            *outer, row, column, tap_row, tap_column = (at[axis] for axis in windows)
            pixel = x(*outer, row * stride + tap_row, column * stride + tap_column)
            return te.sum(pixel * w(*(at[axis] for axis in kernel_axes)), axis=list(summed.values()))

        return te.compute(output, value, "windows")

    def reference(x: np.ndarray, w: np.ndarray) -> Checked:
        seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), kernel[-2:], axis=(-2, -1))
        seen = seen[..., ::stride, ::stride, :, :]
        wide = w.astype(np.float64)
        return (
            np.einsum(equation, seen, wide, optimize=True),
            np.einsum(equation, np.abs(seen), np.abs(wide), optimize=True),
        )

    return case(name, {"x": image, "w": kernel}, output, 2 * prod(extents.values()), compute, reference)


def _windows() -> Iterator[Expression]:
    yield window("nchw_convolution", "nchwij,ocij->nohw", (1, 64, 30, 30), (64, 64, 3, 3))
    yield window("depthwise_correlation", "chwij,cij->chw", (128, 31, 31), (128, 7, 7))
    side, taps = 256, 5

    def box(x: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, taps), "i"), te.reduce_axis((0, taps), "j")
        shape = (side - taps + 1, side - taps + 1)
        return te.compute(shape, lambda h, w: te.sum(x[h + i, w + j], axis=[i, j]), "box")

    def box_reference(x: np.ndarray) -> Checked:
        seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (taps, taps))
        return seen.sum((-2, -1)), np.abs(seen).sum((-2, -1))

    result = side - taps + 1
    yield case("box_filter", {"x": (side, side)}, (result, result), result**2 * taps**2, box, box_reference)
    size, channels, shifts = 32, 64, 9

    def correlation(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        c = te.reduce_axis((0, channels), "c")
        return te.compute(
            (size, size, shifts, shifts),
            lambda h, w, i, j: te.sum(x[h, w, c] * y[h + i, w + j, c], axis=c),
            "correlation",
        )

    def correlated(x: np.ndarray, y: np.ndarray) -> Checked:
        seen = np.lib.stride_tricks.sliding_window_view(y.astype(np.float64), (shifts, shifts), axis=(0, 1))
        wide = x.astype(np.float64)
        return np.einsum("hwc,hwcij->hwij", wide, seen), np.einsum("hwc,hwcij->hwij", np.abs(wide), np.abs(seen))

    inputs = {"x": (size, size, channels), "y": (size + shifts - 1, size + shifts - 1, channels)}
    operations = 2 * size**2 * shifts**2 * channels
    yield case("correlation", inputs, (size, size, shifts, shifts), operations, correlation, correlated)


def _rows() -> Iterator[Expression]:
    yield _normalised(128, 128, 256)
    yield _running_sum(64, 256)
    yield _middle_softmax(8, 127, 64)
    yield _masked_maximum(512, 1000)
    yield _log_sum_exp(512, 1000)
    yield _column_variance(1000, 127)


def _normalised(m: int, n: int, depth: int) -> Expression:
    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        j, k = te.reduce_axis((0, depth), "j"), te.reduce_axis((0, depth), "k")
        squares = te.compute((m,), lambda i: te.sum(x[i, j] * x[i, j], axis=j), "squares")
        unit = te.compute((m, depth), lambda i, d: x[i, d] / te.sqrt(squares[i]), "unit")
        return te.compute((m, n), lambda i, o: te.sum(unit[i, k] * w[k, o], axis=k), "product")

    def reference(x: np.ndarray, w: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        unit = wide / np.linalg.norm(wide, axis=1, keepdims=True)
        return unit @ w.astype(np.float64), np.abs(unit) @ np.abs(w.astype(np.float64))

    operations = 2 * m * n * depth + 3 * m * depth
    return case("normalised", {"x": (m, depth), "w": (depth, n)}, (m, n), operations, compute, reference)


def _running_sum(rows: int, length: int) -> Expression:
    """Sums of all elements up to each one, as a sum over a triangle; the triangle's additions are counted."""

    def compute(x: te.Tensor) -> te.Tensor:
        j = te.reduce_axis((0, length), "j")
        zero = tirx.const(0.0, "float32")
        return te.compute(
            (rows, length), lambda r, i: te.sum(tirx.if_then_else(j <= i, x[r, j], zero), axis=j), "running"
        )

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        return np.cumsum(wide, 1), np.cumsum(np.abs(wide), 1)

    operations = rows * length * (length + 1) // 2
    return case("running_sum", {"x": (rows, length)}, (rows, length), operations, compute, reference)


def _middle_softmax(batch: int, length: int, inner: int) -> Expression:
    def compute(x: te.Tensor) -> te.Tensor:
        return topi.nn.softmax(x, axis=1)

    def reference(x: np.ndarray) -> Checked:
        powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        value = powers / powers.sum(1, keepdims=True)
        return value, value

    shape = (batch, length, inner)
    return case("middle_softmax", {"x": shape}, shape, (EXP + 4) * prod(shape), compute, reference)


def _masked_maximum(rows: int, length: int) -> Expression:
    least = -1e30

    def compute(x: te.Tensor, mask: te.Tensor) -> te.Tensor:
        j = te.reduce_axis((0, length), "j")
        none = tirx.const(least, "float32")
        return te.compute((rows,), lambda i: te.max(tirx.Select(mask[i, j] > 0, x[i, j], none), axis=j), "masked")

    def reference(x: np.ndarray, mask: np.ndarray) -> Checked:
        value = np.where(mask > 0, x, least).max(1).astype(np.float64)
        return value, np.abs(value)

    inputs = {"x": (rows, length), "mask": (rows, length)}
    return case("masked_maximum", inputs, (rows,), 2 * rows * length, compute, reference)


def _log_sum_exp(rows: int, length: int) -> Expression:
    def compute(x: te.Tensor) -> te.Tensor:
        j, k = te.reduce_axis((0, length), "j"), te.reduce_axis((0, length), "k")
        most = te.compute((rows,), lambda i: te.max(x[i, j], axis=j), "most")
        total = te.compute((rows,), lambda i: te.sum(te.exp(x[i, k] - most[i]), axis=k), "total")
        return te.compute((rows,), lambda i: te.log(total[i]) + most[i], "log_sum_exp")

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        most = wide.max(1)
        logarithm = np.log(np.exp(wide - most[:, None]).sum(1))
        return logarithm + most, np.abs(logarithm) + np.abs(most)

    return case("log_sum_exp", {"x": (rows, length)}, (rows,), (EXP + 3) * rows * length, compute, reference)


def _column_variance(rows: int, columns: int) -> Expression:
    def compute(x: te.Tensor) -> te.Tensor:
        i, k = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, rows), "k")
        total = te.compute((columns,), lambda c: te.sum(x[i, c], axis=i), "total")
        scale = tirx.const(1 / rows, "float32")

        def square(c: Any) -> Any:
            gap = x[k, c] - total[c] * scale
            return te.sum(gap * gap * scale, axis=k)

        return te.compute((columns,), square, "variance")

    def reference(x: np.ndarray) -> Checked:
        value = x.astype(np.float64).var(0)
        return value, value

    return case("column_variance", {"x": (rows, columns)}, (columns,), 5 * rows * columns, compute, reference)
