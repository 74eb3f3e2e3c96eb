"""Floats of 16 bits in memory: vectors load and store them by instructions, with the bits that C converts to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tvm import te

from edgetune.codegen import KernelSource, emit_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.target.target import Target, load_target
from tests.codegen_run import compile_strictly, run_kernel, wide_target

_ROWS, _COLUMNS = 4, 72


def _source(target: Target) -> KernelSource:
    x = te.placeholder((_ROWS, _COLUMNS), "float16", "x")
    y = te.compute(x.shape, lambda *i: (x(*i).astype("float32") * 1.5 + 0.25).astype("float16"), "y")
    function = te.create_prim_func([x, y])
    text, _ = default_schedule(function, target, 1 << 16, FORMS)
    return emit_kernel(apply_schedule(function, text).module, target, "k")


def _numbers() -> np.ndarray:
    """Every kind of number: subnormal, infinite, NaN, the largest, and those whose results are ties."""
    special = np.array([0, -0.0, 6e-8, -6e-8, 65504, -65504, np.inf, -np.inf, np.nan, 2048 + 2, 1 + 2**-10], "float16")
    bits = np.random.default_rng(0).integers(0, 1 << 16, _ROWS * _COLUMNS).astype("uint16").view("float16")
    bits[: special.size] = special
    return bits.reshape(_ROWS, _COLUMNS)


def _check(target: Target, folder: Path, cc: str) -> None:
    x = _numbers()
    _, found = run_kernel(_source(target), target, [x, np.zeros_like(x)], folder, cc=cc)
    with np.errstate(all="ignore"):
        wanted = (x.astype("float32") * np.float32(1.5) + np.float32(0.25)).astype("float16")
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
@pytest.mark.parametrize("bits", [128, 256])
def test_halves_of_this_machine(bits: int, cc: str, tmp_path: Path) -> None:
    _check(load_target("host").model_copy(update={"vector_bits": bits}), tmp_path, cc)


def test_halves_of_aarch64(tmp_path: Path) -> None:
    target = load_target("generic-aarch64")
    _check(target, tmp_path, target.compiler.cc)


@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_halves_of_512_bits_compile(cc: str, tmp_path: Path) -> None:
    target = wide_target()
    flags = ("-mavx512f", "-mf16c") if "avx512" not in " ".join(target.compiler.kernel_line) else ()
    assembly = compile_strictly(_source(target), target, tmp_path, cc, flags)
    assert "vcvtph2ps" in assembly
    assert "vcvtps2ph" in assembly


@pytest.mark.parametrize("name", ["host", "generic-aarch64"])
def test_an_instruction_converts_several_halves(name: str) -> None:
    source = _source(load_target(name))
    assert "from_half_f32x" in source.definition
    assert "to_half_f32x" in source.definition
    assert "[lane]" not in source.definition
