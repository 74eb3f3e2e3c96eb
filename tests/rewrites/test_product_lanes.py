"""Lanes of a product: what it costs in the order that it gets, and that the kernels mean what the expression means."""

from __future__ import annotations

from math import inf, isfinite
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx, topi

from benchmarks.oracle.facts import target_of
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.program import Program, Rows
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.default_algorithms import form_for_odd_extents, predicted_cycles
from tests.executed_instructions import executed
from tests.te_programs import program_from_te

Array = np.ndarray
SIZES = {"b": 2, "i": 40, "j": 37, "k": 50, "n": 7}


def einsum(equation: str, *tensors: te.Tensor) -> te.Tensor:
    operands, result = equation.split("->")
    axes = operands.split(",")
    extents = {
        name: int(n) for x, names in zip(tensors, axes, strict=True) for name, n in zip(names, x.shape, strict=True)
    }
    summed = {name: te.reduce_axis((0, extent), name) for name, extent in extents.items() if name not in result}

    def value(*place: tirx.Var) -> te.Tensor:
        at = dict(zip(result, place, strict=True)) | summed
        left, right = (x(*(at[name] for name in names)) for x, names in zip(tensors, axes, strict=True))
        return te.sum(left * right, axis=list(summed.values()))

    return te.compute(tuple(extents[name] for name in result), value, "product")


def arrays_of(equation: str, **sizes: int) -> list[Array]:
    generator = np.random.default_rng(0)
    shapes = [tuple((SIZES | sizes)[name] for name in axes) for axes in equation.split("->", maxsplit=1)[0].split(",")]
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def made(equation: str, arrays: list[Array], tail: str = "", weights: int = 0) -> tuple[Program, Array]:
    """The program of an einsum, the last `weights` of whose tensors are constants, and what its kernels compute."""

    def compute(*tensors: te.Tensor) -> te.Tensor:
        y = einsum(equation, *tensors)
        return topi.nn.relu(y) if tail == "relu" else topi.nn.softmax(y) if tail == "softmax" else y

    named = {f"x{number}": array for number, array in enumerate(arrays)}
    fixed = dict(list(named.items())[len(named) - weights :])
    inputs = {name: array for name, array in named.items() if name not in fixed}
    program = program_from_te(compute, {name: (x.shape, "float32") for name, x in inputs.items()}, fixed, "made")
    (output,) = evaluate_program(program, [inputs])[0].values()
    return program, output


def predicted(program: Program) -> float:
    """Predicted cycles of the kernels with a reduction, for vectors of 512 bits; infinite without a prediction."""
    target = target_of(512)
    found = []
    for kernel in program.kernels:
        form = form_for_odd_extents(kernel.function, FORMS, target)
        found.append(predicted_cycles(kernel.function if form is None else form.function, target))
    return sum(filter(isfinite, found)) if any(map(isfinite, found)) else inf


@pytest.mark.parametrize(
    ("equation", "sizes", "most"),
    [
        ("ik,kj->ij", {}, 3_600),
        ("ik,jk->ij", {"i": 127}, 19_000),  # 36,140 without copies
        ("ki,jk->ij", {}, 4_100),  # 5,125
        ("bik,bjk->bij", {"i": 127}, 29_000),  # 40,530
        ("bnik,bjk->bnij", {"i": 31, "j": 100, "k": 64}, 168_000),  # 200,260
        ("bik,jk->bij", {"i": 31, "j": 100, "k": 64}, 26_000),  # 29,326
        ("bij,bj->bi", {"b": 31, "i": 100, "j": 127}, 49_000),
        ("ki,jk->ij", {"k": 500, "j": 7}, 13_000),  # 26,000
        ("ik,kn->in", {"i": 400, "k": 127}, 46_000),  # 57,150
        ("ik,nk->in", {"i": 400, "k": 127}, 41_000),
        ("nk,ik->ni", {"i": 400, "k": 127}, 41_000),
        ("ik,kn->in", {"i": 400, "k": 127, "n": 8}, 41_000),
        ("ik,jk->ij", {"i": 4, "j": 37, "k": 1024}, 8_600),
    ],
)
def test_products_cost_no_more_than_in_the_order_of_their_lanes(
    equation: str, sizes: dict[str, int], most: float
) -> None:
    arrays = arrays_of(equation, **sizes)
    program, output = made(equation, arrays)
    assert predicted(program) < most
    np.testing.assert_allclose(output, np.einsum(equation, *arrays), rtol=1e-4, atol=1e-3)


def test_rows_of_a_copy_begin_at_a_line() -> None:
    """Of vectors that cross lines, each load takes as long as two."""
    program, _ = made("bik,bjk->bij", arrays_of("bik,bjk->bij", i=127, j=100))
    (copy,) = [buffer for buffer in program.buffers if buffer.name == "x1_last"]
    assert copy.shape == (SIZES["b"], SIZES["k"], 112)
    rows = {
        kernel.name: [param.rows for param in kernel.params if param.name == "x1_last"] for kernel in program.kernels
    }
    assert [rows[kernel.name] for kernel in program.kernels][:2] == [[Rows(100, 112)]] * 2, "a search compares no gaps"


