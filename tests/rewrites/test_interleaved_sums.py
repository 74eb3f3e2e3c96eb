"""Sums of interleaved results have lanes along the axis before the last, and mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.rewrites import kernel_forms as forms
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.target.core import WIDEST, Core
from edgetune.target.costs import MARGINS
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.examples import costly
from tests.executed_instructions import executed
from tests.rewrites.test_copies_for_lanes import Expression, made
from tests.rewrites.test_transposed_convolution import names
from tests.sketch_samples import random_arguments, run_plain
from tests.te_programs import program_from_te

FEW = 4
"""Terms of a sum that is written out."""


def complex_filter(x: te.Tensor, h: te.Tensor) -> te.Tensor:
    """A filter of complex numbers, whose parts are neighbours: another case for each part."""
    t = te.reduce_axis((0, h.shape[0]), "t")

    def value(i: te.Var, part: te.Var) -> te.Tensor:
        real = x[i + t, 0] * h[t, 0] - x[i + t, 1] * h[t, 1]
        imaginary = x[i + t, 0] * h[t, 1] + x[i + t, 1] * h[t, 0]
        return te.sum(tirx.Select(part == 0, real, imaginary), axis=t)

    return te.compute((int(x.shape[0]) - int(h.shape[0]) + 1, 2), value, "filtered")


def raised(factor: int, *, scaled: bool = False) -> Expression:
    """Several results for each place of a signal, each with taps of its own."""

    def compute(x: te.Tensor, h: te.Tensor) -> te.Tensor:
        t = te.reduce_axis((0, h.shape[0]), "t")
        shape = (x.shape[0], (int(x.shape[1]) - int(h.shape[0]) + 1) * factor)
        total = te.compute(shape, lambda c, i: te.sum(x[c, i // factor + t] * h[t, i % factor], axis=t), "raised")
        return te.compute(shape, lambda c, i: total[c, i] * 2.0 + x[c, i // factor], "scaled") if scaled else total

    return compute


def blurred(step: int, *, least: bool = False, padded: bool = False) -> Expression:
    """Windows of interleaved colours, with weights by colour; `least`: the least product of each window."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        rows, columns, colours = (int(extent) for extent in x.shape)
        u, v = te.reduce_axis((0, w.shape[0]), "u"), te.reduce_axis((0, w.shape[1]), "v")
        shape = (rows - int(w.shape[0]) + 1, (columns - int(w.shape[1])) // step + 1, colours)
        image = te.compute(x.shape, lambda i, j, c: te.abs(x[i, j, c]), "sizes") if padded else x

        def value(i: te.Var, j: te.Var, c: te.Var) -> te.Tensor:
            combined = te.min if least else te.sum
            return combined(image[i + u, j * step + v, c] * w[u, v, c], axis=[u, v])

        return te.compute(shape, value, "blurred")

    return compute


def complex_products(a: te.Tensor, x: te.Tensor) -> te.Tensor:
    """Products of complex vectors, whose parts are neighbours."""
    k = te.reduce_axis((0, a.shape[1]), "k")

    def value(i: te.Var, part: te.Var) -> te.Tensor:
        real = a[i, k, 0] * x[k, 0] - a[i, k, 1] * x[k, 1]
        return te.sum(tirx.Select(part == 0, real, a[i, k, 0] * x[k, 1] + a[i, k, 1] * x[k, 0]), axis=k)

    return te.compute((a.shape[0], 2), value, "products")


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sum of interleaved results gets another order, also where that takes longer."""
    monkeypatch.setattr(Core, "least_terms", 0)
    monkeypatch.setattr(forms, "WIDEST", replace(WIDEST, margins=replace(MARGINS, gain_of_rewrite=1e9)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("expression", "shapes", "most"),
    [
        (complex_filter, ((1031, 2), (32, 2)), 220_000),
        (raised(3), ((3, 2008), (8, 3)), 135_000),
        (raised(3, scaled=True), ((3, 2008), (8, 3)), 141_000),
        (blurred(1), ((44, 97, 3), (5, 5, 3)), 224_000),
        (blurred(1, padded=True), ((44, 97, 3), (5, 5, 3)), 260_000),
        (complex_products, ((127, 256, 2), (256, 2)), 188_000),
        (complex_products, ((7, 2560, 2), (2560, 2)), 120_000),
        (complex_filter, ((61, 2), (32, 2)), 14_000),  # little work
        (blurred(1), ((44, 97, 8), (5, 5, 8)), 224_000),  # rows that fill a vector
        (blurred(1), ((440, 19, 3), (5, 5, 3)), 1_280_000),  # no neighbours that fill one
        (raised(3), ((9, 2000), (1, 3)), 62_000),  # to interleave results takes longer
    ],
)
def test_sums_for_short_rows_cost_no_more_than_in_the_better_order(
    expression: Expression, shapes: Sequence[tuple[int, ...]], most: int, tmp_path: Path
) -> None:
    """The first seven took four to nine times as many instructions in their own order."""
    program, _, _ = made(expression, *shapes)
    assert executed(program, tmp_path) < most
    assert len(program.divisions) == (len(program.kernels) > 1)  # a search compares them with the whole


@pytest.mark.long
@pytest.mark.usefixtures("always")
@costly(8)
@given(length=st.integers(16, 70), taps=st.integers(1, 9))
def test_a_complex_filter_is_right(*, length: int, taps: int) -> None:
    program, (x, h), answer = made(complex_filter, (length + taps - 1, 2), (taps, 2))
    seen = sliding_window_view(x.astype(np.float64), taps, axis=0)
    wanted = (seen[:, 0] + 1j * seen[:, 1]) @ (h[:, 0] + 1j * h[:, 1])
    np.testing.assert_allclose(answer, np.stack([wanted.real, wanted.imag], 1), rtol=1e-4, atol=1e-5)
    assert "filtered_interleaved" in names(program) or taps <= FEW


@pytest.mark.long
@pytest.mark.usefixtures("always")
@costly(8)
@given(rows=st.integers(1, 20), terms=st.integers(32, 90))
def test_products_of_complex_vectors_are_right(*, rows: int, terms: int) -> None:
    program, (a, x), answer = made(complex_products, (rows, terms, 2), (terms, 2))
    wanted = (a[..., 0].astype(np.float64) + 1j * a[..., 1]) @ (x[:, 0] + 1j * x[:, 1])
    np.testing.assert_allclose(answer, np.stack([wanted.real, wanted.imag], 1), rtol=1e-4, atol=1e-4)
    assert "x0_last" in names(program)


@pytest.mark.long
@pytest.mark.usefixtures("always")
@costly(8)
@given(
    rows=st.integers(1, 3),
    length=st.integers(16, 50),
    taps=st.integers(1, 6),
    factor=st.integers(2, 7),
    scaled=st.booleans(),
)
def test_results_between_those_of_a_filter_are_right(
    *, rows: int, length: int, taps: int, factor: int, scaled: bool
) -> None:
    program, (x, h), answer = made(raised(factor, scaled=scaled), (rows, length + taps - 1), (taps, factor))
    wanted = (sliding_window_view(x.astype(np.float64), taps, axis=1) @ h).reshape(rows, -1)
    if scaled:
        wanted = wanted * 2 + np.repeat(x[:, :length], factor, axis=1)
    np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-5)
    assert "raised" in names(program) or taps <= FEW


@pytest.mark.long
@pytest.mark.usefixtures("always")
@costly(8)
@given(
    columns=st.integers(16, 40),
    colours=st.integers(2, 7),
    window=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    step=st.integers(1, 3),
    least=st.booleans(),
    padded=st.booleans(),
)
def test_windows_of_colours_are_right(
    *, columns: int, colours: int, window: tuple[int, int], step: int, least: bool, padded: bool
) -> None:
    shape = (window[0] + 3, (columns - 1) * step + window[1], colours)
    program, (x, w), answer = made(blurred(step, least=least, padded=padded), shape, (*window, colours))
    image = np.abs(x) if padded else x
    seen = sliding_window_view(image.astype(np.float64), window, axis=(0, 1))[:, ::step]
    terms = seen * np.moveaxis(w, -1, 0)
    wanted = terms.min((-2, -1)) if least else terms.sum((-2, -1))
    np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-5)
    assert any("interleaved" in name for name in names(program)) or window[0] * window[1] <= FEW


@pytest.mark.long
@pytest.mark.parametrize("bits", [256, 512])
def test_each_place_of_a_row_has_its_own_case_in_registers(bits: int, tmp_path: Path) -> None:
    program = program_from_te(complex_filter, {"x": ((1031, 2), "float32"), "h": ((32, 2), "float32")}, {}, "made")
    target = wide_target(bits)
    for kernel in program.kernels:
        function = kernel.function
        module = apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module
        source = emit_kernel(module, target, "k")
        if kernel.name.endswith("filtered"):
            assert f"f32x{bits // 32} acc_1" in source.definition
            assert not any(word in source.definition for word in (" == ", " ? ", "mask"))
        arrays = random_arguments(function)
        compile_strictly(source, target, tmp_path, "gcc")
        result = run_kernel(source, target, arrays, tmp_path, cc="gcc", extra=SANITIZERS)[-1]
        np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-4, atol=1e-4)
