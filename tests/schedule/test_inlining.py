"""Stages are inlined as long as their readers stay small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from tests.codegen_run import run_kernel, wide_target
from tests.sketch_samples import prim_func, random_arguments, run_plain


def butterflies(stages: int) -> tuple[te.Tensor, te.Tensor]:
    """A chain of stages that read four elements each, as the steps of a fast Fourier transform."""
    x = y = te.placeholder((9, 100), name="x")
    for number in range(stages):
        y = te.compute((9, 100), butterfly(y, 1 << number), f"step{number}")
    return x, y


def butterfly(before: te.Tensor, half: int) -> Callable[..., Any]:
    """One stage: sums of elements that are `half` apart, and differences."""

    def step(i: te.Var, j: te.Var) -> Any:
        first = tirx.floormod(tirx.floordiv(j, half), 2).equal(0)
        right, left = before[i, tirx.min(j + half, 99)], before[i, tirx.max(j - half, 0)]
        return tirx.Select(first, before[i, j] + right, left - before[i, j])

    return step


def test_a_chain_of_stages_does_not_grow_without_end(tmp_path: Path) -> None:
    """Six stages would have 4,096 loads in one; TVM took minutes."""
    x, y = butterflies(6)
    function, target = prim_func([x], y), wide_target(256)
    text = default_schedule(function, target, 1 << 20, FORMS)[0]
    source = emit_kernel(apply_schedule(function, text).module, target, "k")
    assert source.definition.count("[") < 1000
    arrays = random_arguments(function)
    result = run_kernel(source, target, arrays, tmp_path)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-5, atol=1e-5)
