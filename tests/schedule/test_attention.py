"""Attention in one kernel computes what numpy computes, whatever its shape, mask, schedule and board."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.codegen import KernelSource, emit_kernel
from edgetune.codegen.in_place import replaceable
from edgetune.codegen.lower import flat
from edgetune.graph.attention import least_scratch
from edgetune.schedule.algorithms.apply import apply_schedule, replay
from edgetune.schedule.algorithms.schedule_text import FORMS, algorithm_of
from edgetune.schedule.default_algorithms import algorithms_of, times_faster
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.default_sizes import row_sizes
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.schedule.sketches.decisions import Chosen
from edgetune.schedule.sketches.limits import footprint
from edgetune.schedule.sketches.spaces import in_rows, rows_of
from edgetune.target.target import Target, load_target
from tests.attention_sample import Attention, Mask
from tests.codegen_run import compile_strictly, run_kernel, wide_target
from tests.examples import costly
from tests.schedule.test_sketches import sampled
from tests.sketch_samples import board, dense, run

TOLERANCE = 1e-5  # of the largest output


def assert_near(actual: Any, expected: Any) -> None:
    """Numbers within the tolerance, and nan in the same places."""
    assert (np.isnan(actual) == np.isnan(expected)).all()
    numbers = ~np.isnan(expected)
    if numbers.any():
        assert np.abs(actual - expected)[numbers].max() <= TOLERANCE * max(1.0, np.abs(expected[numbers]).max())


def by_guess(attention: Attention, target: Target, scratch_limit: int = 1 << 20) -> tuple[KernelSource, str]:
    """The kernel that nobody tuned, and the note on its schedule."""
    function = attention.function()
    text, note = default_schedule(function, target, scratch_limit, FORMS)
    return emit_kernel(apply_schedule(function, text).module, target, "attention"), note


masks = st.sampled_from(["none", "scale", "keys", "scores", "where"])
boards = st.sampled_from([board(512, 32), board(256, 16), board(128, 32), board(0, 0)])


@pytest.mark.long
@costly(8)
@given(
    st.integers(1, 3), st.integers(1, 24), st.sampled_from([1, 2, 6, 16, 24, 32, 37, 48, 50]),
    st.sampled_from([1, 3, 8, 16]), st.sampled_from([1, 4, 9, 12, 16, 32]), masks, boards, st.integers(1, 10_000),
)  # fmt: skip
def test_sampled_schedules_mean_what_numpy_says(
    heads: int, queries: int, keys: int, depth: int, width: int, mask: Mask, target: Target, seed: int
) -> None:
    attention = Attention(heads, queries, keys, depth, width, mask)
    function, arrays = attention.function(), attention.arguments(seed)
    expected = attention.expected(*arrays[:-1])
    for algorithm in algorithms_of(function, FORMS, target):
        made = algorithm.function
        for trace in (*sampled(made, target, seed), default_trace(made, target, 1 << 20)[0]):
            assert_near(run(replay(made, trace), arrays), expected)


@pytest.mark.parametrize("mask", ["none", "scale", "keys", "scores", "where"])
@pytest.mark.parametrize("bits", [512, 128])
def test_emitted_kernels_compute_what_numpy_says(mask: Mask, bits: int, tmp_path: Path) -> None:
    attention = Attention(mask=mask)
    source, note = by_guess(attention, wide_target(bits))
    assert note.startswith("blocks of ")
    arrays = attention.arguments(1)
    assert_near(run_kernel(source, wide_target(bits), arrays, tmp_path)[-1], attention.expected(*arrays[:-1]))


ODD = {
    "keys": (Attention(queries=16, keys=37), "vectors_512"),
    "columns": (Attention(queries=16, keys=32, width=24), "vectors_512"),
    "queries": (Attention(queries=37, keys=32), "tiles_13"),
    "everything": (Attention(queries=29, keys=50, depth=9, width=23, mask="scores"), "vectors_512+tiles_10"),
    "few keys": (Attention(queries=16, keys=5, mask="where"), "vectors_512"),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "everything" else pytest.mark.long) for n in ODD])
def test_what_no_vector_or_tile_divides_has_whole_ones_that_overlap(name: str, tmp_path: Path) -> None:
    attention, form = ODD[name]
    function, target = attention.function(), wide_target(512)
    text, note = default_schedule(function, target, 1 << 20, FORMS)
    assert algorithm_of(text) == form
    assert note.startswith("blocks of ")
    source = emit_kernel(apply_schedule(function, text).module, target, "attention")
    arrays = attention.arguments(1)
    assert_near(run_kernel(source, target, arrays, tmp_path)[-1], attention.expected(*arrays[:-1]))


@pytest.mark.long
@pytest.mark.parametrize(("keys", "bits"), [(50, 512), (197, 128), (1500, 512), (1500, 0)])
def test_any_number_of_keys_has_blocks_of_queries(keys: int, bits: int) -> None:
    source, note = by_guess(Attention(queries=keys, keys=keys, depth=64, width=64), wide_target(bits))
    assert note.startswith("blocks of ")
    block = int(note.split()[2])
    lanes = max(1, bits // 32)
    assert source.scratch_bytes <= 4 * block * -(-keys // lanes) * lanes + 64
    assert source.scratch_bytes <= 1 << 18


def test_a_key_in_two_vectors_counts_once(tmp_path: Path) -> None:
    """Also where a value is infinite: the second copy of its power is 0, and 0 times infinity would be nan."""
    attention = Attention(queries=4, keys=21, mask="none")
    q, k, v, output = attention.arguments(2)
    k[:], v[:] = 0, 1
    v[:, 13, 0, 3] = np.inf
    result = run_kernel(by_guess(attention, wide_target())[0], wide_target(), [q, k, v, output], tmp_path)[-1].copy()
    assert np.isinf(result[:, :, 0, 3]).all()
    result[:, :, 0, 3] = 1
    np.testing.assert_allclose(result, 1, rtol=1e-6)


def test_tight_scratch_keeps_the_form() -> None:
    attention = Attention(queries=64, keys=50)
    function = attention.function()
    text, note = default_schedule(function, wide_target(), 0, FORMS)
    assert algorithm_of(text) == "vectors_512"
    assert note.startswith("blocks of 1 queries")


@pytest.mark.parametrize("queries", [1, 5])
def test_few_queries_are_one_block(queries: int, tmp_path: Path) -> None:
    attention = Attention(queries=queries, keys=64)
    source, note = by_guess(attention, wide_target())
    assert note.startswith(f"blocks of {queries} queries")
    arrays = attention.arguments(4)
    assert_near(run_kernel(source, wide_target(), arrays, tmp_path)[-1], attention.expected(*arrays[:-1]))


@pytest.mark.long
@pytest.mark.parametrize("name", ["rpi4", "generic-armv7", "generic-riscv64"])
def test_cross_built_kernels_compute_what_numpy_says(name: str, tmp_path: Path) -> None:
    attention, target = Attention(mask="scores"), load_target(name)
    source, _ = by_guess(attention, target)
    arrays = attention.arguments(2)
    assert_near(run_kernel(source, target, arrays, tmp_path)[-1], attention.expected(*arrays[:-1]))


@pytest.mark.parametrize(("hidden", "defined"), [(-np.inf, False), (-3.4028234663852886e38, True)])
@pytest.mark.parametrize("keys", [32, pytest.param(37, marks=pytest.mark.long)])
def test_a_query_without_keys_is_what_softmax_makes_of_it(
    hidden: float, defined: bool, keys: int, tmp_path: Path
) -> None:
    """All scores -infinity: nan, as of 0 / 0; all so low that adding them loses what they were: all keys alike."""
    attention = Attention(keys=keys, mask="scores")
    *inputs, output = attention.arguments(3)
    inputs[-1] = np.zeros_like(inputs[-1])
    inputs[-1][..., 5, :] = hidden
    source, _ = by_guess(attention, wide_target())
    result = run_kernel(source, wide_target(), [*inputs, output], tmp_path)[-1]
    assert_near(result, attention.expected(*inputs))
    assert np.isnan(result[:, 5]).all() != defined
    assert not np.isnan(np.delete(result, 5, axis=1)).any()


def test_scores_of_a_few_queries_are_all_that_is_stored() -> None:
    attention = Attention(heads=4, queries=64, keys=256)
    source, note = by_guess(attention, wide_target())
    assert note.startswith("blocks of ")
    block = int(note.split()[2])
    assert source.scratch_bytes == block * attention.keys * 4  # powers take the place of scores
    assert block < attention.queries
    assert "f32x16 attention_mixed_0 = {0}" in source.definition  # the register tile is registers


@pytest.mark.long
@pytest.mark.parametrize("limit", [0, 3000, 9000])
def test_tight_scratch_means_fewer_queries_at_a_time(limit: int) -> None:
    attention = Attention(heads=4, queries=64, keys=256)
    source, _ = by_guess(attention, wide_target(), limit)
    assert source.scratch_bytes <= max(limit, attention.keys * 4)


@pytest.mark.parametrize("queries", [1, 30, 35, 197])
@pytest.mark.parametrize("bits", [512, 0])
def test_the_least_scratch_of_attention_is_enough_for_its_last_sizes(queries: int, bits: int) -> None:
    """Both tiles of the last sizes have one query, whatever the tiles before them: 5 and 6 need blocks of 30."""
    function = Attention(queries=queries, keys=50, mask="none").function()
    rows = rows_of(function, wide_target(bits))
    assert rows is not None
    *_, (variant, sizes) = row_sizes(rows, wide_target(bits))
    assert (sizes["score_row"], sizes["row"], sizes["block"]) == (1, 1, 1)
    used = footprint(in_rows(function, rows, variant, Chosen(sizes), wide_target(bits)).mod)
    assert used.scratch_bytes <= least_scratch(function)


def test_the_result_is_not_written_over_the_queries() -> None:
    """A block of queries is read until its result is written, but other columns of it are read again."""
    attention = Attention(queries=16, keys=16, depth=32, width=32)
    function = attention.function()
    assert replaceable(flat(replay(function, default_trace(function, wide_target(), 1 << 20)[0]))) == ()


def test_kernels_without_attention_have_no_such_schedule() -> None:
    assert rows_of(dense(4, 16, 16), wide_target()) is None


def test_whole_vectors_are_predicted_to_be_faster() -> None:
    function = Attention(heads=4, queries=197, keys=197, depth=64, width=64).function()
    assert times_faster(function, "vectors_512", wide_target(512)) > 2
    assert times_faster(function, "vectors_512+tiles_11", wide_target(512)) > 5


@pytest.mark.long
def test_compilers_have_nothing_to_say_of_vectors_that_overlap(tmp_path: Path) -> None:
    attention, _ = ODD["everything"]
    for cc in ("gcc", "clang-19"):
        compile_strictly(by_guess(attention, wide_target())[0], wide_target(), tmp_path, cc)
