"""Copied operands: what sums cost that may read copies, and that the kernels mean what the expression means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.program import Program
from tests.examples import costly
from tests.executed_instructions import executed
from tests.te_programs import program_from_te

Expression = Callable[..., te.Tensor]
ZERO = tirx.const(0.0, "float32")


def decimated(stride: int, results: int) -> Expression:
    """A filter of which every `stride`-th result is kept."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, w.shape[0]), "k")
        return te.compute((x.shape[0], results), lambda c, t: te.sum(x[c, t * stride + k] * w[k], axis=k), "kept")

    return compute


def causal(delay: int = 0, outside: float = 0.0) -> Expression:
    """A filter over what came before, of a signal that is `outside` before it begins."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, w.shape[0]), "k")
        other = tirx.const(outside, "float32")

        def value(b: te.Var, t: te.Var) -> te.Tensor:
            return te.sum(tirx.if_then_else(k + delay <= t, x[b, t - k - delay], other) * w[k], axis=k)

        return te.compute(x.shape, value, "causal")

    return compute


def centred(stride: int = 1) -> Expression:
    """A filter whose window reaches over both ends of the signal, written without a tensor of padding."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        rows, length = map(int, x.shape)
        k, half = te.reduce_axis((0, w.shape[0]), "k"), int(w.shape[0]) // 2

        def value(b: te.Var, t: te.Var) -> te.Tensor:
            place = t * stride + k - half
            return te.sum(tirx.if_then_else(tirx.all(place >= 0, place < length), x[b, place], ZERO) * w[k], axis=k)

        return te.compute((rows, -(-length // stride)), value, "centred")

    return compute


def masked(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    """The condition leaves out more than what lies outside of x."""
    k = te.reduce_axis((0, w.shape[0]), "k")
    return te.compute(
        x.shape,
        lambda b, t: te.sum(tirx.if_then_else(k + 1 <= t, x[b, t - k], ZERO) * w[k], axis=k),
        "masked",
    )


def made(expression: Expression, *shapes: tuple[int, ...]) -> tuple[Program, list[np.ndarray], np.ndarray]:
    """The program, random inputs, and what its kernels compute."""
    arrays = [np.random.default_rng(n).standard_normal(shape).astype(np.float32) for n, shape in enumerate(shapes)]
    named = {f"x{number}": array for number, array in enumerate(arrays)}
    program = program_from_te(expression, {name: (x.shape, "float32") for name, x in named.items()}, {}, "made")
    (output,) = evaluate_program(program, [named])[0].values()
    return program, arrays, output


def windows(x: np.ndarray, w: np.ndarray, stride: int = 1, ahead: int = 0, behind: int = 0) -> np.ndarray:
    """The sums of the windows of x in double precision; `ahead` and `behind` are zeros around it."""
    wide = np.pad(x.astype(np.float64), ((0, 0), (ahead, behind)))
    return np.asarray(np.lib.stride_tricks.sliding_window_view(wide, len(w), axis=1)[:, ::stride] @ w)


@pytest.mark.long
@pytest.mark.parametrize(
    ("expression", "shapes", "most"),
    [
        (decimated(4, 1000), ((1, 4059), (63,)), 100_000),
        (decimated(2, 1000), ((1, 2061), (63,)), 43_000),
        (decimated(2, 4000), ((1, 8006), (8,)), 24_000),  # two loads and a shuffle take no longer
        (decimated(4, 1000), ((16, 4059), (63,)), 1_000_000),  # whole vectors of rows
        (decimated(20, 1000), ((3, 20000), (20,)), 104_000),  # each element is read once
        (decimated(12, 1000), ((1, 12051), (63,)), 108_000),  # the terms are lanes that take as long
        (decimated(4, 10), ((200, 99), (63,)), 410_000),  # results fill no vector
        (causal(), ((3, 200), (200,)), 63_000),
        (causal(3), ((3, 200), (100,)), 37_000),
        (causal(outside=2.5), ((3, 200), (200,)), 160_000),
        (causal(), ((64, 200), (200,)), 970_000),
        (centred(), ((3, 999), (63,)), 124_000),
        (centred(4), ((3, 4000), (63,)), 390_000),
        (masked, ((3, 200), (200,)), 104_000),
        (causal(), ((1, 20), (20,)), 1_200),  # little work
    ],
)
def test_lanes_with_gaps_or_ends_cost_no_more_than_those_of_a_copy(
    expression: Expression, shapes: tuple[tuple[int, ...], ...], most: int, tmp_path: Path
) -> None:
    """Most of them took two to ten times as many instructions without a copy; the others would not gain by one."""
    program, _, _ = made(expression, *shapes)
    assert executed(program, tmp_path) < most
    assert len(program.divisions) == (len(program.kernels) > 1)  # a search compares them with the whole


@pytest.mark.long
@costly(12)
@given(
    rows=st.sampled_from([1, 2, 16, 19]),
    results=st.sampled_from([100, 257]),
    taps=st.sampled_from([31, 64]),
    stride=st.integers(1, 9),
)
def test_a_filter_with_a_stride_is_right(rows: int, results: int, taps: int, stride: int) -> None:
    _, (x, w), answer = made(decimated(stride, results), (rows, (results - 1) * stride + taps), (taps,))
    np.testing.assert_allclose(answer, windows(x, w, stride), rtol=1e-4, atol=1e-4)


@pytest.mark.long
@costly(12)
@given(
    rows=st.sampled_from([1, 5, 16, 32]),
    length=st.sampled_from([127, 200]),
    taps=st.sampled_from([33, 127]),
    delay=st.sampled_from([0, 1, 5]),
    outside=st.sampled_from([0.0, 1.5]),
)
def test_a_filter_over_the_past_is_right(rows: int, length: int, taps: int, delay: int, outside: float) -> None:
    _, (x, w), answer = made(causal(delay, outside), (rows, length), (taps,))
    wide = np.pad(x, ((0, 0), (taps - 1 + delay, 0)), constant_values=outside)[:, : taps - 1 + length]
    np.testing.assert_allclose(answer, windows(wide, w[::-1]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("rows", [3, 32])
def test_a_filter_over_both_ends_is_right(rows: int, stride: int) -> None:
    _, (x, w), answer = made(centred(stride), (rows, 400), (63,))
    np.testing.assert_allclose(answer, windows(x, w, stride, 31, 31), rtol=1e-4, atol=1e-4)


def test_a_condition_that_is_no_border_stays() -> None:
    _, (x, w), answer = made(masked, (16, 200), (200,))
    without = np.concatenate([np.zeros((16, 199), np.float32), x], axis=1).astype(np.float64)
    seen = np.lib.stride_tricks.sliding_window_view(without, 200, axis=1)[:, :, ::-1].copy()
    for t in range(200):
        seen[:, t, t:] = 0
    np.testing.assert_allclose(answer, seen @ w, rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_stages_around_a_sum_stay(tmp_path: Path) -> None:
    """What comes before makes the tensor that is copied, and what follows reads the results in their own order."""

    def expression(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 63), "k")
        absolute = te.compute(x.shape, lambda c, i: te.abs(x[c, i]), "absolute")
        kept = te.compute((16, 500), lambda c, t: te.sum(absolute[c, t * 4 + k] * w[k], axis=k), "kept")
        return te.compute((16, 500), lambda c, t: kept[c, t] + x[c, t], "sums")

    program, (x, w), answer = made(expression, (16, 2059), (63,))
    assert executed(program, tmp_path) < 600_000  # 1,559,431 in one kernel
    np.testing.assert_allclose(answer, windows(np.abs(x), w, 4) + x[:, :500], rtol=1e-4, atol=1e-4)


def padded_image(filters: bool, stride: int) -> Expression:
    """Windows of 3x3 pixels of a padded image: `filters` over its three channels, or one for each channel."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        channels, rows, columns = map(int, x.shape)

        def pad(c: te.Var, i: te.Var, j: te.Var) -> te.Tensor:
            inside = tirx.all(i >= 1, i <= rows, j >= 1, j <= columns)
            return tirx.if_then_else(inside, x[c, i - 1, j - 1], ZERO)

        wide = te.compute((channels, rows + 2, columns + 2), pad, "wide")
        c, i, j = (te.reduce_axis((0, extent), name) for extent, name in ((channels, "c"), (3, "i"), (3, "j")))
        shape = (int(w.shape[0]), (rows - 1) // stride + 1, (columns - 1) // stride + 1)
        if filters:
            return te.compute(
                shape,
                lambda o, r, s: te.sum(wide[c, r * stride + i, s * stride + j] * w[o, c, i, j], axis=[c, i, j]),
                "filtered",
            )
        return te.compute(
            shape,
            lambda o, r, s: te.sum(wide[o, r * stride + i, s * stride + j] * w[o, 0, i, j], axis=[i, j]),
            "filtered",
        )

    return compute


@pytest.mark.long
@pytest.mark.parametrize(
    ("results", "filters", "stride", "most"),
    [
        (8, True, 1, 230_000),
        (8, True, 2, 210_000),  # 392,955 where each result pads
        (8, True, 3, 95_000),  # 183,428
        (2, True, 1, 37_000),
        (2, True, 2, 115_000),
        (2, True, 3, 58_000),
        (3, False, 1, 24_000),
        (3, False, 2, 35_000),
        (3, False, 3, 24_000),
    ],
)
def test_rows_that_several_results_read_are_padded_once(
    *, results: int, filters: bool, stride: int, most: int, tmp_path: Path
) -> None:
    shapes = ((3, 41, 50), (results, 3 if filters else 1, 3, 3))
    program, (x, w), answer = made(padded_image(filters, stride), *shapes)
    assert executed(program, tmp_path) < most
    wide = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    seen = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(1, 2))[:, ::stride, ::stride]
    form = "crsij,ocij->ors" if filters else "crsij,cxij->crs"
    np.testing.assert_allclose(answer, np.einsum(form, seen, w), rtol=1e-4, atol=1e-4)


def trace(form: str) -> Expression:
    """Sums of products of which one factor lies across the terms of the other, or a factor that is the other."""

    def compute(*tensors: te.Tensor) -> te.Tensor:
        a, b = tensors[0], tensors[-1]
        count, rows, columns = map(int, a.shape)
        i, k = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, columns), "k")

        def value(n: te.Var) -> te.Tensor:
            other = b[k, n, i] if form == "between" else b[n, k, i]
            return te.sum(a[n, i, k] * (other - a[n, i, k] if form == "differences" else other), axis=[i, k])

        return te.compute((count,), value, "trace")

    return compute


@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "shapes", "dtype", "most"),
    [
        ("product", ((20, 48, 64), (20, 64, 48)), "float32", 122_000),
        ("square", ((30, 40, 40),), "float32", 80_000),
        ("between", ((20, 48, 64), (64, 20, 48)), "float32", 122_000),
        ("differences", ((20, 48, 50), (20, 50, 48)), "float32", 113_000),
        ("product", ((20, 48, 64), (20, 64, 48)), "int32", 317_000),
        ("product", ((400, 5, 7), (400, 7, 5)), "float32", 44_000),  # few terms along each axis
    ],
)
def test_an_operand_across_the_terms_costs_no_more_than_a_turned_one(
    form: str, shapes: tuple[tuple[int, ...], ...], dtype: str, most: int, tmp_path: Path
) -> None:
    """Traces of 64 products of 50 x 60 matrices were plain loops, of two to three times as many instructions."""
    arrays = [np.random.default_rng(n).integers(-5, 6, shape).astype(dtype) for n, shape in enumerate(shapes)]
    named = {f"x{number}": array for number, array in enumerate(arrays)}
    program = program_from_te(trace(form), {name: (x.shape, dtype) for name, x in named.items()}, {}, "made")
    (answer,) = evaluate_program(program, [named])[0].values()
    assert executed(program, tmp_path) < most
    a, b = (arrays[0].astype(np.float64), arrays[-1].astype(np.float64))
    other = np.einsum("kni->nik" if form == "between" else "nki->nik", b)
    wanted = (a * (other - a if form == "differences" else other)).sum((1, 2))
    np.testing.assert_allclose(answer, wanted)


def circular(rows: int, length: int, sign: int, shift: int) -> Expression:
    """A circular convolution, forwards or backwards, that begins `shift` elements later."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, int(w.shape[0])), "k")
        return te.compute(
            (rows, length),
            lambda b, t: te.sum(x[b, tirx.floormod(t + k * sign + shift, length)] * w[k], axis=k),
            "circular",
        )

    return compute


@pytest.mark.long
def test_a_row_that_goes_on_at_its_start_has_vectors(tmp_path: Path) -> None:
    """It had a remainder for each lane: 883,122 instructions."""
    program, _, _ = made(circular(3, 256, 1, -7), (3, 256), (256,))
    assert executed(program, tmp_path) < 180_000


@costly(6)
@given(
    rows=st.sampled_from([1, 3, 20]),
    length=st.sampled_from([100, 256]),
    taps=st.sampled_from([100, 256, 300]),
    shift=st.integers(-300, 300),
    sign=st.sampled_from([1, -1]),
)
def test_a_row_that_goes_on_at_its_start_is_right(rows: int, length: int, taps: int, shift: int, sign: int) -> None:
    _, (x, w), answer = made(circular(rows, length, sign, shift), (rows, length), (taps,))
    places = (np.arange(length)[:, None] + np.arange(taps) * sign + shift) % length
    np.testing.assert_allclose(answer, x.astype(np.float64)[:, places] @ w, rtol=1e-4, atol=1e-4)
