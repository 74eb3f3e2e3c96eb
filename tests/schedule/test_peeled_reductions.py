"""Peeled reductions: what has them, that they mean the same, and that both parts have vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx, topi

from edgetune.codegen import emit_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.catalogue import algorithm_named, algorithms_among
from edgetune.schedule.algorithms.schedule_text import DIRECT, FORMS, PEELED, algorithm_of
from edgetune.schedule.default_algorithms import algorithms_of, times_faster
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.schedule.rules.tiling import axes_of, loads_of
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from tests.attention_sample import Attention
from tests.codegen_run import compile_strictly, run_kernel, wide_target
from tests.examples import costly
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, dense, prim_func, random_arguments, run_plain


def rows(kind: str, count: int, length: int) -> Any:
    """An operator on rows of a matrix."""
    x = te.placeholder((count, length), name="x")
    if kind == "softmax":
        return prim_func([x], topi.nn.softmax(x, axis=1))
    j, k = te.reduce_axis((0, length), "j"), te.reduce_axis((0, length), "k")
    if kind == "least":
        return prim_func([x], te.compute((count,), lambda i: te.min(x[i, j], axis=j), "least"))
    most = te.compute((count,), lambda i: te.max(x[i, j], axis=j), "most")
    total = te.compute((count,), lambda i: te.sum(te.exp(x[i, k] - most[i]), axis=k), "total")
    return prim_func([x], te.compute((count,), lambda i: te.log(total[i]) + most[i], "log_sum_exp"))


@pytest.mark.long
@costly(15)
@given(
    st.sampled_from(["softmax", "least", "log_sum_exp"]),
    st.sampled_from([1, 5, 8]),
    st.integers(17, 70),
    st.sampled_from([256, 512]),
    st.integers(1, 10_000),
)
def test_every_schedule_means_what_plain_loops_mean(kind: str, count: int, length: int, bits: int, seed: int) -> None:
    function = rows(kind, count, length)
    lanes = bits // 32
    found = next(algorithms_among(function, [f"peeled_{bits}"]), None)
    assert (found is None) == (length % lanes == 0)
    if found is not None:
        assert check(found.function, board(bits, 32), seed) > 0
        arrays = random_arguments(function, seed)
        np.testing.assert_allclose(run_plain(found.function, arrays), run_plain(function, arrays), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("length", "kind"), [(127, "log_sum_exp"), (29, "least"), (35, "softmax")])
def test_a_rest_that_fills_no_vector_overlaps(length: int, kind: str) -> None:
    """The last 15, 13 or 3 elements of a row are a whole vector, of which a sum leaves out what it had already."""
    function = rows(kind, 8, length)
    found = algorithm_named(function, "peeled_512").function
    analysis = analyse_blocks(found)
    assert analysis is not None
    rests = [stage for stage in analysis.reductions if stage.name.endswith("_rest")]
    assert rests
    assert all(stage.reduction_extents == (16,) for stage in rests)
    arrays = random_arguments(function)
    np.testing.assert_allclose(run_plain(found, arrays), run_plain(function, arrays), rtol=1e-5, atol=1e-5)


def test_both_parts_have_vectors(tmp_path: Path) -> None:
    function, target = rows("log_sum_exp", 8, 100), wide_target(512)
    text, _ = default_schedule(function, target, 1 << 20, FORMS)
    assert algorithm_of(text) == "peeled_512"
    assert times_faster(function, "peeled_512", target) > 1.2
    source = emit_kernel(apply_schedule(function, text).module, target, "k")
    assert "exp_each_f32x16x" in source.definition, "several vectors in one call"
    assert "exp_each_f32x4x" in source.definition, "the last four of 100 terms"
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, "gcc")
    np.testing.assert_allclose(
        run_kernel(source, target, arrays, tmp_path)[-1], run_plain(function, arrays), rtol=1e-5, atol=1e-5
    )


def surprise(count: int, length: int) -> Any:
    """The sum of the logarithms of each row's shares."""
    x = te.placeholder((count, length), name="x")
    j, k = te.reduce_axis((0, length), "j"), te.reduce_axis((0, length), "k")
    total = te.compute((count,), lambda i: te.sum(te.abs(x[i, j]), axis=j), "total")
    value = te.compute((count,), lambda i: te.sum(te.log(te.abs(x[i, k]) / total[i] + 1e-3), axis=k), "surprise")
    return prim_func([x], value)


