"""Short sums: rows of a few results that are sums of a few terms have no reduction, and the right elements."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.graph.evaluate import evaluate_program
from edgetune.rewrites.short_sums import with_sums_for_short_rows, with_sums_of_columns
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.sketch_samples import prim_func, random_arguments, run_plain
from tests.te_programs import program_from_te


def colours(pixels: int, terms: int, results: int) -> Any:
    """A small matrix times each pixel, above zero."""
    x, w = te.placeholder((pixels, terms), name="x"), te.placeholder((results, terms), name="w")
    k = te.reduce_axis((0, terms), "k")
    mixed = te.compute((pixels, results), lambda p, c: te.sum(x[p, k] * w[c, k], axis=k), "mixed")
    zero = tirx.const(0.0, "float32")
    return prim_func([x, w], te.compute((pixels, results), lambda p, c: te.max(mixed[p, c], zero), "colours"))


def largest(pixels: int) -> Any:
    """No sum."""
    x = te.placeholder((pixels, 3, 3), name="x")
    k = te.reduce_axis((0, 3), "k")
    return prim_func([x], te.compute((pixels, 3), lambda p, c: te.max(x[p, c, k], axis=k), "largest"))


def products(count: int) -> Any:
    """Small matrices times small matrices."""
    a, b = (te.placeholder((count, 3, 3), name=name) for name in "ab")
    k = te.reduce_axis((0, 3), "k")
    return prim_func([a, b], te.compute((count, 3, 3), lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k), "c"))


@pytest.mark.parametrize(
    ("function", "reductions"),
    [
        (colours(37, 3, 3), 0),
        (colours(37, 2, 3), 0),
        (colours(37, 4, 2), 0),
        (colours(37, 3, 4), 1),
        (colours(37, 5, 3), 1),
        (colours(3, 3, 3), 1),
        (largest(37), 1),
        (products(37), 1),
    ],
)
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_short_sums(function: Any, reductions: int, cc: str, tmp_path: Path) -> None:
    changed = with_sums_for_short_rows(function)
    analysis = analyse_blocks(changed)
    assert analysis is not None
    assert len(analysis.reductions) == reductions
    target = wide_target(512)
    source = emit_kernel(apply_schedule(changed, default_schedule(changed, target, 0, FORMS)[0]).module, target, "k")
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, cc)
    result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5, atol=1e-5)


def test_a_short_sum_keeps_the_order_of_its_terms() -> None:
    function = colours(37, 3, 3)
    store = analyse_blocks(with_sums_for_short_rows(function)).stages[0].block.body  # type: ignore[union-attr]
    columns = [int(product.a.indices[1].value) for product in (store.value.a.a, store.value.a.b, store.value.b)]
    assert columns == [0, 1, 2]


def dot_products(count: int, *shape: int, mean: bool = False) -> Any:
    """Products of rows of two tensors; `mean`: the rows of one less their mean."""
    x, y = (te.placeholder((count, *shape), name=name) for name in "xy")
    axes = [te.reduce_axis((0, extent), f"k{number}") for number, extent in enumerate(shape)]
    total = te.compute((count,), lambda b: te.sum(x(b, *axes) * (1.0 if mean else y(b, *axes)), axis=axes), "total")
    if not mean:
        return prim_func([x, y], total)
    return prim_func([x], te.compute(x.shape, lambda b, *place: x(b, *place) - total[b] / float(prod(shape)), "gap"))


@pytest.mark.parametrize(
    ("shape", "written"), [((3, 3), True), ((7,), True), ((5,), True), ((2,), False), ((16,), False), ((31,), False)]
)
def test_sums_along_short_rows_are_expressions(shape: tuple[int, ...], written: bool) -> None:
    """Lanes across rows would gather each term; of long rows, vectors run along them."""
    function = dot_products(40, *shape)
    changed = with_sums_of_columns(function)
    analysis = analyse_blocks(changed)
    assert analysis is not None
    assert (not analysis.reductions) == written
    arrays = random_arguments(function)
    np.testing.assert_allclose(run_plain(changed, arrays), run_plain(function, arrays), rtol=1e-5, atol=1e-5)


def mixed_squares(results: int, width: int, step: int) -> Any:
    """Sums over squares of 2x2 pixels of three colours, which are `step` apart, times some rows of weights."""
    x, w = te.placeholder((10, width, 3), name="x"), te.placeholder((results, 3), name="w")
    i, j, c = (te.reduce_axis((0, extent), name) for extent, name in ((2, "i"), (2, "j"), (3, "c")))
    shape = (results, 5, (width - 2) // step + 1)

    def total(o: Any, r: Any, s: Any) -> Any:
        return te.sum(x[2 * r + i, step * s + j, c] * w[o, c], axis=[i, j, c])

    return prim_func([x, w], te.compute(shape, total, "total"))


@pytest.mark.parametrize(
    ("function", "reductions"),
    [
        (mixed_squares(2, 34, 2), 0),
        (mixed_squares(1, 48, 3), 0),
        (mixed_squares(2, 35, 2), 1),  # rows of the image are no multiple of two pixels
        (mixed_squares(6, 34, 2), 1),  # a product: lanes share what they read
        (mixed_squares(2, 34, 1), 1),  # windows overlap
    ],
)
@pytest.mark.parametrize(("cc", "bits"), [("gcc", 512), ("clang-19", 256), ("gcc", 128)])
def test_sums_of_rows_that_are_some_pixels_apart(
    function: Any, reductions: int, cc: str, bits: int, tmp_path: Path
) -> None:
    changed = with_sums_of_columns(function)
    analysis = analyse_blocks(changed)
    assert analysis is not None
    assert len(analysis.reductions) == reductions
    target = wide_target(bits)
    source = emit_kernel(apply_schedule(changed, default_schedule(changed, target, 0, FORMS)[0]).module, target, "k")
    if not reductions:
        assert len(re.findall(r"f32x\d x_columns\w*\[4\];", source.definition)) == 4  # once for both results
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, cc)
    result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5, atol=1e-5)


def test_columns_of_every_second_row_stay_inside_of_the_tensor(tmp_path: Path) -> None:
    """The tensor ends with the third column of the last row, and columns are turned by fours."""
    x = te.placeholder((127, 3), name="x")
    function = prim_func([x], te.compute((64,), lambda i: x[i * 2, 0] + x[i * 2, 1] + x[i * 2, 2], "total"))
    arrays = random_arguments(function)
    target = wide_target(256)
    source = emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")
    result = run_kernel(source, target, arrays, tmp_path, cc="gcc", extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5, atol=1e-5)


def test_sums_beside_other_readers_of_their_rows_stay() -> None:
    function = dot_products(40, 7, mean=True)
    assert with_sums_of_columns(function).same_as(function)


def test_sums_of_all_pairs_of_rows_stay() -> None:
    """A register tile serves them better: each row is read for many others."""
    x, y = (te.placeholder((40, 7), name=name) for name in "xy")
    k = te.reduce_axis((0, 7), "k")
    function = prim_func([x, y], te.compute((40, 40), lambda i, j: te.sum(x[i, k] * y[j, k], axis=k), "total"))
    assert with_sums_of_columns(function).same_as(function)


def test_a_constant_that_is_read_at_several_places_is_not_packed() -> None:
    """TVM packs a tensor for one place, and refuses another layout for several."""

    def mixed(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 3), "k")
        return te.compute((31, 3), lambda p, c: te.sum(x[p, k] * w[c, k], axis=k), "mixed")

    weights = np.arange(9, dtype=np.float32).reshape(3, 3)
    program = program_from_te(mixed, {"x": ((31, 3), "float32")}, {"w": weights}, "mixed")
    (kernel,) = program.kernels
    assert "layout_free_buffers" not in (kernel.function.attrs or {})
    for bits in (512, 256):
        assert default_schedule(kernel.function, wide_target(bits), kernel.scratch, FORMS)[0]
    x = random_arguments(kernel.function)[0]
    (answer,) = evaluate_program(program, [{"x": x}])
    np.testing.assert_allclose(answer["mixed"], x @ weights.T, rtol=1e-5, atol=1e-5)


def test_a_sum_that_is_written_out_reads_all_of_its_tensors() -> None:
    """Of two tensors of one shape that are read at equal places, both are regions of the block."""
    x, w = (te.placeholder((64, 3), name=name) for name in "xw")
    k = te.reduce_axis((0, 3), "k")
    zero = tirx.const(0.0, "float32")
    y = te.compute((64, 3), lambda p, i: te.sum(tirx.Select(k <= i, x[p, k] * w[p, k], zero), axis=k), "y")
    analysis = analyse_blocks(with_sums_for_short_rows(prim_func([x, w], y)))
    assert analysis is not None
    (stage,) = analysis.stages
    assert not stage.reduction
    assert {str(region.source.name) for region in stage.reads()} == {"x", "w"}
