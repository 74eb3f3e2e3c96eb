"""Sums of very many terms: right in every schedule, or refused; the sums that a reference takes are in double."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx

import edgetune
from edgetune.errors import WrongResult
from edgetune.frontend.tensor_expression.kernel import kernel_from_te
from edgetune.graph.long_sums import scratch_of_parts, split_long_sums
from edgetune.records import RecordStore
from edgetune.schedule.algorithms.overlapped_tail.tiles import whole_vectors_algorithm
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.kernel_spec import kernel_spec
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.schedule.source import make_source
from tests.sketch_samples import board

MANY = 1 << 20


def squares(shape: tuple[int, ...], axes: tuple[int, ...]) -> tirx.PrimFunc:
    x = te.placeholder(shape, "float32", "x")
    summed = {axis: te.reduce_axis((0, shape[axis]), f"k{axis}") for axis in axes}

    def total(*kept: tirx.Var) -> te.Tensor:
        rest = iter(kept)
        index = [summed[axis] if axis in summed else next(rest) for axis in range(len(shape))]
        return te.sum(x[tuple(index)] * x[tuple(index)], axis=list(summed.values()))

    out = tuple(extent for axis, extent in enumerate(shape) if axis not in summed)
    return te.create_prim_func([x, te.compute(out, total, "total")])


def as_written(function: tirx.PrimFunc, x: np.ndarray, out: tuple[int, ...]) -> np.ndarray:
    """What `function` computes in float32 as it stands."""
    result = tvm.runtime.tensor(np.zeros(out, np.float32))
    tvm.compile(tvm.IRModule({"main": function}), target="llvm")["main"](tvm.runtime.tensor(x), result)
    return np.asarray(result.numpy())


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((MANY,), (0,)),
        ((1, MANY), (1,)),
        ((1, 3, 512, 1024), (2, 3)),
        ((6, 50, 1000), (0, 1, 2)),
        ((31, 300, 301), (1, 2)),
        ((MANY, 4), (0,)),
        ((1 << 18, 2, 8), (0,)),
        ((4, MANY), (1,)),
        ((1000003,), (0,)),
        ((100003, 2), (0,)),
        ((100003, 7), (0,)),
        ((66003, 65), (0,)),
        ((300, 300, 31), (0, 1)),
        ((300, 31, 301), (0, 2)),
        ((70001, 3), (0, 1)),
        ((70001, 5, 1), (0,)),
    ],
)
def test_parts_of_a_long_sum_are_right(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Columns that no vector divides, and numbers of terms without divisors among them."""
    function, x = squares(shape, axes), np.random.default_rng(0).random(shape, np.float32)
    exact = (x.astype(np.float64) ** 2).sum(axes)
    before, after = (as_written(one, x, exact.shape) for one in (function, split_long_sums(function)))
    off = float(np.abs(after / exact - 1).max())
    assert off < 1e-6
    assert off < float(np.abs(before / exact - 1).max()) / 4


def test_diagonals_and_axes_that_begin_later_are_summed_as_they_are() -> None:
    """x[k, i, i] has no row of 9 elements, and a sum from 3 on leaves the first three rows out."""
    x = np.random.default_rng(0).random((30000, 3, 3), np.float32)
    tensor, k, i = te.placeholder(x.shape, name="x"), te.reduce_axis((0, 30000), "k"), te.reduce_axis((0, 3), "i")
    trace = te.compute((1,), lambda _: te.sum(tensor[k, i, i], axis=[k, i]), "trace")
    answer = as_written(split_long_sums(te.create_prim_func([tensor, trace])), x, (1,))
    assert np.abs(answer / np.einsum("kii->", x.astype(np.float64)) - 1).max() < 1e-6
    y = 1000.0 * (np.arange(100003) < 3).astype(np.float32)[:, None] + np.ones((1, 7), np.float32)
    tensor, k = te.placeholder(y.shape, name="x"), te.reduce_axis((3, 100003), "k")
    later = te.compute((7,), lambda j: te.sum(tensor[k, j], axis=k), "later")
    answer = as_written(split_long_sums(te.create_prim_func([tensor, later])), y, (7,))
    assert np.abs(answer / 100000 - 1).max() < 1e-6


def products(rows: int, columns: int) -> tirx.PrimFunc:
    x, y = (te.placeholder((100000, width), name=name) for name, width in (("x", rows), ("y", columns)))
    k = te.reduce_axis((0, 100000), "k")
    z = te.compute((rows, columns), lambda i, j: te.sum(x[k, i] * y[k, j], axis=k), "z")
    return te.create_prim_func([x, y, z])


