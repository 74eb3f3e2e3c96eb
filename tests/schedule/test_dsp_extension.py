"""Products of bytes by the DSP extension of microcontrollers: exact for every shape, by every form of the C."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.schedule.algorithms.catalogue import algorithms_among
from edgetune.schedule.algorithms.schedule_text import DOTS, FORMS, LANES, algorithm_of
from edgetune.schedule.default_algorithms import algorithms_of
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.target.isa import INSTRUCTION_SETS
from edgetune.target.isa.vector_instructions import Instruction
from edgetune.target.target import load_target
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.dsp_core import DEPTHWISE, KINDS, SHARED, dsp_core, extreme, printed
from tests.examples import costly
from tests.integer_samples import close
from tests.sketch_samples import run_plain

HELIUM = "dot_int8_16"


@costly(25)
@given(
    st.integers(1, 35),
    st.sampled_from([(1, 1), (3, 3), (1, 5), (3, 2)]),
    st.integers(1, 2),
    st.booleans(),
    st.sampled_from([-128, 0, 127]),
    st.integers(1, 10_000),
)
def test_steps_in_the_order_of_the_instruction_have_the_same_sums(
    channels: int, kernel: tuple[int, int], stride: int, padded: bool, border: int, seed: int
) -> None:
    pad = (1, 1, 0, 1) if padded else (0, 0, 0, 0)
    sample = replace(SHARED, shape=(5, 6, channels), out=3, kernel=kernel, stride=stride, pad=pad, border=border)
    arrays, function = extreme(sample, seed), sample.function()
    for algorithm in algorithms_among(function, ["dot_int16_4"]):
        changed = [algorithm.transforms[n].apply(a) if n in algorithm.transforms else a for n, a in enumerate(arrays)]
        np.testing.assert_array_equal(run_plain(algorithm.function, changed), run_plain(function, arrays))


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_are_exact_at_the_ends_of_the_range(kind: str, tmp_path: Path) -> None:
    """By the instructions, by the plain C beside them, and by a build without optimisation."""
    sample, name = KINDS[kind]
    arrays = extreme(sample)
    source, given_arrays = printed(sample, dsp_core(), name, arrays)
    assert "@dot_" in source.definition or "@lane_products_" in source.definition
    expected = sample.expected(*arrays[:-1])
    plain = wide_target(256).model_copy(update={"compiler": load_target("host").compiler})
    for number, (target, extra) in enumerate(((dsp_core(), ()), (dsp_core(), ("-O0",)), (plain, SANITIZERS))):
        folder = tmp_path / str(number)
        folder.mkdir()
        close(run_kernel(source, target, given_arrays, folder, extra=extra)[-1], expected)


@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize("kind", ["1x1", "three channels", "one pixel", "depthwise"])
@pytest.mark.parametrize(
    ("board", "form", "mnemonic"), [("mps2-an386", "", "smla"), ("mps3-an547", HELIUM, "vmladava")]
)
def test_the_firmware_compiler_takes_every_tile(
    board: str, form: str, mnemonic: str, kind: str, level: str, tmp_path: Path
) -> None:
    """Registers are few: assembler that wants too many is an error of the compiler."""
    sample, name = KINDS[kind]
    target = load_target(board)
    shares_data = sample.groups == 1
    source, _ = printed(sample, target, form if form and shares_data else name, extreme(sample))
    assembly = compile_strictly(source, target, tmp_path, target.compiler.cc, (level,))
    assert (mnemonic if shares_data else "smla") in assembly


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_use_the_instructions(kind: str) -> None:
    sample, name = KINDS[kind]
    text, _ = default_schedule(sample.function(), load_target("mps2-an386"), 1 << 16, FORMS)
    assert algorithm_of(text).partition("_")[0] == name.partition("_")[0]


@pytest.mark.parametrize(
    ("board", "dots", "lanes"),
    [
        ("mps2-an386", ["dot_int16_4"], ["lanes_4_int16", "lanes_4_int8"]),
        ("mps2-an505", ["dot_int16_4"], ["lanes_4_int16", "lanes_4_int8"]),
        ("mps3-an547", [HELIUM, "dot_int16_4"], ["lanes_8_int8", "lanes_4_int16", "lanes_4_int8"]),
        ("cortex-m0plus", ["dot_int8_4"], []),
        ("mps2-an385", [], []),
        ("rpi4", ["dot_int8_2"], []),
    ],
)
def test_a_search_tries_what_the_target_has(board: str, dots: list[str], lanes: list[str]) -> None:
    target = load_target(board)
    assert [one.name for one in algorithms_of(SHARED.function(), FORMS, target) if one.name in DOTS] == dots
    assert [one.name for one in algorithms_of(DEPTHWISE.function(), FORMS, target) if one.name in LANES] == lanes


def test_rows_of_results_are_whole_steps_of_lanes() -> None:
    odd = replace(DEPTHWISE, shape=(9, 7, 6), out=6, groups=6)
    assert not list(algorithms_among(odd.function(), LANES))
    assert not list(algorithms_among(SHARED.function(), LANES))


def _instructions(found: object) -> Iterator[Instruction]:
    """All rows of the tables of an instruction set."""
    if isinstance(found, Instruction):
        yield found
    elif isinstance(found, Mapping | tuple):
        for one in found.values() if isinstance(found, Mapping) else found:
            yield from _instructions(one)


def test_no_compiler_moves_assembler_that_reads_memory() -> None:
    """Without volatile, GCC moves it out of a loop whose stores it reads, though it clobbers memory."""
    tables = [table for isa in INSTRUCTION_SETS.values() for table in vars(isa.vectors).values()]
    rows = [row for table in tables for row in _instructions(table)]
    reading = [row.text for row in rows if '"memory"' in row.text]
    assert len(reading) > len(KINDS)
    assert all("__asm__ volatile(" in text for text in reading)
