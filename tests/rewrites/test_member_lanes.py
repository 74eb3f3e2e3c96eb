"""Small members of a batch: what expressions cost, with lanes across members or not, and that they mean the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.program import Program
from edgetune.graph.written_loops import is_written
from tests.examples import costly
from tests.executed_instructions import executed
from tests.te_programs import program_from_te

Expression = Callable[..., Any]
ZERO = tirx.const(0.0, "float32")


def mean_of_path(x: te.Tensor) -> te.Tensor:
    """The mean of what a function makes of the running sums of each row."""
    b, n = map(int, x.shape)
    s, t = te.reduce_axis((0, n), "s"), te.reduce_axis((0, n), "t")
    walk = te.compute((b, n), lambda p, i: te.sum(tirx.if_then_else(s <= i, x[p, s], ZERO), axis=s), "walk")
    price = te.compute((b, n), lambda p, i: te.exp(walk[p, i] * 0.125), "price")
    mean = te.compute((b,), lambda p: te.sum(price[p, t], axis=t), "mean")
    return te.compute((b,), lambda p: mean[p] / float(n) - 1.0, "payment")


def exact_mean(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(np.cumsum(x.astype(np.float64), 1) / 8).mean(1) - 1)


def corrected(p: te.Tensor, h: te.Tensor) -> te.Tensor:
    """A matrix of each member, less the part that a vector shared by all explains."""
    b, n, _ = map(int, p.shape)
    j, k = te.reduce_axis((0, n), "j"), te.reduce_axis((0, n), "k")
    seen = te.compute((b, n), lambda m, i: te.sum(p[m, i, j] * h[j], axis=j), "seen")
    spread = te.compute((b,), lambda m: te.sum(h[k] * seen[m, k], axis=k), "spread")

    def value(m: Any, i: Any, j: Any) -> Any:
        return p[m, i, j] - seen[m, i] * seen[m, j] / (te.max(spread[m], ZERO) + 1.0)

    return te.compute((b, n, n), value, "corrected")


def exact_corrected(p: np.ndarray, h: np.ndarray) -> np.ndarray:
    p, h = p.astype(np.float64), h.astype(np.float64)
    seen = p @ h
    return np.asarray(p - seen[:, :, None] * seen[:, None] / (np.maximum(seen @ h, 0) + 1)[:, None, None])


def running_sums(x: te.Tensor) -> te.Tensor:
    s = te.reduce_axis((0, x.shape[1]), "s")
    return te.compute(x.shape, lambda p, i: te.sum(tirx.if_then_else(s <= i, x[p, s], ZERO), axis=s), "walk")


def layer(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    """A product with a matrix that all rows share, and a sum of its results."""
    b, n = map(int, x.shape)
    j, k = te.reduce_axis((0, n), "j"), te.reduce_axis((0, n), "k")
    y = te.compute((b, n), lambda m, i: te.sum(x[m, j] * w[i, j], axis=j), "y")
    return te.compute((b,), lambda m: te.sum(y[m, k] * y[m, k], axis=k), "squares")


def moved_there(f: te.Tensor, p: te.Tensor) -> te.Tensor:
    """The product F P F' of each member."""
    j, k = te.reduce_axis((0, f.shape[1]), "j"), te.reduce_axis((0, f.shape[1]), "k")
    moved = te.compute(f.shape, lambda m, i, n: te.sum(f[m, i, j] * p[m, j, n], axis=j), "moved")
    return te.compute(f.shape, lambda m, i, n: te.sum(moved[m, i, k] * f[m, n, k], axis=k), "spread")


def looked_up(x: te.Tensor, table: te.Tensor) -> te.Tensor:
    b, n = map(int, x.shape)
    j, k = te.reduce_axis((0, n), "j"), te.reduce_axis((0, n), "k")

    def value(m: Any, i: Any) -> Any:
        place = te.max(te.min(x[m, j] * 4.0, 6.0), 0.0).astype("int32")
        return te.sum(table[place] * x[m, i], axis=j)

    y = te.compute((b, n), value, "y")
    return te.compute((b,), lambda m: te.sum(y[m, k], axis=k), "all")


def outputs(expression: Expression, *shapes: tuple[int, ...]) -> tuple[Program, list[np.ndarray], list[np.ndarray]]:
    """The program, random inputs, and what its kernels compute."""
    arrays = [np.random.default_rng(n).standard_normal(shape).astype(np.float32) for n, shape in enumerate(shapes)]
    named = {f"x{number}": array for number, array in enumerate(arrays)}
    program = program_from_te(expression, {name: (x.shape, "float32") for name, x in named.items()}, {}, "made")
    return program, arrays, list(evaluate_program(program, [named])[0].values())


@pytest.mark.long
@pytest.mark.parametrize(
    ("expression", "shapes", "most"),
    [
        (mean_of_path, [(203, 31)], 149_000),
        (mean_of_path, [(203, 32)], 69_000),  # whole vectors
        (mean_of_path, [(63, 31)], 53_000),  # few members
        (mean_of_path, [(70, 600)], 2_400_000),  # long members
        (corrected, [(301, 6, 6), (6,)], 41_000),
        (corrected, [(301, 16, 16), (16,)], 117_000),  # whole vectors
        (corrected, [(8003, 6, 6), (6,)], 1_310_000),  # beyond a cache
        (running_sums, [(203, 31)], 76_000),  # a single sum has a tile
        (moved_there, [(203, 3, 3), (203, 3, 3)], 27_500),  # nine short sums
        (layer, [(203, 7), (7, 7)], 17_000),  # the members share a matrix
        (looked_up, [(203, 7), (7,)], 17_500),
    ],
)
def test_small_members_cost_no_more_than_with_lanes_across_them(
    expression: Expression, shapes: list[tuple[int, ...]], most: int, tmp_path: Path
) -> None:
    """The first took 154,169 instructions with lanes along its rows, the first of matrices 44,865."""
    program, _, _ = outputs(expression, *shapes)
    assert executed(program, tmp_path) < most
    divided = len(program.kernels) > 1 or is_written(program.kernels[0].function)
    assert len(program.divisions) == divided  # a search compares them with the whole


def test_a_tensor_between_that_is_an_output_keeps_its_order() -> None:
    def sums_and_mean(x: te.Tensor) -> list[te.Tensor]:
        walk, t = running_sums(x), te.reduce_axis((0, x.shape[1]), "t")
        return [walk, te.compute(x.shape[:1], lambda p: te.sum(walk[p, t], axis=t), "all")]

    _, (x,), (walk, total) = outputs(sums_and_mean, (203, 7))
    exact = np.cumsum(x.astype(np.float64), 1)
    np.testing.assert_allclose(walk, exact, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(total, exact.sum(1), rtol=1e-4, atol=1e-4)


@pytest.mark.long
@costly(8)
@given(members=st.integers(150, 300), length=st.sampled_from([7, 13, 15, 31]))
def test_members_of_any_number_are_right(members: int, length: int) -> None:
    _, (x,), (answer,) = outputs(mean_of_path, (members, length))
    np.testing.assert_allclose(answer, exact_mean(x), rtol=1e-4, atol=1e-5)
    _, (p, h), (answer,) = outputs(corrected, (members, min(length, 7), min(length, 7)), (min(length, 7),))
    np.testing.assert_allclose(answer, exact_corrected(p, h), rtol=1e-4, atol=1e-4)