@pytest.mark.parametrize(("count", "length"), [(16, 33), (24, 130)])
def test_functions_of_a_rest_have_lanes_across_rows(count: int, length: int, tmp_path: Path) -> None:
    """One or two terms of each of eight rows: no eight single logarithms."""
    function, target = surprise(count, length), wide_target(512)
    text, _ = default_schedule(function, target, 1 << 20, FORMS)
    source = emit_kernel(apply_schedule(function, text).module, target, "k")
    assert "@log_" in source.definition
    assert "@log_f32(" not in source.definition
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, "gcc")
    np.testing.assert_allclose(
        run_kernel(source, target, arrays, tmp_path)[-1], run_plain(function, arrays), rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize(("bits", "length"), [(512, 17), (256, 9), (512, 13)])
def test_short_rows_before_a_product_are_peeled(bits: int, length: int, tmp_path: Path) -> None:
    """Plain loops over the terms of a maximum and a sum cost time, beside the product, which has lanes of its own."""
    x, y = te.placeholder((40, length), name="x"), te.placeholder((length, 32), name="y")
    j, k, r = (te.reduce_axis((0, length), name) for name in "jkr")
    most = te.compute((40,), lambda i: te.max(x[i, j], axis=j), "most")
    power = te.compute((40, length), lambda i, c: te.exp(x[i, c] - most[i]), "power")
    total = te.compute((40,), lambda i: te.sum(power[i, k], axis=k), "total")
    mixed = te.compute((40, 32), lambda i, c: te.sum(power[i, r] * y[r, c], axis=r), "mixed")
    function = prim_func([x, y], te.compute((40, 32), lambda i, c: mixed[i, c] / total[i], "share"))
    target = wide_target(bits)
    text, _ = default_schedule(function, target, 1 << 20, FORMS)
    source = emit_kernel(apply_schedule(function, text).module, target, "k")
    if length > bits // 32:
        assert algorithm_of(text) == f"peeled_{bits}"
    assert any(f"@exp_{kind}x" in source.definition for kind in ("f32", "each_f32"))
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, "gcc")
    np.testing.assert_allclose(
        run_kernel(source, target, arrays, tmp_path)[-1], run_plain(function, arrays), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
    "function", [rows("softmax", 8, 96), dense(5, 100, 16), Attention(queries=7, keys=37).function()], ids=str.__class__
)
def test_other_kernels_keep_their_forms(function: Any) -> None:
    names = {algorithm.name for algorithm in algorithms_of(function, FORMS, wide_target(512))}
    assert DIRECT in names
    assert not names & set(PEELED)


def test_a_recorded_form_is_found_again() -> None:
    function = rows("least", 8, 100)
    assert algorithm_named(function, "peeled_256").name == "peeled_256"


@pytest.mark.parametrize(("vectors", "peeled"), [("kj", True), ("ki", False)])
def test_a_matrix_that_is_used_once_is_not_packed(vectors: str, *, peeled: bool) -> None:
    """A vector for each matrix: lanes along its rows would copy all of it. Across them, nothing is peeled."""
    x, y = te.placeholder((31, 100, 127), name="x"), te.placeholder((31, {"i": 100, "j": 127}[vectors[1]]), name="y")
    r = te.reduce_axis((0, int(y.shape[1])), "r")
    if vectors == "kj":
        made = te.compute((31, 100), lambda k, i: te.sum(x[k, i, r] * y[k, r], axis=r), "product")
    else:
        made = te.compute((31, 127), lambda k, j: te.sum(x[k, r, j] * y[k, r], axis=r), "product")
    text, _ = default_schedule(prim_func([x, y], made), wide_target(512), 1 << 22, FORMS)
    assert (algorithm_of(text) in PEELED) == peeled
    assert "CacheRead" not in text


def test_a_constant_that_both_parts_read_is_not_packed() -> None:
    """TVM packs a constant for one reader: of seventeen weights, the rest would read those of the vector."""
    y, w = te.placeholder((64, 17), name="y"), te.placeholder((17, 1), name="w")
    k = te.reduce_axis((0, 17), "k")
    total = te.compute((64, 1), lambda i, j: te.sum(y[i, k] * w[k, j], axis=k), "total")
    function = prim_func([y, w], total).with_attr("layout_free_buffers", [1])
    assert "layout_free_buffers" not in (algorithm_named(function, "peeled_512").function.attrs or {})


def test_places_of_one_tensor_are_different_operands() -> None:
    """Rows times rows of one matrix: a tile shares both, and both parts of a peeled reduction read all of it."""
    x = te.placeholder((12, 100), name="x")
    k = te.reduce_axis((0, 100), "k")
    function = prim_func([x], te.compute((12, 12), lambda i, j: te.sum(x[i, k] * x[j, k], axis=k), "gram"))
    text, _ = default_schedule(function, wide_target(512), 1 << 20, FORMS)
    assert algorithm_of(text) == "peeled_512"
    found = algorithm_named(function, "peeled_512").function
    analysis = analyse_blocks(found)
    assert analysis is not None
    stage = analysis.stage("gram_whole")
    assert [axes_of(stage, load) for load in loads_of(stage)] == [[0], [1]]
    assert check(found, board(512, 32), 1) > 0


def test_a_sum_that_begins_at_another_number_than_zero_is_whole() -> None:
    """Both parts would begin with it."""
    from_five = te.comm_reducer(lambda a, b: a + b, lambda dtype: tirx.const(5, dtype), name="from_five")
    x, k = te.placeholder((4, 35), "int32", "x"), te.reduce_axis((0, 35), "k")
    function = prim_func([x], te.compute((4,), lambda i: from_five(x[i, k], axis=k), "sums"))
    assert not [*algorithms_among(function, ["peeled_256"])]
