"""Floats that are quantised on cores without vectors: halves to even, within limits, by instructions and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from edgetune.codegen import KernelSource, emit_kernel
from edgetune.graph.accuracy import Tolerance
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.default_schedule import default_trace
from edgetune.target.target import load_target
from tests.boards.image.image_bench import ImageBench
from tests.codegen_run import SANITIZERS, run_kernel, wide_target
from tests.sketch_samples import Array, prim_func

EXACT = Tolerance(absolute=0.0)
FAR = [2.0**31, -(2.0**31), 2.0**31 - 128, -(2.0**31) - 256, 3e38, -3e38, np.inf, -np.inf, 1e6, -1e6, 0.0, -0.0]
FLOATS = np.concatenate([np.arange(-1200, 1201) / 4, FAR]).astype(np.float32)
ZEROS = {"int8": (-7, 127, -128), "uint8": (0, 200, 255)}


def sample(dtype: str, zero: int) -> tuple[Any, Array]:
    """The unscheduled kernel that rounds floats and adds a zero point, and what it computes."""
    limits = np.iinfo(dtype)
    x = te.placeholder(FLOATS.shape, "float32", name="x")

    def value(i: tirx.Var) -> Any:
        moved = tirx.nearbyint(x[i]) + tirx.const(zero, "float32")
        within = tirx.max(moved, tirx.const(limits.min, "float32"))
        return tirx.min(within, tirx.const(limits.max, "float32")).astype(dtype)

    function = prim_func([x], te.compute(FLOATS.shape, value, name="y"))
    return function, np.clip(np.rint(FLOATS.astype("f8")) + zero, limits.min, limits.max).astype(dtype)


def printed(board: str, dtype: str, zero: int) -> tuple[KernelSource, Array]:
    function, expected = sample(dtype, zero)
    target = load_target(board)
    module = apply_schedule(function, default_trace(function, target)[0]).module
    return emit_kernel(module, target, "k"), expected


@pytest.mark.parametrize("dtype", ZEROS)
@pytest.mark.parametrize("board", ["mps2-an386", "mps2-an500", "mps3-an547", "mps2-an385"])
def test_rounded_bytes_are_exact_on_their_boards(board: str, dtype: str, tmp_path: Path) -> None:
    bench = ImageBench.of(load_target(board), tmp_path, tmp_path)
    try:
        for zero in ZEROS[dtype]:
            source, expected = printed(board, dtype, zero)
            assert ("@rounded_" in source.definition) == (board != "mps2-an385")
            result = bench.run_kernel(source, [FLOATS, expected], ("input", "output"), EXACT)
            assert (zero, result.status, result.reason) == (zero, "ok", "")
    finally:
        bench.board.close()


@pytest.mark.parametrize("dtype", ZEROS)
def test_the_plain_c_of_rounded_bytes_is_exact(dtype: str, tmp_path: Path) -> None:
    plain = wide_target(256).model_copy(update={"compiler": load_target("host").compiler})
    with_nan = np.concatenate([FLOATS, [np.nan]]).astype(np.float32)[1:]
    for zero in ZEROS[dtype]:
        source, expected = printed("mps2-an386", dtype, zero)
        for floats in (FLOATS, with_nan):
            found = run_kernel(source, plain, [floats, np.zeros_like(expected)], tmp_path, extra=SANITIZERS)[-1]
            known = ~np.isnan(floats)  # what a NaN becomes is open, but it is no undefined conversion
            wanted = np.resize(expected[1:], expected.size) if floats is with_nan else expected
            np.testing.assert_array_equal(found[known], wanted[known])
