"""Sums whose terms a condition leaves out have fewer terms, or padded factors, and mean the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import sym, te, tirx

from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.program import Program
from tests.executed_instructions import executed
from tests.te_programs import program_from_te

Condition = Callable[[Any, Any], Any]


def made(expression: Any, arrays: list[np.ndarray]) -> tuple[Program, np.ndarray]:
    """The program of an expression, and what its kernels compute."""
    named = {f"x{number}": array for number, array in enumerate(arrays)}
    inputs = {name: (array.shape, array.dtype.name) for name, array in named.items()}
    program = program_from_te(expression, inputs, {}, "made")
    (output,) = evaluate_program(program, [named])[0].values()
    return program, output


def product_under(condition: Condition) -> Any:
    """A product of matrices of which only the elements of the first count where a condition on their places holds."""

    def expression(a: te.Tensor, x: te.Tensor) -> te.Tensor:
        k, zero = te.reduce_axis((0, a.shape[1]), "k"), tirx.const(0, a.dtype)
        shape = (a.shape[0], x.shape[1])
        return te.compute(
            shape, lambda i, j: te.sum(tirx.if_then_else(condition(i, k), a[i, k] * x[k, j], zero), axis=k), "product"
        )

    return expression


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.long
@pytest.mark.parametrize(
    ("condition", "terms"),
    [
        (lambda i, k: tirx.all(k - i <= 8, i - k <= 8), 17),
        (lambda i, k: tirx.floordiv(k, 32) == tirx.floordiv(i, 32), 32),
        (lambda i, k: tirx.all(k * 4 - i >= 0, k * 4 - i < 16), 4),
        (lambda i, k: tirx.all(k - i <= 80, i - k <= 80), 300),  # more than half of the places
        (lambda i, k: k <= i, 300),  # no fixed number of places
    ],
)
def test_an_axis_has_no_more_places_than_its_conditions(condition: Condition, terms: int) -> None:
    """A band of 17 diagonals of 300, and ten blocks of 32."""
    a, x = numbers(0, 300, 300), numbers(1, 300, 40)
    program, answer = made(product_under(condition), [a, x])
    assert sum(kernel.macs or 0 for kernel in program.kernels) == 300 * 40 * terms
    wanted = np.array([[_holds(condition, i, k) for k in range(300)] for i in range(300)])
    np.testing.assert_allclose(answer, (a * wanted).astype(np.float64) @ x, rtol=1e-4, atol=1e-4)


def _holds(condition: Condition, i: int, k: int) -> bool:
    return bool(sym.Analyzer().can_prove(condition(tirx.IntImm("int32", i), tirx.IntImm("int32", k))))


def test_a_place_that_a_condition_gives_is_no_sum() -> None:
    """A sum over a row of which one element counts reads that element."""

    def expression(x: te.Tensor) -> te.Tensor:
        k, zero = te.reduce_axis((0, 100), "k"), tirx.const(0.0, "float32")
        return te.compute((40,), lambda i: te.sum(tirx.if_then_else(tirx.EQ(k, i * 3 + 5), x[k], zero), axis=k), "few")

    x = numbers(0, 100)
    program, answer = made(expression, [x])
    assert not any(kernel.macs for kernel in program.kernels)
    places = np.arange(40) * 3 + 5
    np.testing.assert_array_equal(answer, np.where(places < 100, x[np.minimum(places, 99)], 0))


def correlation(lags: int) -> Any:
    """A signal's correlation with itself some samples later, which ends before it."""

    def expression(x: te.Tensor) -> te.Tensor:
        length = int(x.shape[0])
        i, zero = te.reduce_axis((0, length), "i"), tirx.const(0.0, "float32")
        return te.compute(
            (lags,), lambda k: te.sum(tirx.if_then_else(i + k < length, x[i] * x[i + k], zero), axis=i), "correlation"
        )

    return expression


