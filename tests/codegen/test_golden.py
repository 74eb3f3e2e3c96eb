"""Texts of kernels against golden files, and what compilers say about them: nothing, on any target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgetune.codegen import emit_kernel, kernel_unit, shim, split_packing
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.algorithms.catalogue import algorithm_named
from edgetune.schedule.default_schedule import default_trace, guesses
from edgetune.target.target import Target, load_target
from tests import codegen_samples as samples
from tests.attention_sample import Attention
from tests.codegen_run import compile_strictly, wide_target
from tests.integer_samples import Quantised


def attention() -> Any:
    """Two heads of four queries, in a schedule of few enough registers for every target."""
    function = Attention(queries=4, keys=16, depth=8, width=8).function()
    return replay(function, default_trace(function, load_target("generic-armv7"), 1 << 20)[0])


def dot_products(name: str) -> Any:
    """A quantised 1x1 convolution in steps of several products, in a schedule for vectors of 128 bits."""
    sample = Quantised((2, 4, 16), out=16, kernel=(1, 1), pad=(0, 0, 0, 0), zeros=(0, 0))
    function = algorithm_named(sample.function(), name).function
    return split_packing(replay(function, default_trace(function, load_target("rpi5"), 1 << 20)[0]))[0]


def in_core_registers(name: str, sample: Quantised) -> Any:
    """A quantised convolution by an algorithm for the DSP extension, in the formula's best schedule."""
    function = algorithm_named(sample.function(), name).function
    guess = next(guesses(function, load_target("mps2-an386"), 1 << 12))
    return split_packing(replay(function, guess.trace))[0]


KERNELS: dict[str, Callable[[], Any]] = {
    "register_tile": lambda: split_packing(samples.register_tile(samples.convolution()))[0],
    "softmax": lambda: samples.module(samples.softmax()),
    "padded_copy": samples.padded_copy,
    "requantised": samples.requantised,
    "gather": samples.gather,
    "attention": attention,
    "dot_products": lambda: dot_products("dot_int8_4"),
    "dot_products_of_pairs": lambda: dot_products("dot_int16_2"),
}
FIRMWARE: dict[str, Callable[[], Any]] = {
    "dot_tiles": lambda: in_core_registers(
        "dot_int16_4", Quantised((2, 4, 16), out=8, kernel=(1, 1), pad=(0, 0, 0, 0), zeros=(0, 0))
    ),
    "first_layer": lambda: in_core_registers("dot_int16_4", Quantised((8, 8, 3), out=8, zeros=(0, 0), border=5)),
    "lane_products": lambda: in_core_registers(
        "lanes_4_int16", Quantised((5, 6, 8), out=8, groups=8, zeros=(0, 0), border=5)
    ),
}
"""Kernels for microcontrollers with the DSP extension."""

TARGETS: dict[str, Callable[[], Target]] = {
    "wide": wide_target,
    "rpi4": lambda: load_target("rpi4"),
    "armv7": lambda: load_target("generic-armv7"),
    "scalar": lambda: wide_target(0),
}


@pytest.mark.parametrize("target", ["wide", "rpi4"])
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_kernels_are_written_as_the_golden_files_say(
    kernel: str, target: str, golden: Callable[[str, str], None]
) -> None:
    source = emit_kernel(KERNELS[kernel](), TARGETS[target](), f"sample_{kernel}")
    golden(f"codegen/{kernel}_{target}.c", kernel_unit(source, TARGETS[target](), "sample"))


@pytest.mark.parametrize("kernel", sorted(FIRMWARE))
def test_firmware_is_written_as_the_golden_files_say(
    kernel: str, golden: Callable[[str, str], None], tmp_path: Path
) -> None:
    board = load_target("mps2-an386")
    source = emit_kernel(FIRMWARE[kernel](), board, f"sample_{kernel}")
    golden(f"codegen/{kernel}_cortex_m4.c", kernel_unit(source, board, "sample"))
    for level in ("-O3", "-Os", "-O0"):
        compile_strictly(source, board, tmp_path, board.compiler.cc, (level,))
        compile_strictly(source, board, tmp_path, "clang-19", (f"--target={board.triple}", "-ffreestanding", level))


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_compilers_have_nothing_to_say(kernel: str, target: str, tmp_path: Path) -> None:
    board = TARGETS[target]()
    compilers = [board.compiler.cc] if board.emulator else [board.compiler.cc, "clang-19"]
    for cc in compilers:
        compile_strictly(emit_kernel(KERNELS[kernel](), board, "sample"), board, tmp_path, cc)


def test_the_same_kernel_is_the_same_text_twice() -> None:
    first, second = (emit_kernel(KERNELS["register_tile"](), wide_target(), "sample") for _ in range(2))
    assert first == second


def test_the_shim_passes_buffers_in_order() -> None:
    source = emit_kernel(samples.module(samples.softmax(100, 100)), wide_target(), "sample")
    assert source.scratch_bytes == -(-source.scratch_bytes // 64) * 64 > 0
    text = shim(source, "sample")
    assert "sample((const float *)buffers[0], (float *)buffers[1], (unsigned char *)buffers[2]);" in text
