"""Reductions with contiguous terms: any operator of that kind means the same, and runs on vectors in registers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx, topi

from edgetune.codegen.emit import emit_kernel
from edgetune.codegen.packing import split_packing
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.rules.factored_reduction import factored_sizes, find_factored
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.target.core import Core
from edgetune.target.target import Target
from tests.examples import costly
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func

KINDS = ("norm", "transposed", "scores", "distances", "max_plus", "windows", "scaled", "relative", "number")


def operator(kind: str, m: int, n: int, k: int) -> Any:
    """An operator whose terms are contiguous along a reduction axis of `k`."""
    a, b = te.placeholder((m, k), name="a"), te.placeholder((n, k), name="b")
    r = te.reduce_axis((0, k), "r")
    if kind == "norm":
        x = te.placeholder((m, n, k), name="x")
        i, j = te.reduce_axis((0, n), "i"), te.reduce_axis((0, k), "j")
        total = te.compute((m,), lambda y: te.sum(x[y, i, j] * x[y, i, j], axis=[i, j]), "total")
        return prim_func([x], te.compute((m,), lambda y: te.sqrt(total[y]), "norm"))
    if kind == "number":  # of no axes
        x = te.placeholder((m, n, k), name="x")
        axes = [te.reduce_axis((0, extent), name) for extent, name in ((m, "i"), (n, "j"), (k, "l"))]
        total = te.compute((), lambda: te.sum(x[axes[0], axes[1], axes[2]], axis=axes), "total")
        return prim_func([x], total)
    if kind == "windows":
        x = te.placeholder((m, n, k), name="x")
        i = te.reduce_axis((0, min(n, 3)), "i")
        shape = (m, n - min(n, 3) + 1)
        return prim_func([x], te.compute(shape, lambda y, z: te.sum(x[y, z + i, r], axis=[i, r]), "windows"))
    terms = {
        "distances": lambda y, z: te.sum((a[y, r] - b[z, r]) * (a[y, r] - b[z, r]), axis=r),
        "relative": lambda y, z: te.sum(a[y, r] * (b[z, r] - b[z, k // 2]), axis=r),  # two places of one tensor
        "max_plus": lambda y, z: te.max(a[y, r] + b[z, r], axis=r),
    }
    product = te.compute((m, n), terms.get(kind, lambda y, z: te.sum(a[y, r] * b[z, r], axis=r)), "product")
    if kind == "scores":
        return prim_func([a, b], topi.nn.softmax(product, axis=-1))
    if kind == "scaled":
        return prim_func([a, b], te.compute((m, n), lambda y, z: te.max(product[y, z] * 2, tirx.const(0.0)), "relu"))
    return prim_func([a, b], product)


@pytest.mark.long
@costly(20)
@given(
    st.sampled_from(KINDS),
    st.sampled_from([1, 2, 3, 8, 12]),
    st.sampled_from([1, 4, 7, 16]),
    st.sampled_from([1, 7, 8, 16, 64, 96, 100]),
    st.sampled_from([board(512, 32), board(256, 16), board(128, 32), board(0, 0)]),
    st.integers(1, 10_000),
)
def test_operators_mean_what_plain_loops_mean(kind: str, m: int, n: int, k: int, target: Target, seed: int) -> None:
    assert check(operator(kind, m, n, k), target, seed) > 0


def text_of(function: Any, target: Target, scratch: int = 0) -> str:
    """The C of the default schedule within `scratch` bytes."""
    trace, _ = default_trace(function, target, scratch)
    module, _ = split_packing(replay(function, trace))
    return emit_kernel(module, target, "k").definition


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_schedule_sums_vectors_in_registers_without_memory(kind: str) -> None:
    text = text_of(operator(kind, 8, 16, 128), board(256, 16))
    assert "@lanes_" in text
    innermost = text.split("@lanes_")[0].rsplit("for (", 1)[1]
    assert "f32x8u" in innermost
    assert not [line for line in innermost.splitlines() if line.strip().startswith("*(f32x8u")]  # no store


@pytest.mark.parametrize("kind", ["transposed", "scores", "distances", "max_plus", "scaled"])
def test_an_operand_is_packed_where_there_is_room(kind: str) -> None:
    function = operator(kind, 32, 32, 48)
    text = text_of(function, board(256, 16), 1 << 20)
    assert "scratch" in text.partition("{")[0]
    assert ("@lanes_" in text) == (kind == "scores")  # only the softmax reduces along its lanes
    assert "scratch" not in text_of(function, board(256, 16)).partition("{")[0]


def test_products_share_operands_and_few_results_have_several_chains() -> None:
    core = Core(16, 32, 32768)
    for kind, m, n, shared, chains in (("transposed", 64, 64, 4, False), ("transposed", 1, 1, 1, True)):
        analysis = analyse_blocks(operator(kind, m, n, 512))
        assert analysis is not None
        factored = find_factored(analysis.reductions[0], 16)
        assert factored is not None
        best = min((factored_sizes(factored, core, chained=c) for c in (False, True)), key=lambda found: found[0])[1]
        assert min(best["product.tile0"], best["product.tile1"]) == shared
        assert (best["product.chains"] > 1) == chains


@pytest.mark.parametrize("k", [8, 16, 24, 32])
def test_rows_of_a_vector_or_two_are_summed_in_lanes(k: int) -> None:
    """Nothing divides 7 results; four rows beside each other join at once."""
    x, y = te.placeholder((32, 7, k), name="x"), te.placeholder((7, k), name="y")
    r = te.reduce_axis((0, k), "r")
    function = prim_func([x, y], te.compute((32, 7), lambda i, j: te.sum(x[i, j, r] * y[j, r], axis=r), "agreement"))
    text = text_of(function, board(512, 32))
    assert "@lanes_sum_each_" in text
    assert " += x[" not in text


def test_a_tile_has_as_many_results_as_join_at_once() -> None:
    core = Core(16, 32, 32768)
    analysis = analyse_blocks(operator("norm", 64, 1, 16))
    assert analysis is not None
    factored = find_factored(analysis.reductions[0], 16)
    assert factored is not None
    cycles, sizes = factored_sizes(factored, core, chained=False)
    assert sizes["total.tile0"] % 4 == 0
    assert cycles < factored_sizes(factored, core, [1], chained=False)[0] / 2


def test_columns_are_no_factored_reduction() -> None:
    a, b = te.placeholder((8, 64), name="a"), te.placeholder((64, 16), name="b")
    r = te.reduce_axis((0, 64), "r")
    analysis = analyse_blocks(prim_func([a, b], te.compute((8, 16), lambda y, z: te.sum(a[y, r] * b[r, z], axis=r))))
    assert analysis is not None
    assert find_factored(analysis.reductions[0], 16) is None
