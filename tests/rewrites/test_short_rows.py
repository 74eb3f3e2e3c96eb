"""Rows shorter than a vector: what expressions of them cost, and that the kernels mean what the expression means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, topi

from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.program import Program
from tests.examples import costly
from tests.executed_instructions import executed
from tests.te_programs import program_from_te

Expression = Callable[..., te.Tensor]


def softmax(x: te.Tensor) -> te.Tensor:
    return topi.nn.softmax(x)


def layer_norm(x: te.Tensor, g: te.Tensor, b: te.Tensor) -> te.Tensor:
    """With a scale and an offset of each place of a row, which have no axis of rows."""
    *rows, n = map(int, x.shape)
    i, j = te.reduce_axis((0, n), "i"), te.reduce_axis((0, n), "j")
    total = te.compute(rows, lambda *r: te.sum(x(*r, i), axis=i), "total")
    gap = te.compute(x.shape, lambda *p: x(*p) - total(*p[:-1]) / n, "gap")
    squares = te.compute(rows, lambda *r: te.sum(gap(*r, j) * gap(*r, j), axis=j), "squares")
    return te.compute(x.shape, lambda *p: gap(*p) / te.sqrt(squares(*p[:-1]) / n + 1e-5) * g[p[-1]] + b[p[-1]], "norm")


def row_sums(x: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, x.shape[-1]), "k")
    return te.compute(x.shape[:-1], lambda *r: te.sum(x(*r, k), axis=k), "sums")


def relu(x: te.Tensor) -> te.Tensor:
    return topi.nn.relu(x)


def made(expression: Expression, *shapes: tuple[int, ...]) -> tuple[Program, list[np.ndarray], np.ndarray]:
    """The program, random inputs, and what its kernels compute."""
    arrays = [np.random.default_rng(n).standard_normal(shape).astype(np.float32) for n, shape in enumerate(shapes)]
    named = {f"x{number}": array for number, array in enumerate(arrays)}
    program = program_from_te(expression, {name: (x.shape, "float32") for name, x in named.items()}, {}, "made")
    (output,) = evaluate_program(program, [named])[0].values()
    return program, arrays, output


@pytest.mark.long
@pytest.mark.parametrize(
    ("expression", "shape", "most"),
    [
        (softmax, (1000, 7), 71_000),
        (softmax, (2, 127, 31, 3), 390_000),
        (softmax, (1000, 8), 49_000),  # whole vectors, or half of one
        (softmax, (1000, 31), 221_000),
        (softmax, (1000, 24), 127_000),  # three vectors
        (softmax, (8000, 31), 1_700_000),  # L2 holds no copies
        (softmax, (31, 7), 3_300),  # few rows
        (row_sums, (1000, 7), 5_800),  # no function and no division
        (relu, (1000, 7), 4_900),  # no row matters
    ],
)
def test_rows_that_fill_no_vector_cost_no_more_than_transposed_ones(
    expression: Expression, shape: tuple[int, ...], most: int, tmp_path: Path
) -> None:
    """The first two took 114,039 and 986,054 instructions in their own order."""
    program, _, _ = made(expression, shape)
    assert executed(program, tmp_path) < most
    assert len(program.divisions) == (len(program.kernels) > 1)  # a search compares them with the whole


def test_an_intermediate_that_is_an_output_is_written() -> None:
    """Only the last tensor is transposed back, so rows stay as they are where others are read as well."""

    def softmax_and_powers(x: te.Tensor) -> list[te.Tensor]:
        k = te.reduce_axis((0, 7), "k")
        powers = te.compute(x.shape, lambda i, j: te.exp(x[i, j]), "powers")
        total = te.compute((1001,), lambda i: te.sum(powers[i, k], axis=k), "total")
        return [powers, te.compute(x.shape, lambda i, j: powers[i, j] / total[i], "shares")]

    x = np.random.default_rng(0).standard_normal((1001, 7)).astype(np.float32)
    program = program_from_te(softmax_and_powers, {"x": (x.shape, "float32")}, {}, "made")
    powers, shares = evaluate_program(program, [{"x": x}])[0].values()
    np.testing.assert_allclose(powers, np.exp(x), rtol=1e-5)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-5)


@pytest.mark.long
def test_a_scale_of_each_place_is_read_as_it_is(tmp_path: Path) -> None:
    program, (x, g, b), answer = made(layer_norm, (1000, 7), (7,), (7,))
    wide = x.astype(np.float64)
    exact = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * g + b
    assert executed(program, tmp_path) < 37_000  # 66,882 in its own order
    np.testing.assert_allclose(answer, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.long
@costly(8)
@given(
    rows=st.lists(st.sampled_from([1, 2, 7, 64, 127]), min_size=1, max_size=2),
    length=st.sampled_from([2, 3, 5, 7, 12, 15]),
)
def test_a_softmax_of_any_rows_is_right(rows: list[int], length: int) -> None:
    _, (x,), answer = made(softmax, (*rows, 64, length))
    powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    np.testing.assert_allclose(answer, powers / powers.sum(-1, keepdims=True), rtol=1e-5, atol=1e-6)
