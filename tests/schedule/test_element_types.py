"""Element types: kernels of int16, int32 and float64 get what kernels of float32 get, in proportion to their bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tvm import te

from edgetune.codegen import emit_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.tvm_types import PrimFunc
from tests.codegen_run import SANITIZERS, run_kernel, wide_target
from tests.sketch_samples import prim_func, random_arguments, run_plain


def product(dtype: str) -> PrimFunc:
    x, y = (te.placeholder(shape, dtype, name) for name, shape in (("x", (48, 40)), ("y", (40, 64))))
    k = te.reduce_axis((0, 40), "k")
    return prim_func([x, y], te.compute((48, 64), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), "z"))


def convolution(dtype: str) -> PrimFunc:
    x, w = (te.placeholder(shape, dtype, name) for name, shape in (("x", (14, 14, 16)), ("w", (3, 3, 16, 32))))
    r, s, c = (te.reduce_axis((0, extent), name) for name, extent in (("r", 3), ("s", 3), ("c", 16)))

    def sums(i: te.Var, j: te.Var, o: te.Var) -> te.Tensor:
        return te.sum(x[i + r, j + s, c] * w[r, s, c, o], axis=[r, s, c])

    return prim_func([x, w], te.compute((12, 12, 32), sums, "z"))


def dot_products(dtype: str) -> PrimFunc:
    x, y = (te.placeholder(shape, dtype, name) for name, shape in (("x", (48, 400)), ("y", (400,))))
    k = te.reduce_axis((0, 400), "k")
    return prim_func([x, y], te.compute((48,), lambda i: te.sum(x[i, k] * y[k], axis=k), "z"))


def extremes(dtype: str) -> PrimFunc:
    x, k = te.placeholder((48, 400), dtype, "x"), te.reduce_axis((0, 400), "k")
    return prim_func([x], te.compute((48,), lambda i: te.max(x[i, k], axis=k), "z"))


def elements(dtype: str) -> PrimFunc:
    x, y = (te.placeholder(shape, dtype, name) for name, shape in (("x", (64, 192)), ("y", (192,))))
    return prim_func([x, y], te.compute((64, 192), lambda i, j: x[i, j] * y[j] + x[i, j], "z"))


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["int16", "int32", "float64"])
@pytest.mark.parametrize("kernel", [product, convolution, dot_products, extremes, elements])
def test_types_get_the_same_designs(kernel: Callable[[str], PrimFunc], dtype: str, tmp_path: Path) -> None:
    """Sums of float64 along a row took ten times as many instructions as those of float32."""
    target = wide_target(256)
    function, single = kernel(dtype), kernel("float32")
    texts = [default_schedule(one, target, 1 << 20, FORMS)[0] for one in (function, single)]
    sources = [
        emit_kernel(apply_schedule(one, text).module, target, "k")
        for one, text in zip((function, single), texts, strict=True)
    ]
    share = np.dtype(dtype).itemsize / 4
    assert sources[0].instructions <= 1.25 * share * sources[1].instructions
    arrays = random_arguments(function)
    found = run_kernel(sources[0], target, arrays, tmp_path, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(found, run_plain(function, arrays), rtol=1e-12)