def test_products_of_a_few_odd_columns_are_divided_where_their_vectors_overlap() -> None:
    """Parts of 7 columns have no lanes; 7 columns as two vectors of 4 that overlap have."""
    function = products(7, 7)
    assert split_long_sums(function) is function
    vectors = whole_vectors_algorithm(function, "vectors_128")
    assert vectors is not None
    shapes = [list(map(int, buffer.shape)) for buffer in vectors.function.body.block.alloc_buffers]
    assert sorted(shapes) == [[7, 8], [200, 7, 8]]
    x, y = (np.random.default_rng(seed).random((100000, 7), np.float32) for seed in (0, 1))
    result = tvm.runtime.tensor(np.zeros((7, 7), np.float32))
    tvm.compile(tvm.IRModule({"main": vectors.function}), target="llvm")["main"](
        tvm.runtime.tensor(x), tvm.runtime.tensor(y), result
    )
    assert np.abs(result.numpy() / (x.T.astype(np.float64) @ y) - 1).max() < 1e-6


@pytest.mark.parametrize(("rows", "columns"), [(1, 7), (1, 65), (4, 127)])
def test_products_of_one_row_or_many_odd_columns_are_divided(rows: int, columns: int) -> None:
    assert split_long_sums(products(rows, columns)).body.block.alloc_buffers


@pytest.mark.parametrize(("shape", "divided"), [((3000, 3), True), ((1021, 7), False), ((3000, 64), False)])
def test_short_rows_become_wide_from_1024_rows_on(shape: tuple[int, int], divided: bool) -> None:
    """Rows of 64 columns fill vectors as they are."""
    function, x = squares(shape, (0,)), np.random.default_rng(0).random(shape, np.float32)
    made = split_long_sums(function)
    assert (made is not function) == divided
    exact = np.square(x, dtype=np.float64).sum(0)
    assert np.abs(as_written(made, x, exact.shape) / exact - 1).max() < 1e-5


def test_equal_terms_are_summed_within_the_promise() -> None:
    """All roundings have one direction: one accumulator of a million terms is off by 1e-2."""
    x = np.full((1000003, 3), 0.1, np.float32)
    exact = np.square(x, dtype=np.float64).sum(0)
    answer = as_written(split_long_sums(squares(x.shape, (0,))), x, exact.shape)
    assert np.abs(answer / exact - 1).max() < 1e-5


@pytest.mark.parametrize(
    ("shape", "axis", "between"),
    [
        ((16, MANY), 1, [[16, 2048], [16, 4]]),
        ((MANY, 16), 0, [[512, 64], [64]]),
        ((1 << 16, 100), 0, [[128, 100]]),
        ((100003, 7), 0, [[25, 56], [56], [7], [7]]),
    ],
    ids=["rows", "columns", "wide rows of results", "columns that fill no vector"],
)
def test_parts_follow_the_order_in_memory(shape: tuple[int, ...], axis: int, between: list[list[int]]) -> None:
    """Rows are summed by lanes along the terms, one part after the other; columns lie side by side in each part.

    Eight rows of seven columns are one row of 56, and three rows that are left over have a sum of their own.
    """
    buffers = split_long_sums(squares(shape, (axis,))).body.block.alloc_buffers
    assert [list(map(int, buffer.shape)) for buffer in buffers] == between


@pytest.mark.parametrize("width", [2, 4, 7, 31, 65, 127])
def test_parts_of_columns_are_added_by_vectors_and_never_stored_together(width: int) -> None:
    x, k = te.placeholder((100003, width), name="x"), te.reduce_axis((0, 100003), "k")
    kernel = kernel_from_te([x, te.compute((width,), lambda i: te.sum(x[k, i], axis=k), "total")], "columns")
    trace = default_trace(kernel.function, board(512, 32), kernel.scratch)[0]
    source = make_source(kernel_spec(kernel, 0), trace, board(512, 32))
    assert "Vectorize" in trace
    assert source.scratch_bytes < 4096  # a row or two: all parts take 25 of them and more


def test_rows_of_parts_have_room_where_an_arena_has_none() -> None:
    """Else the parts of a model's wide columns are stored together, in plain loops."""
    divided = split_long_sums(squares((100003, 127), (0,)))
    assert default_trace(divided, board(512, 32), scratch_of_parts(divided))[1] == "row by row"
    assert scratch_of_parts(divided) < 1 << 15
    assert scratch_of_parts(squares((1000,), (0,))) == 0


