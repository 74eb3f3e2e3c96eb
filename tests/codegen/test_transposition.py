"""Copies in another order are calls that turn squares of vectors, exact for all extents, and read nothing outside."""

from __future__ import annotations

import tempfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te

from edgetune.codegen import emit_kernel
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from edgetune.target.target import load_target
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.examples import costly
from tests.sketch_samples import prim_func

CHANNELS_LAST = (0, 2, 3, 1)


def transposed(shape: tuple[int, ...], order: tuple[int, ...]) -> Any:
    """The axis `n` of the result is the axis `order[n]` of x."""
    x = te.placeholder(shape, name="x")

    def value(*place: Any) -> Any:
        return x(*(place[order.index(axis)] for axis in range(len(shape))))

    return prim_func([x], te.compute([shape[axis] for axis in order], value, "y"))


def source_of(shape: tuple[int, ...], order: tuple[int, ...], bits: int) -> Any:
    function, target = transposed(shape, order), wide_target(bits)
    return emit_kernel(replay(function, default_trace(function, target)[0]), target, "k"), target


def check(shape: tuple[int, ...], order: tuple[int, ...], bits: int, folder: Path, cc: str = "gcc") -> None:
    source, target = source_of(shape, order, bits)
    values = np.arange(prod(shape), dtype=np.float32).reshape(shape)
    wanted = values.transpose(order)
    found = run_kernel(source, target, [values, np.zeros_like(wanted, order="C")], folder, cc=cc, extra=SANITIZERS)[-1]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
@pytest.mark.parametrize("bits", [512, 256, 128])
@pytest.mark.parametrize(
    ("shape", "order", "kind"),
    [
        ((31, 45), (1, 0), "transpose"),
        ((13, 300), (1, 0), "transpose"),
        ((70, 133), (1, 0), "transpose"),
        ((2, 9, 5, 8), CHANNELS_LAST, "transpose"),
        ((2, 5, 8, 9), (0, 3, 1, 2), "transpose"),
        ((50, 3), (1, 0), "split"),
        ((3, 50), (1, 0), "join"),
    ],
)
def test_a_copy_is_a_call(
    shape: tuple[int, ...], order: tuple[int, ...], kind: str, bits: int, cc: str, tmp_path: Path
) -> None:
    """Pixels are one axis; sanitizers and exact results show that no edge is lost."""
    source, target = source_of(shape, order, bits)
    assert kind in source.definition
    assert source.definition.count("for (") == len(shape) // 4, "rows and columns are no loops"
    compile_strictly(source, target, tmp_path, cc)
    check(shape, order, bits, tmp_path, cc)


@pytest.mark.parametrize(
    ("shape", "order", "kinds"),
    [
        ((1024, 20), (1, 0), {512: "runs_f32x8", 256: "runs_f32x8", 128: "transpose_f32x4"}),
        ((1024, 70), (1, 0), {512: "runs_f32x16", 256: "runs_f32x8", 128: "transpose_f32x4"}),
        ((512, 40), (1, 0), {512: "runs_f32x16", 256: "transpose_f32x8"}),
        ((9, 1024, 20), (2, 1, 0), {512: "runs_f32x8", 256: "runs_f32x8"}),
        ((25, 512, 20), (2, 1, 0), {512: "runs_f32x16", 256: "transpose_f32x8"}),
        ((1024, 12), (1, 0), {512: "transpose_f32x8", 256: "transpose_f32x8"}),
        ((1040, 40), (1, 0), {512: "transpose_f32x16", 256: "transpose_f32x8"}),
    ],
)
def test_rows_that_share_sets_of_the_cache_are_written_in_runs(
    shape: tuple[int, ...], order: tuple[int, ...], kinds: dict[int, str], tmp_path: Path
) -> None:
    """Rows of the result that are multiples of 4 KiB apart, or of 2 KiB where 64 rows would take turns."""
    for bits, kind in kinds.items():
        source, _ = source_of(shape, order, bits)
        assert f"{kind}(&" in source.definition
        folder = tmp_path / str(bits)
        folder.mkdir()
        check(shape, order, bits, folder)


@pytest.mark.long
@costly(15)
@given(
    st.lists(st.integers(1, 20), min_size=2, max_size=4),
    st.randoms(use_true_random=False),
    st.sampled_from([512, 256, 128]),
)
def test_all_orders_of_all_extents(extents: list[int], random: Any, bits: int) -> None:
    order = list(range(len(extents)))
    random.shuffle(order)
    with tempfile.TemporaryDirectory() as folder:
        check(tuple(extents), tuple(order), bits, Path(folder))


@pytest.mark.long
@costly(15)
@given(st.integers(2, 80), st.integers(2, 40), st.sampled_from([512, 256, 128]))
def test_all_matrices(rows: int, columns: int, bits: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check((rows, columns), (1, 0), bits, Path(folder))


@pytest.mark.parametrize("board", ["generic-aarch64", "generic-armv7", "generic-riscv64"])
@pytest.mark.parametrize(("shape", "order"), [((21, 13), (1, 0)), ((50, 3), (1, 0)), ((3, 50), (1, 0))])
def test_other_machines_agree(shape: tuple[int, int], order: tuple[int, int], board: str, tmp_path: Path) -> None:
    """Vectors of four lanes, of which GCC alone makes shuffles; RISC-V without vectors has loops."""
    target, function = load_target(board), transposed(shape, order)
    source = emit_kernel(replay(function, default_trace(function, target)[0]), target, "k")
    values = np.arange(prod(shape), dtype=np.float32).reshape(shape)
    wanted = values.transpose(order)
    compile_strictly(source, target, tmp_path, target.compiler.cc)
    found = run_kernel(source, target, [values, np.zeros_like(wanted, order="C")], tmp_path)[-1]
    np.testing.assert_array_equal(found, wanted)
