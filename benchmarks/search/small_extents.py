"""Expressions with rows of 3, 7 and 31 elements, and sums of a number of terms that nothing divides.

Like `unforeseen.py`, each has a definition in double precision and no PyTorch side.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from tvm import te

from benchmarks.search.expression import Checked, Expression
from benchmarks.search.held_out import softmax
from benchmarks.search.unforeseen import case, einsum


def small_extents() -> Iterator[Expression]:
    """All 10 cases."""
    yield softmax("softmax_of_3", (8000, 3))
    yield softmax("softmax_of_7", (4000, 7))
    yield softmax("softmax_of_31", (1000, 31))
    yield layer_norm("short_layer_norm", 10_000, 7)
    yield _sums("sums_of_3_columns", (1_000_003, 3))
    yield _sums("sums_of_7_columns", (400_003, 7))
    yield _sums("sums_of_65_columns", (66_003, 65))
    yield _sums("sum_of_a_prime", (1_000_003, 1))
    yield einsum("outer_product", "ir,jr->ijr", i=31, j=127, r=31)
    yield _moved_channels((4, 31, 64, 64))


def layer_norm(name: str, rows: int, length: int) -> Expression:
    """Rows of mean zero and variance one, with a scale and an offset for each column."""

    def compute(x: te.Tensor, scale: te.Tensor, offset: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, length), "i"), te.reduce_axis((0, length), "j")
        total = te.compute((rows,), lambda r: te.sum(x[r, i], axis=i), "total")
        gap = te.compute((rows, length), lambda r, c: x[r, c] - total[r] / length, "gap")
        squares = te.compute((rows,), lambda r: te.sum(gap[r, j] * gap[r, j], axis=j), "squares")
        return te.compute(
            (rows, length),
            lambda r, c: gap[r, c] / te.sqrt(squares[r] / length + 1e-5) * scale[c] + offset[c],
            "layer_norm",
        )

    def reference(x: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        unit = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
        value = unit * scale + offset
        return value, (np.abs(unit) + 1) * np.abs(scale) + np.abs(offset)

    inputs = {"x": (rows, length), "scale": (length,), "offset": (length,)}
    return case(name, inputs, (rows, length), 8 * rows * length, compute, reference)


def _sums(name: str, shape: tuple[int, int]) -> Expression:
    def compute(x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, shape[0]), "k")
        return te.compute(shape[1:], lambda i: te.sum(x[k, i], axis=k), "sums")

    def reference(x: np.ndarray) -> Checked:
        wide = x.astype(np.float64)
        return wide.sum(0), np.abs(wide).sum(0)

    return case(name, {"x": shape}, shape[1:], prod(shape), compute, reference)


def _moved_channels(shape: tuple[int, int, int, int]) -> Expression:
    """Channels first as channels last."""
    n, c, h, w = shape

    def compute(x: te.Tensor) -> te.Tensor:
        def value(*place: Any) -> Any:
            image, row, column, channel = place
            return x[image, channel, row, column]

        return te.compute((n, h, w, c), value, "channels_last")

    def reference(x: np.ndarray) -> Checked:
        value = x.astype(np.float64).transpose(0, 2, 3, 1)
        return value, np.abs(value) + 1

    return case("moved_channels", {"x": shape}, (n, h, w, c), 0, compute, reference)