def test_rows_that_would_grow_by_a_third_have_no_gaps() -> None:
    program, _ = made("bik,bjk->bij", arrays_of("bik,bjk->bij", i=127, j=24))
    assert all(param.rows is None for kernel in program.kernels for param in kernel.params)


@pytest.mark.long
@given(
    st.sampled_from(["ik,kj->ij", "ik,jk->ij", "ki,jk->ij", "ki,kj->ji", "ibk,jbk->bij", "bik,kj->bji"]),
    st.tuples(*(st.sampled_from([1, 3, 7, 8, 13, 31, 33]) for _ in range(3))),
    st.integers(0, 1),
    st.sampled_from(["", "relu", "softmax"]),
)
def test_every_order_means_the_same(equation: str, sizes: tuple[int, int, int], weights: int, tail: str) -> None:
    i, j, k = sizes
    arrays = arrays_of(equation, i=i, j=j, k=8 * k, b=5)
    _, output = made(equation, arrays, tail, weights)
    expected = np.einsum(equation, *(array.astype(np.float64) for array in arrays))
    if tail == "relu":
        expected = np.maximum(expected, 0)
    elif tail == "softmax":
        powers = np.exp(expected - expected.max(-1, keepdims=True))
        expected = powers / powers.sum(-1, keepdims=True)
    np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-3)


def test_a_tensor_that_is_read_in_two_orders_stays_as_it_is() -> None:
    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 64), "k")
        return te.compute((64, 64), lambda i, j: te.sum(x[j, k] * x[k, j] * y[i, k], axis=k), "product")

    generator = np.random.default_rng(1)
    arrays = {name: generator.standard_normal((64, 64)).astype(np.float32) for name in "xy"}
    program = program_from_te(compute, dict.fromkeys("xy", ((64, 64), "float32")), {}, "made")
    (output,) = evaluate_program(program, [arrays])[0].values()
    expected = np.einsum("jk,kj,ik->ij", arrays["x"], arrays["x"], arrays["y"])
    np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.long
def test_a_maximum_ignores_the_padding(tmp_path: Path) -> None:
    """Padding is zero, and all results here are negative: a padded element would show."""

    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 127), "k")
        return te.compute((400, 7), lambda i, j: te.max(x[i, k] + y[k, j], axis=k), "product")

    generator = np.random.default_rng(2)
    x, y = (-generator.random(shape).astype(np.float32) - 1 for shape in ((400, 127), (127, 7)))
    program = program_from_te(compute, {"x": (x.shape, "float32"), "y": (y.shape, "float32")}, {}, "made")
    (output,) = evaluate_program(program, [{"x": x, "y": y}])[0].values()
    assert executed(program, tmp_path) < 335_000  # 449,380 without padding
    np.testing.assert_allclose(output, (x[:, :, None] + y[None]).max(1), rtol=1e-6)


def test_a_transposition_before_a_product_is_a_kernel_of_its_own() -> None:
    """Inlined, a register tile would gather each of its vectors; a stage that keeps rows together stays inlined."""
    arrays = arrays_of("ibk,jbk->bij", i=64, j=64, k=64)

    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        rows, columns = topi.transpose(x, (1, 0, 2)), topi.transpose(y, (1, 2, 0))
        return topi.nn.softmax(einsum("bik,bkj->bij", rows, columns))

    shapes = {name: (array.shape, "float32") for name, array in zip("xy", arrays, strict=True)}
    program = program_from_te(compute, shapes, {}, "made")
    (output,) = evaluate_program(program, [dict(zip("xy", arrays, strict=True))])[0].values()
    assert len(program.kernels) == 3
    powers = np.exp(np.einsum("ibk,jbk->bij", *(array.astype(np.float64) for array in arrays)))
    np.testing.assert_allclose(output, powers / powers.sum(-1, keepdims=True), rtol=1e-3, atol=1e-4)


def test_groups_of_channels_stay_as_they_are() -> None:
    """The input's channel is computed from the result's, so that no copy has lanes along it."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 16), "k")
        shape = (16, 30, 64)
        return te.compute(shape, lambda n, i, o: te.sum(x[n, i, o // 16 * 16 + k] * w[k, o], axis=k), "groups")

    generator = np.random.default_rng(3)
    weights = generator.standard_normal((16, 64)).astype(np.float32)
    program = program_from_te(compute, {"x": ((16, 30, 64), "float32")}, {"w": weights}, "made")
    assert len(program.kernels) == 1


@pytest.mark.long
def test_what_is_computed_once_is_not_computed_in_a_product(tmp_path: Path) -> None:
    """The product's register tile would take the magnitude of each element for each vector of columns again."""

    def compute(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 64), "k")
        return te.compute((40, 48), lambda i, j: te.sum(te.abs(a[i, k]) * b[k, j], axis=k), "product")

    program = program_from_te(compute, {"a": ((40, 64), "float32"), "b": ((64, 48), "float32")}, {}, "made")
    assert executed(program, tmp_path) < 37_000  # 44,533 in one kernel
