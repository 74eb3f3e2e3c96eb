"""Maxima and minima where NaN lies among floats: instructions of a target give what plain C gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tvm import te, topi

from edgetune.codegen import emit_kernel
from edgetune.frontend.tensor_expression.kernel import kernel_from_te
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.target.target import load_target
from tests.codegen_run import run_kernel

ROWS, COLUMNS = 6, 22


def bounded(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda i, j: te.min(te.max(x[i, j], te.const(0, "float32")), te.const(6, "float32")))


@pytest.mark.parametrize("board", ["qemu-aarch64", "generic-x86_64"])
@pytest.mark.parametrize(
    ("expression", "snippet", "wanted"),
    [
        (bounded, "vmax_bound", lambda x: np.clip(x, 0, 6)),  # NaN stays NaN
        (lambda x: topi.max(x, axis=1), "vmax_running", lambda x: np.fmax.reduce(x, axis=1)),  # NaN is left out
        (lambda x: topi.min(x, axis=1), "vmin_running", lambda x: np.fmin.reduce(x, axis=1)),
    ],
)
def test_extremes_beside_nan(
    expression: Callable[[te.Tensor], te.Tensor],
    snippet: str,
    wanted: Callable[[np.ndarray], np.ndarray],
    board: str,
    tmp_path: Path,
) -> None:
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype("f4") * 5
    x[0, 3], x[1, 0], x[2, COLUMNS - 1] = np.nan, np.nan, np.nan
    x[3, 5], x[4, 7] = np.inf, -np.inf
    place = te.placeholder(x.shape, name="x")
    kernel, target = kernel_from_te([place, expression(place)], "extremes"), load_target(board)
    text = default_schedule(kernel.function, target, 1 << 12, FORMS)[0]
    source = emit_kernel(apply_schedule(kernel.function, text).module, target, "k")
    assert (snippet in source.definition) == (board == "qemu-aarch64")
    result = wanted(x)
    *_, found = run_kernel(source, target, [x, np.zeros(result.shape, "f4")], tmp_path)
    np.testing.assert_array_equal(found, result)
