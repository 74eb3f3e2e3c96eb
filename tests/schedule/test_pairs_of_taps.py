"""Pairs of taps: depthwise convolutions of bytes add two products of each lane at a time, and mean the same."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te
from tvm.s_tir import Schedule

from edgetune.codegen import KernelSource, emit_kernel
from edgetune.graph.kernels import SYMMETRIC_BYTES
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.catalogue import algorithm_named, algorithms_among
from edgetune.schedule.algorithms.schedule_text import FORMS, PAIRS, algorithm_of, schedule_text
from edgetune.schedule.default_algorithms import algorithms_of
from edgetune.schedule.default_schedule import default_guess
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.target.target import Target, load_target
from edgetune.tvm_types import PrimFunc
from tests.codegen_run import SANITIZERS, compile_strictly, plain_core, run_kernel, wide_target
from tests.examples import costly
from tests.integer_samples import Quantised, close
from tests.sketch_samples import Array, run_plain

DEPTHWISE = Quantised(zeros=(0, 0), border=5, shape=(9, 7, 32), out=32, groups=32)
KINDS = {
    "3x3": DEPTHWISE,
    "stride 2": replace(DEPTHWISE, stride=2, pad=(0, 0, 1, 1)),
    "no border": replace(DEPTHWISE, pad=(0, 0, 0, 0)),
    "5x5": replace(DEPTHWISE, kernel=(5, 5), pad=(2, 2, 2, 2)),
    "1x4": replace(DEPTHWISE, kernel=(1, 4), pad=(0, 0, 0, 0)),
}


def symmetric(sample: Quantised) -> PrimFunc:
    """The function of a sample whose weights are never -128."""
    return sample.function().with_attr(SYMMETRIC_BYTES, 1)


def extreme(sample: Quantised, seed: int = 0) -> list[Array]:
    """Arguments with the ends of the range of both factors: the sum of two products is as large as 16 bits hold."""
    arrays, generator = sample.arrays(seed), np.random.default_rng(seed)
    for array, least in zip(arrays[:2], (-128, -127), strict=True):
        array[...] = np.where(generator.random(array.shape) < 0.7, generator.choice([least, 127], array.shape), array)
        np.maximum(array, least, out=array)
    return arrays


def printed(function: PrimFunc, target: Target, name: str, arrays: list[Array]) -> tuple[KernelSource, list[Array]]:
    """The kernel by an algorithm, and its arguments."""
    guess = default_guess(algorithm_named(function, name).function, target, 1 << 16)
    scheduled = apply_schedule(function, schedule_text(name, guess.trace))
    given = [scheduled.constants[n].apply(a) if n in scheduled.constants else a for n, a in enumerate(arrays)]
    return emit_kernel(scheduled.module, target, "k"), given


@costly(25)
@given(
    st.sampled_from([8, 16, 24, 40]),
    st.sampled_from([(3, 3), (1, 5), (3, 2), (5, 5), (4, 1)]),
    st.integers(1, 2),
    st.booleans(),
    st.sampled_from([-128, 0, 127]),
    st.integers(1, 10_000),
)
def test_pairs_have_the_same_sums(
    channels: int, kernel: tuple[int, int], stride: int, padded: bool, border: int, seed: int
) -> None:
    pad = (1, 1, 0, 1) if padded else (0, 0, 0, 0)
    sample = replace(
        DEPTHWISE, shape=(6, 6, channels), out=channels, groups=channels, kernel=kernel, stride=stride, pad=pad
    )
    sample = replace(sample, border=border)
    function, arrays = symmetric(sample), extreme(sample, seed)
    algorithm = algorithm_named(function, "pairs_8")
    changed = [algorithm.transforms[n].apply(a) if n in algorithm.transforms else a for n, a in enumerate(arrays)]
    np.testing.assert_array_equal(run_plain(algorithm.function, changed), run_plain(function, arrays))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("board", ["host", "rpi4", "qemu-armv7"])
def test_kernels_are_exact_at_the_ends_of_the_range(kind: str, board: str, tmp_path: Path) -> None:
    target, sample = wide_target(256) if board == "host" else load_target(board), KINDS[kind]
    arrays = extreme(sample)
    source, given_arrays = printed(symmetric(sample), target, "pairs_8", arrays)
    assert "@lane_pairs_" in source.definition
    extra = () if target.emulator else SANITIZERS
    close(run_kernel(source, target, given_arrays, tmp_path, extra=extra)[-1], sample.expected(*arrays[:-1]))


@pytest.mark.parametrize(
    ("bits", "flags", "mnemonic"),
    [
        (256, "-mavx2", "vpmaddwd"),
        (512, "-mavx512bw -mavx512vl", "vpmaddwd"),
        (512, "-mavx512vnni -mavx512vl -mavx512bw", "vpdpwssd"),
    ],
)
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_compilers_make_one_product_of_each_pair(bits: int, flags: str, mnemonic: str, cc: str, tmp_path: Path) -> None:
    sample = KINDS["1x4"]
    source, _ = printed(symmetric(sample), plain_core(bits), f"pairs_{bits // 32}", extreme(sample))
    assembly = compile_strictly(source, plain_core(bits), tmp_path, cc, flags.split())
    made = assembly.count(f"\t{mnemonic}\t") + (assembly.count("\tvpmaddwd\t") if mnemonic != "vpmaddwd" else 0)
    assert made >= source.definition.count("@lane_pairs_")  # the first pair of clang adds nothing
    assert mnemonic in assembly
    assert "punpcklbw" in assembly


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_compilers_make_four_steps_of_each_pair_on_arm(compiler: str, tmp_path: Path) -> None:
    target, sample = load_target("rpi4"), KINDS["3x3"]
    if compiler != "gcc":
        changes = {"cc": compiler, "cflags": ("--target=aarch64-linux-gnu", "-O3"), "kernel_cflags": ()}
        target = target.model_copy(update={"compiler": target.compiler.model_copy(update=changes)})
    source, _ = printed(symmetric(sample), target, "pairs_8", extreme(sample))
    assembly = compile_strictly(source, target, tmp_path, target.compiler.cc)
    for mnemonic in ("smull", "smlal"):
        assert len(re.findall(rf"\b{mnemonic}\s", assembly)) >= source.definition.count("@lane_pairs_")
    assert {"saddw", "saddw2"} <= set(re.findall(r"\bsaddw2?\b", assembly))


@pytest.mark.parametrize("board", ["rpi4", "qemu-armv7"])
def test_weights_of_which_nothing_is_promised_are_not_added_in_16_bits(board: str, tmp_path: Path) -> None:
    """Two products of -128 by -128 are 2^15."""
    x, w = te.placeholder((2, 8), "int8", "x"), te.placeholder((8, 2), "int8", "w")
    k = te.reduce_axis((0, 2), "k")
    y = te.compute((8,), lambda c: te.sum(x[k, c].astype("int32") * w[c, k].astype("int32"), axis=k), "y")
    for promised in (False, True):
        function = te.create_prim_func([x, w, y])
        function = function.with_attr(SYMMETRIC_BYTES, 1) if promised else function
        sch = Schedule(function)
        block = sch.get_sblock("y")
        sums = sch.cache_write(block, 0, "local")
        channel, taps = sch.get_loops(block)
        sch.reorder(taps, channel)
        sch.vectorize(channel)
        sch.decompose_reduction(block, taps)
        sch.unroll(taps)
        sch.vectorize(sch.get_loops(sums)[-1])
        source = emit_kernel(sch.mod, load_target(board), "k")
        assert "lane_pairs" not in source.definition  # with the promise, w is no constant
        least = [np.full(shape, -128, "int8") for shape in ((2, 8), (8, 2))]
        found = run_kernel(source, load_target(board), [*least, np.zeros(8, "int32")], tmp_path)[-1]
        assert (found == 1 << 15).all()


@pytest.mark.parametrize("board", ["host", "rpi4"])
def test_only_the_channels_of_a_block_are_copied_at_a_time(board: str) -> None:
    """Three rows of nine pixels, of 32 channels, would be 864 bytes."""
    target = wide_target(256) if board == "host" else load_target(board)
    source, _ = printed(symmetric(DEPTHWISE), target, "pairs_8", extreme(DEPTHWISE))
    assert 0 < source.scratch_bytes + source.local_bytes < 3 * 9 * 32


def test_pairs_want_their_own_data_whole_steps_and_weights_that_fit() -> None:
    assert [one.name for one in algorithms_among(symmetric(DEPTHWISE), PAIRS)] == ["pairs_16", "pairs_8"]
    assert not list(algorithms_among(DEPTHWISE.function(), PAIRS))  # weights of -128: the sum may exceed 16 bits
    shared = replace(DEPTHWISE, groups=1, out=8)
    assert not list(algorithms_among(symmetric(shared), PAIRS))
    odd = replace(DEPTHWISE, shape=(9, 7, 12), out=12, groups=12)
    assert not list(algorithms_among(symmetric(odd), PAIRS))
    unsigned = replace(DEPTHWISE, data="uint8", border=128)
    assert not list(algorithms_among(symmetric(unsigned), PAIRS))


@pytest.mark.parametrize(
    ("board", "names"),
    [
        ("rpi4", ["pairs_8"]),
        ("qemu-armv7", ["pairs_8"]),
        ("generic-x86_64", ["pairs_8"]),
        ("generic-riscv64", []),
        ("cortex-m0plus", []),
    ],
)
def test_a_search_tries_what_the_target_has(board: str, names: list[str]) -> None:
    found = algorithms_of(symmetric(DEPTHWISE), FORMS, load_target(board))
    assert [algorithm.name for algorithm in found if algorithm.name in PAIRS] == names


@pytest.mark.parametrize("board", ["generic-x86_64", "rpi4"])
def test_defaults_take_pairs_where_they_need_fewer_instructions(board: str) -> None:
    target = plain_core(256) if board == "generic-x86_64" else load_target(board)
    text, _ = default_schedule(symmetric(DEPTHWISE), target, 1 << 16, FORMS)
    assert algorithm_of(text) == "pairs_8"
