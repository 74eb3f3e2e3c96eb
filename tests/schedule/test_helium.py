"""Helium's windows and neighbours: which kernels have them, and that the plain C beside the instructions is exact."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetune.codegen.lane_windows import sums_in_place
from edgetune.codegen.lower import lower
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.catalogue import algorithms_among
from edgetune.schedule.algorithms.schedule_text import DIRECT, FORMS, IM2COL, LANES, algorithm_of
from edgetune.schedule.default_algorithms import algorithms_of
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.target.target import Target, load_target
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.dsp_core import printed
from tests.fixed_point_samples import FixedPoint
from tests.schedule.helium_samples import BYTES, PRODUCTS, TAPS, WINDOWS

BOARD = "mps3-an547"
ALL = {
    **{kind: (sample, "lanes_8_int8") for kind, sample in WINDOWS.items()},
    **{f"products, {kind}": one for kind, one in PRODUCTS.items()},
}


def _plain() -> Target:
    return wide_target(256).model_copy(update={"compiler": load_target("host").compiler})


@pytest.mark.parametrize("kind", ALL)
def test_the_plain_c_is_exact(kind: str, tmp_path: Path) -> None:
    sample, name = ALL[kind]
    arrays = sample.arrays()
    source, given = printed(sample, load_target(BOARD), name, arrays)
    found = run_kernel(source, _plain(), given, tmp_path, extra=SANITIZERS)[-1]
    np.testing.assert_array_equal(found, sample.expected(*arrays[:-1]))


@pytest.mark.parametrize("kind", BYTES)
def test_the_plain_c_of_cores_without_vectors_is_exact(kind: str, tmp_path: Path) -> None:
    sample, name = BYTES[kind]
    arrays = sample.arrays()
    source, given = printed(sample, load_target("cortex-m0plus"), name, arrays)
    assert "@dot_i8_i8_" in source.definition
    found = run_kernel(source, _plain(), given, tmp_path, extra=SANITIZERS)[-1]
    np.testing.assert_array_equal(found, sample.expected(*arrays[:-1]))


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_window_is_one_call_without_sums_of_its_own(kind: str) -> None:
    source, _ = printed(WINDOWS[kind], load_target(BOARD), "lanes_8_int8", WINDOWS[kind].arrays())
    far = "_far" if "out of reach" in kind else ""
    assert source.definition.count("@lane_window") == 1
    assert f"@lane_window{far}_" in source.definition
    assert "acc" not in source.definition


@pytest.mark.parametrize(
    "sample",
    [
        replace(WINDOWS["3x3"], symmetric=False),  # two products of -128 do not fit 16 bits together
        replace(WINDOWS["3x3"], most=24),  # the second factor does not decide ties
        replace(WINDOWS["3x3"], residual=True),
    ],
)
def test_other_sums_of_lanes_are_exact_without_windows(sample: FixedPoint, tmp_path: Path) -> None:
    arrays = sample.arrays()
    source, given = printed(sample, load_target(BOARD), "lanes_8_int8", arrays)
    assert "@lane_window" not in source.definition
    found = run_kernel(source, _plain(), given, tmp_path)[-1]
    np.testing.assert_array_equal(found, sample.expected(*arrays[:-1]))
    text, _ = default_schedule(sample.function(), load_target(BOARD), 1 << 16, FORMS)
    assert algorithm_of(text) != "lanes_8_int8"


def test_sums_that_something_else_reads_stay() -> None:
    """Without the attribute of windows, no sum moves into the statement that reads it."""
    sample = WINDOWS["3x3"]
    text, _ = default_schedule(sample.function(), load_target("mps2-an386"), 1 << 16, FORMS)
    lowered = lower(apply_schedule(sample.function(), text).module, 4)
    assert algorithm_of(text) != "lanes_8_int8"
    assert sums_in_place(lowered).same_as(lowered.body)


@pytest.mark.parametrize("kind", [kind for kind in PRODUCTS if kind.startswith("1x1") and "tiles" not in kind])
def test_four_neighbours_become_bytes_together(kind: str) -> None:
    sample = PRODUCTS[kind][0]
    text, _ = default_schedule(sample.function(), load_target(BOARD), 1 << 16, frozenset({DIRECT, "dot_int8_16"}))
    source, _ = printed(sample, load_target(BOARD), "dot_int8_16", sample.arrays())
    joined = source.definition.count("@joined_i32x4"), source.definition.count("@low_bytes_i32x4")
    assert algorithm_of(text) == "dot_int8_16"
    assert joined == ((0, 0) if sample.out % 4 else (1, 1))


@pytest.mark.parametrize("kind", TAPS)
def test_taps_of_a_window_load_what_they_share_once(kind: str) -> None:
    sample, tile = TAPS[kind]
    source, _ = printed(sample, load_target(BOARD), "dot_int8_16", sample.arrays())
    form = "dot_i8_i8_16" if "unaligned" in kind else "dot_aligned_i8_i8_16"
    assert f"@{form}_{tile}_i32(" in source.definition
    assert source.definition.count("@dot_") == 1


@pytest.mark.parametrize("kind", [kind for kind, (_, tile) in TAPS.items() if "4x1" in tile])
def test_four_pixels_of_a_channel_become_bytes_together(kind: str) -> None:
    sample, _ = TAPS[kind]
    source, _ = printed(sample, load_target(BOARD), "dot_int8_16", sample.arrays())
    scaled = "by" if "large shifts" in kind else "little"
    assert source.definition.count("@low_bytes_apart_i32x4") == 1
    assert source.definition.count(f"@vscale_all_{scaled}_i32x4") == 1
    assert source.definition.count("@widen_apart_i8x4") == sample.residual


def test_windows_are_for_whole_groups_of_eight_channels() -> None:
    odd = replace(WINDOWS["3x3"], shape=(9, 7, 12), out=12, groups=12)
    assert [one.name for one in algorithms_among(odd.function(), LANES)] == ["lanes_4_int16", "lanes_4_int8"]


def test_im2col_fills_the_last_step_with_whole_rows_of_taps() -> None:
    """Rows of 9 products fill no 16, so windows of three channels have none."""
    three = replace(PRODUCTS["3x3"][0], shape=(6, 7, 3))
    assert not [one for one in algorithms_among(three.function(), IM2COL) if one.name == "im2col_int8_16"]
    four = PRODUCTS["5x4, im2col"][0]
    assert "im2col_int8_16" in [one.name for one in algorithms_of(four.function(), FORMS, load_target(BOARD))]
    assert not [one for one in algorithms_of(four.function(), FORMS, load_target("rpi4")) if one.name in IM2COL]


@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize(
    ("board", "kind", "mnemonic"),
    [
        (BOARD, "3x3", "vqmovnt.s32"),
        (BOARD, "3x3, taps out of reach", "vqmovnt.s32"),
        (BOARD, "products, 1x1, residual", "vqshl.s32"),
        (BOARD, "products, 3x3, overlapping tiles", "vmladava.s8"),
        (BOARD, "products, 3x3 of 16 channels, three pixels", "vldrw.u32"),
        (BOARD, "products, 3x3 of 144 channels", "vldrb.s32"),
        (BOARD, "products, 3x3 of 40 channels, taps of a column", "vstrb.32"),
        ("cortex-m0plus", "1x1", "ldrsb"),
    ],
)
def test_the_firmware_compiler_has_registers_for_all(
    board: str, kind: str, mnemonic: str, level: str, tmp_path: Path
) -> None:
    sample, name = ALL[kind] if board == BOARD else BYTES[kind]
    target = load_target(board)
    source, _ = printed(sample, target, name, sample.arrays())
    assert mnemonic in compile_strictly(source, target, tmp_path, target.compiler.cc, (level,))
