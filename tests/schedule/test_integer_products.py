"""Products of 8-bit integers by dot products: exact for every shape, and chosen where the target has an instruction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, topi

from edgetune.codegen import emit_kernel
from edgetune.codegen.dot_products import DOT_PRODUCTS
from edgetune.graph.kernels import SYMMETRIC_BYTES
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.catalogue import algorithm_named, algorithms_among
from edgetune.schedule.algorithms.schedule_text import DOTS, FORMS, algorithm_of, schedule_text
from edgetune.schedule.default_algorithms import algorithms_of
from edgetune.schedule.default_schedule import default_guess
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.target.target import Target, load_target
from edgetune.tvm_types import PrimFunc
from tests.codegen_run import SANITIZERS, run_kernel, wide_target
from tests.examples import costly
from tests.integer_samples import Quantised, close
from tests.schedule.test_sketches import check
from tests.sketch_samples import Array, prim_func, run_plain

EXACT = Quantised(zeros=(0, 0), border=5)
KINDS = {
    "3x3": EXACT,
    "1x1": replace(EXACT, shape=(6, 10, 32), kernel=(1, 1), pad=(0, 0, 0, 0)),
    "1x1, stride 2": replace(EXACT, shape=(6, 10, 32), kernel=(1, 1), pad=(0, 0, 0, 0), stride=2),
    "odd channels": replace(EXACT, shape=(6, 10, 31), kernel=(1, 1), pad=(0, 0, 0, 0)),
    "stride 2": replace(EXACT, stride=2, pad=(0, 0, 1, 1)),
    "unsigned": replace(EXACT, data="uint8", border=128),
}


def applied(function: PrimFunc, name: str, arrays: list[Array]) -> tuple[PrimFunc, list[Array]]:
    """The function of an algorithm, and its arguments: constants are those that a package has."""
    algorithm = algorithm_named(function, name)
    changed = [algorithm.transforms[n].apply(a) if n in algorithm.transforms else a for n, a in enumerate(arrays)]
    return algorithm.function, changed


@costly(25)
@given(
    st.integers(1, 67),
    st.sampled_from([(1, 1), (3, 3), (1, 5), (3, 2)]),
    st.integers(1, 2),
    st.booleans(),
    st.sampled_from([-128, 0, 127]),
    st.sampled_from(["dot_int16_2", "dot_int8_4"]),
    st.integers(1, 10_000),
)
def test_steps_of_products_have_the_same_sums(
    channels: int, kernel: tuple[int, int], stride: int, padded: bool, border: int, name: str, seed: int
) -> None:
    pad = (1, 1, 0, 1) if padded else (0, 0, 0, 0)
    sample = replace(EXACT, shape=(5, 6, channels), out=4, kernel=kernel, stride=stride, pad=pad, border=border)
    arrays = sample.arrays(seed)
    generator = np.random.default_rng(seed)
    for array in arrays[:2]:  # the ends of the range saturate what adds in 16 bits
        array[generator.random(array.shape) < 0.5] = generator.choice([-128, 127])
    function = sample.function()
    found = next(algorithms_among(function, [name]), None)
    assert (found is None) == (channels == 1 and kernel[1] == 1)
    if found is not None:
        made, changed = applied(function, name, arrays)
        np.testing.assert_array_equal(run_plain(made, changed), run_plain(function, arrays))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("board", "name"),
    [("host", "dot_int16_2"), ("rpi5", "dot_int8_4"), ("rpi4", "dot_int8_2"), ("qemu-armv7", "dot_int8_2")],
)
def test_defaults_use_the_instruction_of_the_target(kind: str, board: str, name: str, tmp_path: Path) -> None:
    target, sample = load_target(board) if board != "host" else narrow_host(), KINDS[kind]
    function, arrays = sample.function(), sample.arrays()
    text, _ = default_schedule(function, target, 1 << 16, FORMS)
    if kind == "unsigned" and board != "host":
        assert algorithm_of(text) not in DOTS  # its instruction wants a sign
        return
    assert algorithm_of(text) == name
    scheduled = apply_schedule(function, text)
    source = emit_kernel(scheduled.module, target, "k")
    assert "@dot_" in source.definition
    given_arrays = [scheduled.constants[n].apply(a) if n in scheduled.constants else a for n, a in enumerate(arrays)]
    extra = () if target.emulator else SANITIZERS
    close(run_kernel(source, target, given_arrays, tmp_path, extra=extra)[-1], sample.expected(*arrays[:-1]))


@pytest.mark.parametrize("kind", ["3x3", "1x1", "odd channels"])
@pytest.mark.parametrize("board", ["rpi4", "qemu-armv7"])
def test_two_pairs_of_products_are_added_first_where_they_fit(kind: str, board: str, tmp_path: Path) -> None:
    target, sample = load_target(board), KINDS[kind]
    arrays, generator = sample.arrays(), np.random.default_rng(0)
    arrays[0][...] = generator.choice([-128, 127], arrays[0].shape)
    arrays[1][...] = generator.choice([-127, 127], arrays[1].shape)
    for symmetric in (True, False):
        function = sample.function()
        function = function.with_attr(SYMMETRIC_BYTES, 1) if symmetric else function
        text = schedule_text(
            "dot_int8_2", default_guess(algorithm_named(function, "dot_int8_2").function, target, 1 << 16).trace
        )
        scheduled = apply_schedule(function, text)
        source = emit_kernel(scheduled.module, target, "k")
        assert ("@dot_twice_" in source.definition) == symmetric
        given = [scheduled.constants[n].apply(a) if n in scheduled.constants else a for n, a in enumerate(arrays)]
        close(run_kernel(source, target, given, tmp_path)[-1], sample.expected(*arrays[:-1]))


def narrow_host() -> Target:
    """This machine with vectors of 256 bits, and no better dot product than all x86-64 cores have."""
    return wide_target(256).model_copy(update={"dot": None})


def test_every_schedule_of_a_search_is_right() -> None:
    function = replace(EXACT, shape=(4, 6, 8), out=16).function()
    made = algorithm_named(function, "dot_int16_2").function
    assert check(made, wide_target(256), 1) > 0


@pytest.mark.parametrize(
    ("board", "names"),
    [
        ("rpi4", ["dot_int8_2"]),
        ("qemu-armv7", ["dot_int8_2"]),
        ("rpi5", ["dot_int8_4"]),
        ("generic-x86_64", ["dot_int16_2"]),
    ],
)
def test_a_search_tries_what_the_target_has(board: str, names: list[str]) -> None:
    found = algorithms_of(EXACT.function(), FORMS, load_target(board))
    assert [algorithm.name for algorithm in found if algorithm.name in DOTS] == names


def test_only_products_of_which_lanes_share_the_data_have_steps() -> None:
    depthwise = replace(EXACT, out=8, groups=8)
    assert not list(algorithms_among(depthwise.function(), DOTS))
    x, w = (te.placeholder((8, 8), "int8", name) for name in "xw")
    run_time = prim_func([x, w], topi.nn.matmul(x, w, out_dtype="int32"))
    assert not list(algorithms_among(run_time, DOTS))


@pytest.mark.parametrize(("channels", "steps"), [(1, 2), (3, 5), (4, 2)])
def test_few_channels_are_one_axis_with_the_taps_of_a_row(channels: int, steps: int) -> None:
    """Of 3x3 pixels, a row is 3, 9 or 3 times 4 numbers, in steps of two."""
    sample = replace(EXACT, shape=(5, 6, channels), out=8)
    made = algorithm_named(sample.function(), "dot_int16_2").function
    weights = made.params[1]
    assert [int(extent) for extent in weights.shape[1:]] == {
        1: [3, 2 * steps, 1],
        3: [3, 2 * steps],
        4: [3, 3, 2 * steps],
    }[channels]


def test_data_that_lies_as_the_instruction_wants_it_is_not_copied() -> None:
    for kind, copies in (("1x1", False), ("3x3", True), ("odd channels", True)):
        made = algorithm_named(KINDS[kind].function(), "dot_int8_4").function
        assert int(made.attrs[DOT_PRODUCTS]) == 4
        assert ("operand" in str(made)) == copies
