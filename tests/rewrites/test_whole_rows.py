"""Rows of which only extremes are wanted become whole vectors, and mean the same; other rows stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te

from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.program import Program
from tests.examples import costly
from tests.executed_instructions import executed
from tests.te_programs import program_from_te

Array = np.ndarray


def computed(expression: Any, arrays: dict[str, Array]) -> tuple[Program, Array]:
    """The program of an expression, and what its kernels compute."""
    shapes = {name: (value.shape, "float32") for name, value in arrays.items()}
    program = program_from_te(expression, shapes, {}, "made")
    (output,) = evaluate_program(program, [arrays])[0].values()
    return program, output


def points(first: int, second: int, axes: int = 3) -> dict[str, Array]:
    generator = np.random.default_rng(first + second)
    return {
        name: generator.standard_normal((count, axes)).astype(np.float32)
        for name, count in (("a", first), ("b", second))
    }


def exact(arrays: dict[str, Array]) -> Array:
    """The squared distances of all pairs in double precision."""
    return np.asarray(((arrays["a"].astype(np.float64)[:, None] - arrays["b"]) ** 2).sum(-1))


def squares(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, a.shape[1]), "k")
    shape = (a.shape[0], b.shape[0])
    return te.compute(shape, lambda i, o: te.sum((a[i, k] - b[o, k]) * (a[i, k] - b[o, k]), axis=k), "squares")


def extreme(reduced: Any, *, scaled: bool = False, skipped: int = 0) -> Any:
    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        rows = squares(a, b)
        j = te.reduce_axis((0, b.shape[0] - skipped), "j")
        return te.compute(
            (a.shape[0],), lambda i: reduced(rows[i, j + skipped] * (2.0 if scaled else 1.0), axis=j), "extreme"
        )

    return compute


@pytest.mark.long
@costly(12)
@given(st.integers(60, 90), st.integers(200, 260), st.integers(2, 4), st.booleans())
def test_the_nearest_and_the_farthest_of_any_number(first: int, second: int, axes: int, nearest: bool) -> None:
    arrays = points(first * 16, second, axes)

    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        rows = squares(a, b)
        j = te.reduce_axis((0, second), "j")
        reduced = te.min if nearest else te.max
        return te.compute((a.shape[0],), lambda i: reduced(rows[i, j], axis=j), "extreme")

    _, output = computed(compute, arrays)
    wide = exact(arrays)
    np.testing.assert_allclose(output, wide.min(1) if nearest else wide.max(1), rtol=1e-4, atol=1e-6)


@pytest.mark.long
def test_two_extremes_of_one_row(tmp_path: Path) -> None:
    arrays = points(1000, 250)

    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        rows = squares(a, b)
        i, j = te.reduce_axis((0, 250), "i"), te.reduce_axis((0, 250), "j")
        least = te.compute((1000,), lambda r: te.min(rows[r, i], axis=i), "least")
        most = te.compute((1000,), lambda r: te.max(rows[r, j], axis=j), "most")
        return te.compute((1000,), lambda r: most[r] - least[r], "spread")

    program, output = computed(compute, arrays)
    assert executed(program, tmp_path) < 1_300_000  # 3,948,815 of rows that end in no vector
    wide = exact(arrays)
    np.testing.assert_allclose(output, wide.max(1) - wide.min(1), rtol=1e-4)


def summed(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    return extreme(te.sum)(a, b)


def by_place(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    k, j = te.reduce_axis((0, 3), "k"), te.reduce_axis((0, 250), "j")
    rows = te.compute((1000, 250), lambda i, o: te.sum(a[i, k] * b[o, k] * o.astype("float32"), axis=k), "rows")
    return te.compute((1000,), lambda i: te.max(rows[i, j], axis=j), "most")


def neighbours(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    k, j = te.reduce_axis((0, 3), "k"), te.reduce_axis((0, 249), "j")
    rows = te.compute((1000, 249), lambda i, o: te.sum(a[i, k] * b[o + 1, k], axis=k), "rows")
    return te.compute((1000,), lambda i: te.max(rows[i, j], axis=j), "most")


def read_again(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    rows = squares(a, b)
    j = te.reduce_axis((0, 250), "j")
    least = te.compute((1000,), lambda i: te.min(rows[i, j], axis=j), "least")
    return te.compute((1000, 250), lambda i, o: rows[i, o] - least[i], "gaps")


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        (summed, lambda x: exact(x).sum(1)),
        (by_place, lambda x: (x["a"] @ x["b"].T * np.arange(250)).max(1)),
        (neighbours, lambda x: (x["a"] @ x["b"][1:].T).max(1)),
        (read_again, lambda x: exact(x) - exact(x).min(1, keepdims=True)),
        (extreme(te.min, skipped=1), lambda x: exact(x)[:, 1:].min(1)),
        (extreme(te.max, scaled=True), lambda x: 2 * exact(x).max(1)),
    ],
    ids=["a sum", "by place", "neighbours", "read again", "not the whole row", "of another value"],
)
def test_other_rows_are_right(expression: Any, wanted: Callable[[dict[str, Array]], Array]) -> None:
    """A repeated element would count twice, or stand for another one."""
    arrays = points(1000, 250)
    _, output = computed(expression, arrays)
    np.testing.assert_allclose(output, wanted(arrays), rtol=1e-4, atol=1e-4)
