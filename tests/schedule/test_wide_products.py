"""Products of bytes as floats: the same results, and in a package where bytes would be slower."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.codegen import emit_kernel
from edgetune.schedule import guessed_schedule
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.catalogue import algorithm_named, algorithms_among
from edgetune.schedule.algorithms.schedule_text import DIRECT, FORMS, WIDE, algorithm_of, schedule_text
from edgetune.schedule.default_algorithms import algorithms_of
from edgetune.schedule.default_schedule import Guess
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.target.costs import MARGINS
from edgetune.target.target import load_target
from tests.codegen_run import run_kernel, wide_target
from tests.examples import costly
from tests.integer_samples import Quantised, close
from tests.sketch_samples import run_plain

EXACT = Quantised(zeros=(0, 0), border=5)
UNSIGNED = replace(EXACT, data="uint8", border=128)
"""Advanced SIMD has no products of these in our rows: floats need somewhat fewer instructions."""


@costly(20)
@given(
    st.integers(1, 64),
    st.sampled_from([(1, 1), (3, 3), (1, 5)]),
    st.sampled_from(["int8", "uint8"]),
    st.booleans(),
    st.integers(1, 10_000),
)
def test_floats_have_the_same_sums(
    channels: int, kernel: tuple[int, int], data: str, depthwise: bool, seed: int
) -> None:
    out = channels if depthwise else 4
    sample = replace(EXACT, shape=(5, 6, channels), out=out, kernel=kernel, data=data, border=0)
    sample = replace(sample, groups=channels if depthwise else 1)
    arrays, generator = sample.arrays(seed), np.random.default_rng(seed)
    for array in arrays[:2]:
        limits = np.iinfo(array.dtype)
        array[generator.random(array.shape) < 0.7] = generator.choice([limits.min, limits.max])
    function = sample.function()
    algorithm = algorithm_named(function, *WIDE)
    changed = [algorithm.transforms[n].apply(a) if n in algorithm.transforms else a for n, a in enumerate(arrays)]
    np.testing.assert_array_equal(run_plain(algorithm.function, changed), run_plain(function, arrays))


@pytest.mark.parametrize(("data", "terms"), [("int8", 1024), ("uint8", 514)])
def test_floats_want_sums_that_they_hold(data: str, terms: int) -> None:
    for count in (terms, terms + 1):
        sample = replace(EXACT, shape=(4, 4, count), kernel=(1, 1), pad=(0, 0, 0, 0), data=data)
        found = [one.name for one in algorithms_among(sample.function(), WIDE)]
        assert found == ([*WIDE] if count == terms else [])


def test_weights_of_one_product_stay_bytes() -> None:
    vector = replace(EXACT, shape=(1, 1, 64), kernel=(1, 1), pad=(0, 0, 0, 0))
    assert not list(algorithms_among(vector.function(), WIDE))


@pytest.mark.parametrize(("board", "names"), [("rpi4", [*WIDE]), ("mps2-an500", []), ("generic-riscv64", [])])
def test_a_search_tries_floats_where_there_are_vectors(board: str, names: list[str]) -> None:
    found = algorithms_of(EXACT.function(), FORMS, load_target(board))
    assert [one.name for one in found if one.name in WIDE] == names


def test_a_package_has_floats_where_bytes_need_more_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here they need 0.89 of the instructions: with this margin that is enough."""
    monkeypatch.setattr(guessed_schedule, "MARGINS", replace(MARGINS, gain_of_estimate=0.95))
    target = load_target("rpi4")
    arrays = UNSIGNED.arrays()
    text, note = default_schedule(UNSIGNED.function(), target, 1 << 16, FORMS)
    assert algorithm_of(text) in WIDE
    assert "instructions with products of integers" in note
    scheduled = apply_schedule(UNSIGNED.function(), text)
    given_arrays = [scheduled.constants[n].apply(a) if n in scheduled.constants else a for n, a in enumerate(arrays)]
    source = emit_kernel(scheduled.module, target, "k")
    close(run_kernel(source, target, given_arrays, tmp_path)[-1], UNSIGNED.expected(*arrays[:-1]))


@pytest.mark.parametrize(("share", "wide"), [(0.5, True), (0.79, True), (0.81, False), (1.0, False), (1.5, False)])
def test_ties_stay_narrow(share: float, wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def estimated(_function: object, text: str, _target: object) -> float:
        return 1000 * share if algorithm_of(text) in WIDE else 1000

    monkeypatch.setattr(guessed_schedule, "estimated_instructions", estimated)
    bytes_, floats = (Guess(schedule_text(name, "[]"), "tile") for name in (DIRECT, *WIDE))
    found = guessed_schedule._cheaper(bytes_, floats, EXACT.function(), wide_target(256))
    assert (algorithm_of(found.trace) in WIDE) == wide
    assert f"an estimated 1,000 instructions with products of integers, {1000 * share:,.0f} of floats" in found.note
