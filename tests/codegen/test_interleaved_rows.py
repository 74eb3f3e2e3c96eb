"""Interleaved rows: vectors across rows of three are loaded and stored by shuffles, and hold the right elements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.target.target import load_target
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.sketch_samples import prim_func, random_arguments, run_plain


def clipped(rows: int, *, gap: int = 0) -> Any:
    """A small matrix times each row, within limits; `gap` elements follow each row of the operand."""
    x, w = te.placeholder((rows, 3 + gap), name="x"), te.placeholder((3, 3), name="w")
    low, high = (tirx.const(value, "float32") for value in (-0.5, 0.5))

    def value(p: te.Var, c: te.Var) -> Any:
        return te.min(te.max(x[p, 0] * w[c, 0] + x[p, 1] * w[c, 1] + x[p, 2] * w[c, 2], low), high)

    return prim_func([x, w], te.compute((rows, 3), value, "clipped"))


def faded(rows: int, columns: int) -> Any:
    """A function of each element, by a factor of its row."""
    x, alpha = te.placeholder((rows, columns, 3), name="x"), te.placeholder((rows, columns), name="alpha")

    def value(r: te.Var, s: te.Var, c: te.Var) -> Any:
        return te.exp(x[r, s, c]) * alpha[r, s] - x[r, s, 2 - c]

    return prim_func([x, alpha], te.compute((rows, columns, 3), value, "faded"))


def normals(rows: int, columns: int) -> Any:
    """A case for each element of a row, of neighbours along the rows of a picture."""
    z = te.placeholder((rows + 1, columns + 2), name="z")

    def value(r: te.Var, s: te.Var, c: te.Var) -> Any:
        across, down = z[r, s] - z[r, s + 2], z[r, s + 1] - z[r + 1, s + 1]
        part = tirx.Select(c == 0, across, tirx.Select(c == 1, down, tirx.const(1.0, "float32")))
        return part / te.sqrt(across * across + down * down + 1.0)

    return prim_func([z], te.compute((rows, columns, 3), value, "normals"))


def mixed(length: int, period: int, each: int) -> Any:
    """A signal times a carrier whose phase changes after `each` samples and returns after some more."""
    x, carrier = te.placeholder((length,), name="x"), te.placeholder((period, 2), name="carrier")
    return prim_func(
        [x, carrier],
        te.compute((length, 2), lambda i, part: x[i] * carrier[i // each % period, part], "mixed"),
    )


def turned(rows: int) -> Any:
    """Quaternions of unit length, in reverse."""
    q = te.placeholder((rows, 4), name="q")

    def value(r: te.Var, c: te.Var) -> Any:
        squares = [q[r, n] * q[r, n] for n in range(4)]
        return q[r, 3 - c] / te.sqrt(squares[0] + squares[1] + squares[2] + squares[3] + 0.25)

    return prim_func([q], te.compute((rows, 4), value, "turned"))


def boxes(rows: int, wide: int) -> Any:
    """Boxes as detectors give them: another function for places than for sizes; `wide` more are read than written."""
    x, anchor = te.placeholder((rows, 4 + wide), name="x"), te.placeholder((rows, 2), name="anchor")

    def value(r: te.Var, c: te.Var) -> Any:
        return tirx.Select(c < 2, te.sigmoid(x[r, c]) + anchor[r, 0], te.exp(x[r, c]) * anchor[r, 1])

    return prim_func([x, anchor], te.compute((rows, 4), value, "boxes"))


def sizes(rows: int) -> Any:
    """Rows of four by a cheap function: they fill vectors of four lanes well."""
    x, s = te.placeholder((rows, 4), name="x"), te.placeholder((rows,), name="s")
    return prim_func([x, s], te.compute((rows, 4), lambda r, c: te.abs(x[r, c]) * s[r], "sizes"))


@pytest.mark.parametrize(
    ("function", "turns"),
    [
        (turned(64), 4),
        (turned(75), 4),
        (boxes(64, 0), 4),
        (boxes(77, 0), 4),
        (normals(3, 48), 3),
        (normals(2, 37), 3),
        (mixed(64, 16, 1), 2),
        (mixed(65, 48, 1), 2),
        (mixed(77, 3, 16), 2),
    ],
)
@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_neighbours_across_rows_fill_vectors(function: Any, turns: int, bits: int, cc: str, tmp_path: Path) -> None:
    target = wide_target(bits)
    source = emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")
    assert f"take_turns_f32x{bits // 32}x{turns}(" in source.definition
    assert " ? " not in source.definition
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, cc)
    result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", [clipped(64), clipped(67), clipped(16), faded(5, 7), faded(1, 48)])
@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_vectors_run_across_rows(function: Any, bits: int, cc: str, tmp_path: Path) -> None:
    target = wide_target(bits)
    source = emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")
    assert source.definition.count(f"every_third_f32x{bits // 32}(") == 3 * source.definition.count("take_turns_f32")
    assert source.definition.count(f"take_turns_f32x{bits // 32}x3(") >= 1
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, cc)
    result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "bits"),
    [
        (clipped(61), 128),
        (clipped(61, gap=2), 512),
        (clipped(11), 512),
        (mixed(64, 7, 1), 512),
        (boxes(64, 1), 512),
        (turned(64), 128),
        (sizes(64), 512),
    ],
)
def test_other_rows_are_left_to_compilers(function: Any, bits: int, tmp_path: Path) -> None:
    """Vectors of four lanes would need more shuffles than loads, and rows with gaps are no vectors that take turns."""
    target = wide_target(bits)
    source = emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")
    assert "every_third" not in source.definition
    assert "take_turns" not in source.definition
    arrays = random_arguments(function)
    result = run_kernel(source, target, arrays, tmp_path, cc="gcc", extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5, atol=1e-5)


def quantised(channels: int, pixels: int) -> Any:
    """Planes of floats as bytes, channels last."""
    x = te.placeholder((channels, pixels), name="x")

    def value(p: te.Var, c: te.Var) -> Any:
        low, high, scale = (tirx.const(number, "float32") for number in (-128.0, 127.0, 0.02))
        return tirx.min(tirx.max(tirx.nearbyint(x[c, p] / scale) + 5.0, low), high).astype("int8")

    return prim_func([x], te.compute((pixels, channels), value, "quantised"))


@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("board", ["rpi4", "256", "512"])
def test_bytes_of_rows_are_put_together_in_registers(channels: int, board: str, tmp_path: Path) -> None:
    function = quantised(channels, 75)
    target = wide_target(int(board)) if board.isdigit() else load_target(board)
    source = emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")
    assert f"take_turns_i8x{target.vector_bits // 32}x{channels}(" in source.definition
    arrays = [*random_arguments(function)[:-1], np.zeros((75, channels), np.int8)]
    compilers = (None,) if target.emulator else ("gcc", "clang-19")
    for cc in compilers:
        extra = () if target.emulator else SANITIZERS
        result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=extra)[-1]
        np.testing.assert_array_equal(result, run_plain(function, arrays))
