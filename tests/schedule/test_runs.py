"""Runs: where indices divide a row, vectors run along the neighbours that are left, and nothing divides inside."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te

from edgetune.codegen import emit_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.sketch_samples import prim_func, random_arguments, run_plain


def windows(size: int, channels: int, *, apart: int = 1, dtype: str = "float32") -> Any:
    """The windows of an image as rows of a matrix; the pixels of a window lie `apart`."""
    x = te.placeholder((9, 10, channels), dtype, name="x")
    columns = 10 - (size - 1) * apart

    def value(i: te.Var, k: te.Var) -> te.Tensor:
        row, column = k // (size * channels), k // channels % size
        return x[i // columns + row * apart, i % columns + column * apart, k % channels]

    shape = ((9 - (size - 1) * apart) * columns, size * size * channels)
    return prim_func([x], te.compute(shape, value, "windows"))


def grouped(rows: int, groups: int, size: int) -> Any:
    """Groups of channels that share a factor and an offset."""
    x, factor = te.placeholder((rows, groups * size), name="x"), te.placeholder((rows, groups), name="factor")
    shape = (rows, groups * size)
    return prim_func([x, factor], te.compute(shape, lambda n, c: x[n, c] * factor[n, c // size] + 1, "grouped"))


def tiled(rows: int, columns: int, times: int) -> Any:
    """A row several times."""
    x = te.placeholder((rows, columns), name="x")
    return prim_func([x], te.compute((rows, columns * times), lambda r, s: x[r, s % columns], "tiled"))


def repeated(rows: int, columns: int, times: int) -> Any:
    """Each element several times."""
    x = te.placeholder((rows, columns), name="x")
    return prim_func([x], te.compute((rows, columns * times), lambda r, s: x[r, s // times], "repeated"))


@pytest.mark.parametrize(
    ("function", "vector"),
    [
        (windows(3, 16), "f32x16"),
        (windows(3, 12), "f32x16"),  # a run is a row of a window: 36 elements
        (windows(3, 20, apart=2), "f32x16"),  # a run is a pixel
        (windows(3, 8, dtype="float64"), "f64x8"),
        (grouped(5, 25, 12), "f32x8"),
        (grouped(3, 10, 40), "f32x16"),
        (tiled(6, 24, 10), "f32x16"),
        (repeated(6, 32, 17), "f32x16"),
    ],
)
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_runs(function: Any, vector: str, cc: str, tmp_path: Path) -> None:
    target = wide_target(512)
    source = emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")
    assert f"*({vector}u *)&" in source.definition
    assert re.search(r"[kcs]_\w+ [/%]", source.definition) is None  # the place in a row is not divided
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, cc)
    result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-6, atol=1e-6)
