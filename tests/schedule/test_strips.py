"""Strips of rows: a copy of fewer columns takes less scratch memory, and the results stay the same to the last bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from edgetune.codegen import emit_kernel
from edgetune.graph.memory.live_ranges import ARENA_ALIGNMENT
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.catalogue import algorithm_named
from edgetune.schedule.algorithms.schedule_text import FORMS, algorithm_of
from edgetune.schedule.default_schedule import guesses
from edgetune.schedule.divided_copies import divided_copies
from edgetune.schedule.guessed_schedule import default_schedule, estimated_instructions
from edgetune.schedule.sketches.spaces import tile_of
from edgetune.schedule.sketches.variants import variants_of
from edgetune.target.target import load_target
from tests.codegen_run import SANITIZERS, run_kernel, wide_target
from tests.dsp_core import DEPTHWISE, SHARED, dsp_core, extreme, in_strips, printed, printed_as
from tests.examples import costly
from tests.integer_samples import Quantised

WIDE = replace(SHARED, shape=(7, 32, 40), out=8)
"""A row of 32 columns is eight tiles of four pixels."""

FORM = "dot_int16_4"


@costly(8)
@given(
    st.integers(3, 7),
    st.sampled_from([4, 6, 8, 9, 12, 15, 16, 24]),
    st.sampled_from([3, 4, 8, 18]),
    st.tuples(
        st.integers(1, 2),
        st.sampled_from([(3, 3), (1, 5), (3, 2)]),
        st.sampled_from([(1, 1, 1, 1), (0, 0, 1, 1), (0, 2, 1, 0)]),
    ),
    st.integers(0, 5),
    st.integers(1, 10_000),
)
def test_strips_of_every_length_have_the_same_results(
    tmp_path_factory: pytest.TempPathFactory,
    height: int,
    columns: int,
    channels: int,
    window: tuple[int, tuple[int, int], tuple[int, int, int, int]],
    number: int,
    seed: int,
) -> None:
    stride, kernel, pad = window
    width = (columns - 1) * stride + kernel[1] - pad[1] - pad[3]
    sample = replace(SHARED, shape=(height, width, channels), out=5, kernel=kernel, stride=stride, pad=pad)
    core, arrays = dsp_core(), extreme(sample, seed)
    texts = [*in_strips(sample, core).values()]
    assume(texts)
    folder = tmp_path_factory.mktemp("strips")
    found, expected = (
        run_kernel(source, core, given_arrays, folder)[-1]
        for source, given_arrays in (
            printed_as(sample, core, texts[number % len(texts)], arrays),
            printed(sample, core, FORM, arrays),
        )
    )
    np.testing.assert_array_equal(found, expected)


def _scratch(text: str) -> int:
    return emit_kernel(apply_schedule(WIDE.function(), text).module, load_target("mps2-an386"), "k").scratch_bytes


def _of_columns(columns: int) -> int:
    """Bytes of three rows of so many columns and those beside them, in 16 bits, as the memory plan aligns them."""
    return -(-3 * 40 * 2 * (columns + 2) // ARENA_ALIGNMENT) * ARENA_ALIGNMENT


def test_shorter_strips_need_less_scratch_and_few_more_instructions() -> None:
    target, function = load_target("mps2-an386"), WIDE.function()
    whole, _ = default_schedule(function, target, 8192, FORMS)
    texts = [whole, *in_strips(WIDE, target).values()]
    assert [*map(_scratch, texts)] == [*map(_of_columns, (32, 16, 8, 4))]
    counts = [estimated_instructions(function, text, target) for text in texts]
    assert all(less < more < 1.05 * less for less, more in pairwise(counts))


@pytest.mark.parametrize(
    ("limit", "columns"), [(8160, 32), (8159, 16), (4320, 16), (2400, 8), (1440, 4), (960, 2), (720, 1)]
)
def test_the_longest_strips_are_chosen_that_fit(limit: int, columns: int) -> None:
    text, _ = default_schedule(WIDE.function(), load_target("mps2-an386"), limit, FORMS)
    assert algorithm_of(text) == FORM
    assert _scratch(text) == _of_columns(columns)


def test_default_schedules_divide_no_row_that_fits() -> None:
    target = load_target("mps2-an386")
    first = next(guesses(algorithm_named(WIDE.function(), FORM).function, target, 1 << 16))
    assert "strips" not in first.note
    first = next(guesses(algorithm_named(WIDE.function(), FORM).function, target, 3000))
    assert "strips of 8 pixels" in first.note


def test_divided_copies_are_otherwise_the_same_schedule() -> None:
    target, function = load_target("mps2-an386"), WIDE.function()
    whole, _ = default_schedule(function, target, 8192, FORMS)
    found = divided_copies(function, whole, target)
    assert [one.trace for one in found] == [*in_strips(WIDE, target).values()]
    assert [one.note for one in found] == [
        f"register tile 1x4 pixels, 1 vectors of 1, strips of {columns} pixels" for columns in (16, 8, 4)
    ]
    assert not divided_copies(function, found[0].trace, target)  # it has strips
    assert not divided_copies(function, default_schedule(function, target, 0, [])[0], target)  # it copies nothing


@pytest.mark.parametrize(
    ("sample", "form", "divided"),
    [
        (SHARED, FORM, True),
        (replace(SHARED, shape=(1, 32, 16), kernel=(1, 3), pad=(0, 1, 0, 1)), FORM, True),
        (replace(SHARED, kernel=(1, 1), pad=(0, 0, 0, 0)), FORM, True),
        (replace(SHARED, shape=(1, 32, 16), kernel=(1, 1), pad=(0, 0, 0, 0)), FORM, False),  # each tile is copied alone
        (DEPTHWISE, "lanes_4_int8", False),  # one block of channels is copied at a time
        (SHARED, "direct", False),  # nothing has to be copied
    ],
)
def test_a_search_has_strips_where_channels_share_a_copy(sample: Quantised, form: str, divided: bool) -> None:
    found = tile_of(algorithm_named(sample.function(), form).function, load_target("mps2-an386"))
    assert found is not None
    assert any("strip" in variant.order for variant in variants_of(found[1])) == divided


@costly(6)
@given(
    st.sampled_from([8, 12, 16, 20, 32]),
    st.sampled_from([3, 7, 9, 24, 40]),
    st.tuples(
        st.sampled_from([1, 2]),
        st.sampled_from([(3, 3), (1, 5), (3, 2)]),
        st.sampled_from([(1, 1, 1, 1), (0, 0, 1, 1), (0, 2, 1, 0)]),
    ),
    st.integers(0, 5),
)
def test_strips_whose_rows_are_copied_whole_ask_nothing_of_an_element(
    tmp_path_factory: pytest.TempPathFactory,
    columns: int,
    channels: int,
    window: tuple[int, tuple[int, int], tuple[int, int, int, int]],
    number: int,
) -> None:
    stride, kernel, pad = window
    width = (columns - 1) * stride + kernel[1] - pad[1] - pad[3]
    sample = replace(SHARED, shape=(5, width, channels), out=5, kernel=kernel, stride=stride, pad=pad)
    target, arrays = load_target("mps3-an547"), extreme(sample)
    texts = [*in_strips(sample, target, "dot_int8_16").values()]
    assume(texts)
    source, given_arrays = printed_as(sample, target, texts[number % len(texts)], arrays)
    assert " ? " not in source.definition
    plain = wide_target(256).model_copy(update={"compiler": load_target("host").compiler})
    found = run_kernel(source, plain, given_arrays, tmp_path_factory.mktemp("strips"), extra=SANITIZERS)[-1]
    np.testing.assert_array_equal(found, sample.expected(*arrays[:-1]))
