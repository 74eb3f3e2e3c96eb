"""Powers with a constant exponent are products and roots, in vectors and in single elements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from edgetune.codegen import KernelSource, emit_kernel
from edgetune.target.target import Target
from tests.codegen_run import run_kernel, wide_target

VALUES = np.concatenate([np.linspace(-4, 4, 96), [0.0, 1e-3, 1e3, np.inf, np.nan] * 5, [2.0] * 6]).astype(np.float32)


def powers(exponent: float, dtype: str, target: Target) -> KernelSource:
    """The power of the sum of each element and 0."""
    x = te.placeholder(VALUES.shape, dtype, name="x")
    zero = tirx.const(0.0, dtype)
    out = te.compute(VALUES.shape, lambda i: te.power(x[i] + zero, tirx.const(exponent, dtype)), name="out")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, out]))
    if target.vector_bits:
        schedule.vectorize(schedule.split(schedule.get_loops(schedule.get_sblock("out"))[-1], [None, 16])[-1])
    return emit_kernel(schedule.mod, target, "powers")


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, 4.0, 0.5, -0.5, -1.0, -2.0, 1.7])
@pytest.mark.parametrize("bits", [0, 128, 512])
def test_powers_are_right_and_call_nothing(exponent: float, bits: int, tmp_path: Path) -> None:
    target = wide_target(bits)
    for dtype in ("float32", "float64"):
        source, x = powers(exponent, dtype, target), VALUES.astype(dtype)
        assert ("__builtin_pow" in source.definition) == (exponent == 1.7)
        for cc in ("gcc", "clang-19"):
            result = run_kernel(source, target, [x, np.zeros_like(x)], tmp_path, cc=cc)[-1]
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(
                    result, x.astype(np.float64) ** exponent, rtol=4e-7 if dtype == "float32" else 1e-14
                )
