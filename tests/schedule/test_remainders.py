"""Rows that no vector divides have whole vectors and narrower ones, and mean what plain loops mean."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te

from edgetune.codegen import emit_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.examples import costly
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func, random_arguments, run_plain


def rows(count: int, length: int, *, own: bool) -> Any:
    """Square roots of the elements of a matrix, or of their gaps to the first of their row."""
    x = te.placeholder((count, length), name="x")

    def value(i: Any, j: Any) -> Any:
        gap = x[i, j] if own else x[i, j] - x[i, 0]
        return te.sqrt(gap * gap)

    return prim_func([x], te.compute((count, length), value, "roots"))


@costly(15)
@given(
    st.sampled_from([1, 3, 8]),
    st.integers(2, 70),
    st.booleans(),
    st.sampled_from([board(512, 32), board(256, 16), board(128, 32), board(0, 0)]),
    st.integers(1, 10_000),
)
def test_every_schedule_means_what_plain_loops_mean(count: int, length: int, own: bool, target: Any, seed: int) -> None:
    assert check(rows(count, length, own=own), target, seed) > 0


@pytest.mark.parametrize(
    ("length", "widths"), [(100, [16, 4]), (127, [16, 8, 4, 2]), (96, [16]), (12, [8, 4]), (14, [8, 4, 2])]
)
def test_the_rest_is_narrower_vectors(length: int, widths: list[int], tmp_path: Path) -> None:
    function, target = rows(3, length, own=False), wide_target(512)
    source = emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")
    found = {int(width) for width in re.findall(r"sqrt_f32x(\d+)", source.definition)}
    assert found == set(widths)
    assert ("__builtin_sqrtf" in source.definition) == (length % 2 == 1), "a last single element"
    arrays = random_arguments(function)
    for cc in ("gcc", "clang-19"):
        compile_strictly(source, target, tmp_path, cc)
        result = run_kernel(source, target, arrays, tmp_path, cc=cc)[-1]
        np.testing.assert_array_equal(result, run_plain(function, arrays))


def centred(count: int, length: int) -> Any:
    """Exponentials of a row's gaps to its sum, which other reductions read."""
    x = te.placeholder((count, length), name="x")
    i, j = te.reduce_axis((0, length), "i"), te.reduce_axis((0, length), "j")
    total = te.compute((count,), lambda r: te.sum(x[r, i], axis=i), "total")
    powers = te.compute((count, length), lambda r, c: te.exp(x[r, c] - total[r]), "powers")
    return prim_func([x], te.compute((count,), lambda r: te.sum(powers[r, j] * powers[r, j], axis=j), "out"))


@pytest.mark.parametrize(("length", "widths"), [(31, [8]), (29, [8]), (28, [8, 4]), (33, [8, 1]), (24, [8])])
def test_the_rest_of_a_function_is_a_vector_that_overlaps(length: int, widths: list[int], tmp_path: Path) -> None:
    """31 exponentials are 4 vectors of 8, not 3 and pieces of 4, 2 and 1."""
    function, target = centred(6, length), wide_target(256)
    source = emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")
    found = {int(width or 1) for width in re.findall(r"@exp_f32(?:x(\d+))?\(", source.definition)}
    assert found == set(widths)
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, "gcc")
    result = run_kernel(source, target, arrays, tmp_path, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=2e-5)


@pytest.mark.long
@costly(10)
@given(
    st.sampled_from([1, 3, 8]), st.integers(2, 70), st.sampled_from([board(512, 32), board(256, 16), board(128, 32)])
)
def test_overlapping_functions_mean_what_plain_loops_mean(count: int, length: int, target: Any) -> None:
    assert check(centred(count, length), target, length) > 0


