"""Row numbers that are computed in floating point are a stage of integers in vectors, and mean the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.frontend.tensor_expression.kernel import kernel_from_te
from edgetune.rewrites.stored_indices import with_stored_indices
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from tests.codegen_run import run_kernel, wide_target
from tests.rewrites.test_window_values import stages
from tests.sketch_samples import prim_func, random_arguments, run_plain


def bags(rows: int = 7, terms: int = 5, entries: int = 100, width: int = 24) -> list[Any]:
    """Weighted sums of rows of a table."""
    table, number = te.placeholder((entries, width), name="table"), te.placeholder((rows, terms), name="number")
    k = te.reduce_axis((0, terms), "k")

    def value(b: Any, d: Any) -> Any:
        return te.sum(table[te.floor(te.abs(number[b, k]) * 64.0).astype("int32") % entries, d], axis=k)

    total = te.compute((rows, width), value, "total")
    return [table, number, te.compute((rows, width), lambda b, d: total[b, d] * 0.5, "bags")]


def warped(channels: int = 3, side: int = 19) -> list[Any]:
    """A picture taken between pixels."""
    x, at = te.placeholder((channels, side + 1), name="x"), te.placeholder((side,), name="at")

    def value(c: Any, i: Any) -> Any:
        place = te.min(te.max(i.astype("float32") + at[i], 0.0), side - 0.5)
        column, right = te.floor(place).astype("int32"), place - te.floor(place)
        return x[c, column] * (1.0 - right) + x[c, column + 1] * right

    return [x, at, te.compute((channels, side), value, "warped")]


def counted(terms: int = 90, bins: int = 7) -> list[Any]:
    """How often each number occurs."""
    x, i = te.placeholder((terms,), name="x"), te.reduce_axis((0, terms), "i")
    zero, one = (tirx.const(value, "float32") for value in (0.0, 1.0))

    def value(b: Any) -> Any:
        return te.sum(tirx.Select(te.floor(x[i] * 2.0).astype("int32") + bins // 2 == b, one, zero), axis=i)

    return [x, te.compute((bins,), value, "counted")]


def test_rows_and_weights_are_stages() -> None:
    """`column + 1` shares the number of its neighbour, and `1 - right` the weight."""
    assert stages(with_stored_indices(prim_func(*_split(bags())))) == ["total_place*", "total", "bags"]
    assert stages(with_stored_indices(prim_func(*_split(warped())))) == ["warped_place*", "warped_weight*", "warped"]
    assert stages(with_stored_indices(prim_func(*_split(counted())))) == ["counted_place*", "counted"]


def test_places_of_axes_alone_stay() -> None:
    """They are constants, or a resize, and so are numbers that are given as integers."""
    x, at = te.placeholder((30,), name="x"), te.placeholder((9,), "int32", name="at")
    resized = te.compute((4, 9), lambda i, j: x[te.floor(j.astype("float32") * 2.5).astype("int32")] + i, "resized")
    taken = te.compute((4, 9), lambda i, j: x[at[j] % 30] + i.astype("float32"), "taken")
    assert stages(with_stored_indices(prim_func([x], resized))) == ["resized"]
    assert stages(with_stored_indices(prim_func([x, at], taken))) == ["taken"]


def test_nothing_is_read_outside_of_its_condition() -> None:
    x, at = te.placeholder((30,), name="x"), te.placeholder((9,), name="at")

    def value(i: Any, j: Any) -> Any:
        row = te.floor(te.abs(at[j - 1])).astype("int32") % 30
        return tirx.if_then_else(j > 0, x[row] + i.astype("float32"), 0.0)

    assert stages(with_stored_indices(prim_func([x, at], te.compute((4, 9), value, "y")))) == ["y"]


@pytest.mark.parametrize("bits", [0, 128, 256, 512])
@pytest.mark.parametrize(
    "tensors", [bags(), bags(9, 6, 31, 3), warped(3, 32), counted()], ids=["wide", "rgb", "warp", "bins"]
)
def test_the_c_computes_numbers_in_vectors(tensors: list[Any], bits: int, tmp_path: Path) -> None:
    plain = prim_func(*_split(tensors))
    arrays = random_arguments(plain)
    function, target = kernel_from_te(tensors, "sample").function, wide_target(bits)
    source = emit_kernel(replay(function, default_trace(function, target)[0]), target, "sample")
    if bits == 512:
        assert "saturated_i32_f32x" in source.definition
        assert "f32_to_i32(" not in source.definition
    result = run_kernel(source, target, arrays, tmp_path)[-1]
    np.testing.assert_allclose(result, run_plain(plain, arrays), rtol=1e-5, atol=1e-5)


def _split(tensors: list[Any]) -> tuple[list[Any], Any]:
    return tensors[:-1], tensors[-1]
