"""Lanes of several sums join at once: exact for all numbers of results, wherever those lie."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te
from tvm.s_tir import Schedule

from edgetune.codegen import KernelSource, emit_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.schedule.sketches import module_of
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.sketch_samples import prim_func, random_arguments, run_plain

TERMS = {"sum": lambda x, axis: te.sum(x, axis=axis), "largest": lambda x, axis: te.max(x, axis=axis)}
TERMS["smallest"] = lambda x, axis: te.min(x, axis=axis)
NUMPY: dict[str, Any] = {"sum": np.sum, "largest": np.max, "smallest": np.min}
NAMES = sorted(TERMS)


def joined(word: str, rows: int, columns: int, lanes: int, order: str = "rows", dtype: str = "float32") -> Any:
    """Results in registers, each of two vectors of terms, stored in the `order` of rows, columns, or of two tiles."""
    x = te.placeholder((rows, columns, 2 * lanes), dtype, name="x")
    k = te.reduce_axis((0, 2 * lanes), name="k")
    y = te.compute((rows, columns), lambda i, j: TERMS[word](x[i, j, k], k), name="y")
    sch = Schedule(module_of(prim_func([x], y)))
    *_, terms = sch.get_loops(sch.get_sblock("y"))
    _, lane = sch.split(terms, [None, lanes])
    vectors = sch.rfactor(lane, 2)
    sch.set_scope(vectors, 0, "local")
    *results, steps, own = sch.get_loops(vectors)
    sch.reorder(steps, *results, own)
    sch.vectorize(own)
    i, j, _ = sch.get_loops(sch.get_sblock("y"))
    if order == "columns":
        sch.reorder(j, i)
    elif order == "tiles":
        tile, j = sch.split(j, [2, None])
        sch.reorder(tile, i, j)
        results.append(tile)
    for loop in (*results, i, j):
        sch.unroll(loop)
    sch.decompose_reduction(vectors, steps)
    return sch.mod


def source_of(module: Any, bits: int) -> KernelSource:
    return emit_kernel(module, wide_target(bits), "k")


@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("word", NAMES)
def test_each_result_has_its_own_lanes(word: str, bits: int, cc: str, tmp_path: Path) -> None:
    """Sums of whole numbers are exact, so no lane may be lost, or added twice, or to another result."""
    for rows, columns, order in ((1, 2, "rows"), (1, 9, "rows"), (3, 3, "columns")):
        source = source_of(joined(word, rows, columns, bits // 32, order), bits)
        assert f"@lanes_{word}_each_f32x{bits // 32}x" in source.definition
        compile_strictly(source, wide_target(bits), tmp_path, cc)
        x = np.random.default_rng(7).integers(-99, 99, (rows, columns, bits // 16)).astype("f4")
        wanted = NUMPY[word](x, axis=-1)
        arrays = [x, np.zeros(wanted.shape, "f4")]
        found = run_kernel(source, wide_target(bits), arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float64", "int32", "uint32", "int16", "uint8", "int8", "int64"])
@pytest.mark.parametrize("word", NAMES)
def test_lanes_of_all_types(word: str, dtype: str, tmp_path: Path) -> None:
    """Sums of integers wrap."""
    target = wide_target(256)
    lanes = 256 // (8 * np.dtype(dtype).itemsize)
    for rows, columns in ((1, 1), (1, 3), (2, 9)):
        source = source_of(joined(word, rows, columns, lanes, dtype=dtype), 256)
        assert f"@lanes_{word}_" in source.definition
        compile_strictly(source, target, tmp_path, "clang-19")
        ends = (-99, 99) if dtype == "float64" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        x = np.random.default_rng(7).integers(*ends, (rows, columns, 2 * lanes), endpoint=True).astype(dtype)
        wanted = np.asarray(x.sum(-1, dtype=dtype) if word == "sum" else NUMPY[word](x, axis=-1))
        arrays = [x, np.zeros(wanted.shape, dtype)]
        found = run_kernel(source, target, arrays, tmp_path, cc="clang-19", extra=SANITIZERS)[-1]
        np.testing.assert_array_equal(found, wanted)


def calls(text: str) -> list[int]:
    """How many vectors each call joins: the last ones of fewer than four stand twice."""
    found = re.findall(r"@lanes_sum_\w+\(([^)]*)\)", text)
    return [len(set(re.findall(r"&(?!sums)\w+", arguments))) for arguments in found]


@pytest.mark.parametrize(
    ("rows", "columns", "order", "wanted"),
    [
        (1, 1, "rows", [1]),
        (1, 4, "rows", [4]),
        (1, 5, "rows", [4, 1]),
        (3, 3, "rows", [8, 1]),
        (3, 3, "columns", [4, 4, 1]),
        (2, 6, "tiles", [3, 3, 3, 3]),
        (3, 4, "tiles", [4, 4, 4]),
        (1, 16, "tiles", [8, 8]),
    ],
)
def test_neighbours_join_together(rows: int, columns: int, order: str, wanted: list[int]) -> None:
    assert calls(source_of(joined("sum", rows, columns, 8, order), 256).definition) == wanted


def test_eight_vectors_of_four_lanes_join_by_four() -> None:
    assert calls(source_of(joined("sum", 1, 8, 4), 128).definition) == [4, 4]


def test_neighbours_are_stored_as_one_vector() -> None:
    for number in (4, 8):
        text = source_of(joined("sum", 1, number, 8), 256).definition
        assert re.search(rf"\*\(f32x{number}u \*\)&y\[\w+\] = sums;", text)
    assert "u *)&y[" not in source_of(joined("sum", 2, 4, 8, "columns"), 256).definition


def test_a_sum_is_not_added_to_the_zero_before_it() -> None:
    for rows in (1, 4):
        text = source_of(joined("sum", rows, 1, 8), 256).definition
        assert "= 0.0f" not in text
        assert "] + " not in text
    start = source_of(joined("largest", 1, 1, 8), 256).definition
    assert re.search(r"= @max_f32\(-\S+, @lanes_largest_f32x8\(", start), (
        "the least finite number counts for infinities"
    )


@pytest.mark.parametrize("bits", [256, 512])
def test_a_vector_that_no_register_holds_joins_alone(bits: int) -> None:
    """Lanes for vectors of twice the bits are two vectors of this target."""
    text = source_of(joined("sum", 1, 4, bits // 16), bits).definition
    assert "_each_" not in text
    assert f"@lanes_sum_f32x{bits // 32}(" in text


@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
@pytest.mark.parametrize(("shape", "terms", "bits"), [((2, 8, 4), 24, 256), ((2, 8, 4), 64, 512), ((3, 3, 4), 24, 256)])
def test_half_of_a_joined_vector_goes_to_narrower_registers(
    shape: tuple[int, ...], terms: int, bits: int, cc: str, tmp_path: Path
) -> None:
    """Eight neighbours join at once; what follows them reads rows of four."""
    x, k = te.placeholder((*shape, terms), name="x"), te.reduce_axis((0, terms), "k")
    y = te.compute(shape, lambda a, i, j: te.sum(x[a, i, j, k], axis=k), "y")
    function, target = prim_func([x], te.compute(shape, lambda a, i, j: y[a, i, j] * 2.0, "z")), wide_target(bits)
    trace = default_schedule(function, target, 0, FORMS)[0]
    source = emit_kernel(apply_schedule(function, trace).module, target, "k")
    compile_strictly(source, target, tmp_path, cc)
    arrays = random_arguments(function)
    result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, run_plain(function, arrays), rtol=1e-4, atol=1e-5)