def test_a_function_of_a_tensor_whose_memory_it_takes_is_applied_once(tmp_path: Path) -> None:
    """Exponentials of sums lie where the sums were: an overlapping vector would take exponentials of some again."""
    x, w, g = te.placeholder((3, 9), name="x"), te.placeholder((9, 31), name="w"), te.placeholder((3,), name="g")
    k, a, b = (te.reduce_axis((0, extent), name) for extent, name in ((9, "k"), (3, "a"), (3, "b")))
    product = te.compute((3, 31), lambda r, c: te.sum(x[r, k] * w[k, c], axis=k), "product")
    powers = te.compute((3, 31), lambda r, c: te.exp(product[r, c] - g[r]), "powers")
    windows = te.compute((1, 29), lambda r, c: te.sum(powers[r + a, c + b], axis=[a, b]), "windows")
    function, target = prim_func([x, w, g], windows), wide_target(256)
    source = emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")
    arrays = random_arguments(function)
    result = run_kernel(source, target, arrays, tmp_path)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-4)


def stencil(count: int, length: int) -> Any:
    """The gap of each element to the mean of its neighbours."""
    x = te.placeholder((count + 2, length + 2), name="x")

    def gap(i: Any, j: Any) -> Any:
        around = x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j] + x[i + 1, j + 2]
        return x[i + 1, j + 1] - 0.25 * around

    return prim_func([x], te.compute((count, length), gap, "gap"))


@pytest.mark.parametrize(("length", "widths"), [(61, [16, 8, 4]), (127, [16, 8, 4, 2]), (30, [16, 8, 4, 2])])
def test_neighbours_in_rows_that_no_vector_divides_have_vectors(length: int, widths: list[int], tmp_path: Path) -> None:
    function, target = stencil(5, length), wide_target(512)
    source = emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")
    assert {int(width) for width in re.findall(r"\(f32x(\d+)u \*\)&gap", source.definition)} == set(widths)
    arrays = random_arguments(function)
    for cc in ("gcc", "clang-19"):
        compile_strictly(source, target, tmp_path, cc)
        result = run_kernel(source, target, arrays, tmp_path, cc=cc)[-1]
        np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5, atol=1e-6)


@pytest.mark.long
@costly(10)
@given(st.integers(1, 5), st.integers(2, 70), st.sampled_from([board(512, 32), board(256, 16), board(128, 32)]))
def test_neighbours_mean_what_plain_loops_mean(count: int, length: int, target: Any) -> None:
    assert check(stencil(count, length), target, 1) > 0


def separable(rows: int, columns: int, taps: int) -> Any:
    """A filter down columns and then along rows."""
    x, w = te.placeholder((rows + taps - 1, columns + taps - 1), name="x"), te.placeholder((taps,), name="w")
    i, j = te.reduce_axis((0, taps), "i"), te.reduce_axis((0, taps), "j")
    wide = columns + taps - 1
    down = te.compute((rows, wide), lambda r, c: te.sum(x[r + i, c] * w[i], axis=i), "down")
    return prim_func([x, w], te.compute((rows, columns), lambda r, c: te.sum(down[r, c + j] * w[j], axis=j), "blurred"))


@pytest.mark.long
@pytest.mark.parametrize("bits", [512, 256, 128])
def test_sums_of_windows_stay_in_registers(bits: int, tmp_path: Path) -> None:
    """The row of results was loaded and stored for each term. The last vectors overlap those before."""
    function, target = separable(8, 301, 5), wide_target(bits)
    schedule = default_schedule(function, target, 1 << 20, FORMS)[0]
    source = emit_kernel(apply_schedule(function, schedule).module, target, "k")
    for name in ("down", "blurred"):
        assert not re.search(rf"{name}\[[^=;]*\] = \*\(const f32x\d+u \*\)&{name}\[", source.definition)
        assert {int(width) for width in re.findall(rf"\(f32x(\d+)u \*\)&{name}\[", source.definition)} == {bits // 32}
    arrays = random_arguments(function)
    for cc in ("gcc", "clang-19"):
        compile_strictly(source, target, tmp_path, cc)
        result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
        np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-4, atol=1e-5)


@pytest.mark.long
@costly(10)
@given(st.integers(2, 6), st.integers(2, 50), st.integers(2, 4), st.sampled_from([board(512, 32), board(256, 16)]))
def test_windows_mean_what_plain_loops_mean(rows: int, columns: int, taps: int, target: Any) -> None:
    assert check(separable(rows, columns, taps), target, 1) > 0
