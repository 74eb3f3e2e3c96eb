"""Columns of short rows are turned out of them four at a time, and no load passes the last row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te

from edgetune.codegen import KernelSource, emit_kernel
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from edgetune.target.target import Target, load_target
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.sketch_samples import prim_func, random_arguments, run_plain


def determinants(count: int, *, outer: int = 1) -> Any:
    """Determinants of 3x3 matrices, `outer` batches of them."""
    x = te.placeholder((outer, count, 3, 3), name="x")

    def value(n: Any, b: Any) -> Any:
        a, d, g = ([x[n, b, row, column] for column in range(3)] for row in range(3))
        return (
            a[0] * (d[1] * g[2] - d[2] * g[1]) + a[1] * (d[2] * g[0] - d[0] * g[2]) + a[2] * (d[0] * g[1] - d[1] * g[0])
        )

    return prim_func([x], te.compute((outer, count), value, "y"))


def norms(count: int, row: int) -> Any:
    """Differences of neighbours in rows, squared and added; their roots."""
    x = te.placeholder((count, row), name="x")

    def value(b: Any) -> Any:
        gaps = [x[b, c] - x[b, c + 1] for c in range(row - 1)]
        return te.sqrt(sum((gap * gap for gap in gaps[1:]), gaps[0] * gaps[0]))

    return prim_func([x], te.compute((count,), value, "y"))


def source_of(function: Any, target: Target) -> KernelSource:
    return emit_kernel(replay(function, default_trace(function, target)[0]), target, "k")


def check(function: Any, target: Target, folder: Path, cc: str) -> KernelSource:
    source, arrays = source_of(function, target), random_arguments(function)
    compile_strictly(source, target, folder, cc)
    found = run_kernel(source, target, arrays, folder, cc=cc, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(found, run_plain(function, arrays), rtol=1e-5, atol=1e-5)
    return source


@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
@pytest.mark.parametrize("bits", [512, 256])
@pytest.mark.parametrize("count", [37, 8])
def test_matrices_of_a_batch(count: int, bits: int, cc: str, tmp_path: Path) -> None:
    """Three groups of four columns serve all nine elements, although each is read twice."""
    source = check(determinants(count, outer=2), wide_target(bits), tmp_path, cc)
    vectors = source.definition.split("}")[0]
    assert vectors.count("columns_f32x8(&x[") == 3
    assert "lane" not in vectors


@pytest.mark.parametrize("row", [4, 5, 6, 7, 12, 16])
@pytest.mark.parametrize("bits", [256, 128])
def test_rows_of_other_lengths(row: int, bits: int, tmp_path: Path) -> None:
    source = check(norms(27, row), wide_target(bits), tmp_path, "gcc")
    assert source.definition.count("columns_f32x") >= -(-row // 4)


@pytest.mark.parametrize("board", ["generic-aarch64", "generic-armv7", "generic-riscv64"])
def test_other_machines_agree(board: str, tmp_path: Path) -> None:
    target, function = load_target(board), determinants(37)
    source, arrays = source_of(function, target), random_arguments(function)
    compile_strictly(source, target, tmp_path, target.compiler.cc)
    found = run_kernel(source, target, arrays, tmp_path)[-1]
    np.testing.assert_allclose(found, run_plain(function, arrays), rtol=1e-5, atol=1e-5)


def test_little_work_stays_scalar() -> None:
    """A trace has two additions: turning three groups of columns would take longer."""
    x = te.placeholder((64, 3, 3), name="x")
    function = prim_func([x], te.compute((64,), lambda b: x[b, 0, 0] + x[b, 1, 1] + x[b, 2, 2], "trace"))
    assert "columns" not in source_of(function, wide_target(512)).definition


def test_single_columns_are_loaded_as_before() -> None:
    """A group of which one column is wanted would take as many shuffles."""
    x, y = te.placeholder((16, 64), name="x"), te.placeholder((64,), name="y")
    function = prim_func([x, y], te.compute((16,), lambda b: te.exp(x[b, 5]) * y[b], "y"))
    assert "columns" not in source_of(function, wide_target(256)).definition
