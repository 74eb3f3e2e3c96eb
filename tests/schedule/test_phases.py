"""Phases: a gather that divides an axis by a small number has no division in C, and the right elements."""

from __future__ import annotations

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


def shuffled(channels: int, rows: int, columns: int, factor: int) -> Any:
    """Pixel shuffle: channels become pixels."""
    x = te.placeholder((channels * factor**2, rows, columns), name="x")

    def value(c: te.Var, r: te.Var, s: te.Var) -> te.Tensor:
        return x[c * factor**2 + r % factor * factor + s % factor, r // factor, s // factor]

    return prim_func([x], te.compute((channels, rows * factor, columns * factor), value, "shuffled"))


def repeated(rows: int, columns: int, factor: int) -> Any:
    """Each element `factor` times."""
    x = te.placeholder((rows, columns), name="x")
    return prim_func([x], te.compute((rows, columns * factor), lambda r, s: x[r, s // factor], "repeated"))


def cut() -> Any:
    """The last element is there once, so no loop over pairs has all."""
    x = te.placeholder((3, 30), name="x")
    return prim_func([x], te.compute((3, 59), lambda r, s: x[r, s // 2], "cut"))


def wrapped() -> Any:
    """The divisor is no small number: the row is divided where it starts again."""
    x = te.placeholder((3, 30), name="x")
    return prim_func([x], te.compute((3, 60), lambda r, s: x[r, s % 30], "wrapped"))


@pytest.mark.parametrize(
    ("function", "divides"),
    [
        (shuffled(3, 5, 28, 2), False),
        (shuffled(2, 3, 7, 3), False),
        (repeated(5, 28, 2), False),
        (repeated(5, 9, 4), False),
        (cut(), True),
        (wrapped(), False),
    ],
)
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_phases(function: Any, divides: bool, cc: str, tmp_path: Path) -> None:
    target = wide_target(512)
    source = emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")
    body = source.definition.partition("{")[2]
    assert (" / " in body or " % " in body) == divides
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, cc)
    result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
    np.testing.assert_array_equal(result, run_plain(function, arrays))
