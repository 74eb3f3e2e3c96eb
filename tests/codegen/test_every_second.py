"""Every second element of a row is read by two vector loads, and nothing behind the last element."""

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


def pooled(channels: int, width: int, stride: int) -> Any:
    """The largest of three neighbours; the last window ends with the tensor."""
    x = te.placeholder((channels, (width - 1) * stride + 3), name="x")
    k = te.reduce_axis((0, 3), "k")
    return prim_func([x], te.compute((channels, width), lambda c, w: te.max(x[c, w * stride + k], axis=k), "pooled"))


@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
@pytest.mark.parametrize(("bits", "width"), [(512, 32), (512, 19), (256, 8), (128, 12)])
def test_two_loads(bits: int, width: int, cc: str, tmp_path: Path) -> None:
    function, target = pooled(3, width, 2), wide_target(bits)
    source = emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")
    assert f"every_second_f32x{bits // 32}(&x[" in source.definition
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, cc)
    result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
    np.testing.assert_array_equal(result, run_plain(function, arrays))


@pytest.mark.parametrize(("rows", "columns"), [(5, 32), (3, 28), (2, 16)])
def test_a_copy_of_every_second_element_is_not_transposed(rows: int, columns: int, tmp_path: Path) -> None:
    """Space to depth: rows of four kinds are read by two vector loads, not a few elements of both kinds at a time."""
    x = te.placeholder((3, rows, 2, columns, 2), name="x")
    shape = (2, 2, 3, rows, columns)
    function = prim_func([x], te.compute(shape, lambda i, j, c, r, s: x[c, r, i, s, j], "to_depth"))
    target = wide_target(512)
    source = emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")
    assert "every_second_f32x16(&x[" in source.definition
    arrays = random_arguments(function)
    compile_strictly(source, target, tmp_path, "gcc")
    result = run_kernel(source, target, arrays, tmp_path, cc="gcc", extra=SANITIZERS)[-1]
    np.testing.assert_array_equal(result, run_plain(function, arrays))


def test_other_strides_are_read_one_by_one() -> None:
    function, target = pooled(2, 16, 3), wide_target(512)
    source = emit_kernel(apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module, target, "k")
    assert "every_second" not in source.definition