def convolution(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    """All products of two signals, whose places add up."""
    k, zero = te.reduce_axis((0, w.shape[0]), "k"), tirx.const(0.0, "float32")
    length = int(x.shape[0])
    return te.compute(
        (length + int(w.shape[0]) - 1,),
        lambda t: te.sum(
            tirx.if_then_else(tirx.all(t - k >= 0, t - k < length), x[t - k] * w[k], zero),
            axis=k,
        ),
        "convolution",
    )


@pytest.mark.long
def test_what_is_read_outside_costs_no_more_than_padding(tmp_path: Path) -> None:
    """A correlation of 10,000 samples and 200 lags, and a convolution."""
    x, w = numbers(0, 3000), numbers(1, 60)
    program, answer = made(correlation(100), [x])
    assert executed(program, tmp_path) < 500_000  # 1,997,318 with conditions
    wanted = [x[: 3000 - k].astype(np.float64) @ x[k:] for k in range(100)]
    np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-3)
    program, answer = made(convolution, [x, w])
    assert executed(program, tmp_path) < 113_000  # 147,695
    np.testing.assert_allclose(answer, np.convolve(x.astype(np.float64), w), rtol=1e-4, atol=1e-4)


@pytest.mark.long
@given(st.data())
def test_any_conditions_mean_the_same(data: st.DataObject) -> None:
    """Of integers, so that sums in another order are equal."""
    rows, columns, terms = (data.draw(st.integers(1, 24)) for _ in range(3))
    step, along = data.draw(st.sampled_from([1, 2, 3, -1])), data.draw(st.sampled_from([1, 2, -1]))
    first, width = data.draw(st.integers(-9, 9)), data.draw(st.integers(0, 9))
    block = data.draw(st.sampled_from([0, 2, 5]))
    inner = data.draw(st.booleans())  # the place of a result along the lanes
    size = data.draw(st.integers(1, 30))

    def place(i: Any, j: Any) -> Any:
        return j if inner else i

    def holds(i: Any, j: Any, k: Any) -> list[Any]:
        at = k * step - place(i, j) * along - first
        found = [at >= 0, at <= width, k + j - 3 >= 0, k + j - 3 < size]
        return [*found, k // block == place(i, j)] if block and isinstance(k, int) else found

    def expression(a: te.Tensor, x: te.Tensor) -> te.Tensor:
        k, zero = te.reduce_axis((0, terms), "k"), tirx.const(0, "int32")

        def value(i: Any, j: Any) -> Any:
            of_block = [tirx.floordiv(k.var, block) == place(i, j)] if block else []
            condition = tirx.all(*holds(i, j, k.var), *of_block)
            return te.sum(tirx.if_then_else(condition, a[i, k] * x[k + j - 3], zero), axis=k)

        return te.compute((rows, columns), value, "sums")

    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    a, x = (random.integers(-5, 6, shape).astype(np.int32) for shape in ((rows, terms), (size,)))
    _, answer = made(expression, [a, x])
    wanted = [
        [sum(a[i, k] * x[k + j - 3] for k in range(terms) if all(holds(i, j, k))) for j in range(columns)]
        for i in range(rows)
    ]
    np.testing.assert_array_equal(answer, wanted)


def test_a_factor_that_may_overflow_keeps_its_condition() -> None:
    """Where the condition leaves a term out, its function is infinite, and 0 times that is no number."""
    x = numbers(0, 200)

    def expression(x: te.Tensor) -> te.Tensor:
        k, zero = te.reduce_axis((0, 400), "k"), tirx.const(0, "float32")

        def value(t: Any) -> Any:
            decay = te.exp((k - t).astype("float32"))
            return te.sum(tirx.if_then_else(k < t, x[t - k - 1] * decay, zero), axis=k)

        return te.compute((200,), value, "decayed")

    _, answer = made(expression, [x])
    wide = x.astype(np.float64)
    wanted = [sum(wide[t - k - 1] * np.exp(k - t) for k in range(t)) for t in range(200)]
    np.testing.assert_allclose(answer, wanted, rtol=1e-5, atol=1e-5)