def test_a_stage_has_no_parts_because_of_its_name() -> None:
    x, k = te.placeholder((64, 64), name="x"), te.reduce_axis((0, 64), "k")
    named = te.compute((64, 64), lambda i, j: x[i, j] + 1.0, "x_parts")
    total = te.compute((64,), lambda i: te.sum(named[i, k], axis=k), "total")
    assert scratch_of_parts(te.create_prim_func([x, total])) == 0


@pytest.mark.parametrize(
    "unchanged",
    [squares((1000,), (0,)), squares((1000, 4), (0,)), squares((1 << 15, 64), (0,))],
    ids=["a short sum", "short sums of columns", "sums of wide rows"],
)
def test_other_sums_stay_as_they_are(unchanged: tirx.PrimFunc) -> None:
    assert split_long_sums(unchanged).same_as(unchanged)


def test_a_reduction_that_cannot_be_divided_keeps_its_loops() -> None:
    """The largest magnitude by a reducer of one's own, beside a sum."""
    own = te.comm_reducer(lambda a, b: te.max(a, te.abs(b)), lambda kind: tirx.const(0, kind), name="magnitude")
    x = te.placeholder((512, 512), name="x")

    def of_all(reducer: Callable[..., Any], name: str) -> te.Tensor:
        rows, columns = (te.reduce_axis((0, 512), f"{name}_{n}") for n in range(2))
        return te.compute((1,), lambda _: reducer(x[rows, columns], axis=[rows, columns]), name)

    largest, total = of_all(own, "largest"), of_all(te.sum, "total")
    function = te.create_prim_func([x, te.compute((1,), lambda i: total[i] / largest[i], "share")])
    divided = analyse_blocks(split_long_sums(function))
    assert divided is not None
    assert len(divided.stages) == 4


@pytest.mark.long
def test_every_candidate_of_a_million_squares_is_right_and_so_is_its_package(tmp_path: Path) -> None:
    def sum_of_squares(x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, MANY), name="k")
        return te.compute((1,), lambda _: te.sum(x[k] * x[k], axis=k), name="total")

    edgetune.tune(
        sum_of_squares,
        {"x": ((MANY,), "float32")},
        name="squares",
        trials=4,
        db=tmp_path / "records.db",
        out=tmp_path / "squares",
    )
    with RecordStore.open(tmp_path / "records.db") as store:
        found = [str(row["status"]) for row in store.list()]
    assert found
    assert set(found) <= {"ok", "refused_noisy"}  # on a noisy machine all may be refused
    done = subprocess.run(
        ["make", "-s", "-C", tmp_path / "squares", "selftest"], capture_output=True, text=True, check=True
    )
    assert done.stdout.rstrip().endswith("PASS")


@pytest.mark.long
def test_where_no_schedule_is_right_nothing_is_written(tmp_path: Path) -> None:
    """A sum that does not begin at 0 keeps one accumulator."""
    from_1 = te.comm_reducer(lambda a, b: a + b, lambda kind: tirx.const(1, kind), name="from_1")

    def sums_of_squares(x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, MANY), name="k")
        return te.compute((7, 7), lambda i, j: from_1(x[k % 64, i] * x[k % 64, j], axis=k), name="totals")

    with pytest.raises(
        WrongResult, match=r"kernel squares, departs first: .*; it has the default schedule, .*; nothing is written to "
    ):
        edgetune.tune(
            sums_of_squares,
            {"x": ((64, 7), "float32")},
            name="squares",
            trials=1,
            db=tmp_path / "records.db",
            out=tmp_path / "squares",
        )
    with RecordStore.open(tmp_path / "records.db") as store:
        assert [row["status"] for row in store.list()] == ["wrong_result"]
    assert [path.name for path in tmp_path.iterdir()] == ["records.db"]


def test_parts_read_both_of_two_tensors_of_one_name() -> None:
    """With the reads of one of them alone, schedules may compute the other one after its reader."""
    x, k = te.placeholder((2, 1 << 16), name="x"), te.reduce_axis((0, 1 << 16), "k")
    one = te.compute(x.shape, lambda i, j: x[i, j] + 1, "t")
    two = te.compute(x.shape, lambda i, j: x[i, j] * 2, "t")
    function = te.create_prim_func([x, te.compute((2,), lambda i: te.sum(one[i, k] * two[i, k], axis=k), "total")])
    found = analyse_blocks(split_long_sums(function))
    assert found is not None
    assert [len(stage.block.reads) for stage in found.stages] == [1, 1, 2, 1]
