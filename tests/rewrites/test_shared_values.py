"""Values of a costly function that several stages compute are stored once, and mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from edgetune.codegen.operations import operations
from edgetune.rewrites.shared_values import with_shared_values
from edgetune.schedule.sketches.block_analysis import block_of
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func, random_arguments, run_plain


def stages(function: Any) -> list[str]:
    body = function.body.block.body
    return [str(block_of(one).name_hint) for one in (body.seq if isinstance(body, tirx.SeqStmt) else [body])]


def weighted_mean(size: int = 20, taps: int = 3) -> Any:
    """A mean of the pixels of a window, weighted by how near they are to the middle one."""
    x = te.placeholder((size + taps - 1, size + taps - 1), name="x")

    def weight(r: Any, c: Any, i: Any, j: Any) -> Any:
        gap = x[r + i, c + j] - x[r + taps // 2, c + taps // 2]
        return te.exp(gap * gap * -1.0)

    i, j, k, m = (te.reduce_axis((0, taps), name) for name in "ijkm")
    total = te.compute((size, size), lambda r, c: te.sum(weight(r, c, i, j), axis=[i, j]), "total")
    mixed = te.compute((size, size), lambda r, c: te.sum(weight(r, c, k, m) * x[r + k, c + m], axis=[k, m]), "mixed")
    return prim_func([x], te.compute((size, size), lambda r, c: mixed[r, c] / total[r, c], "mean"))


def softmax(*, axis: int = 1, rows: int = 12, columns: int = 30, other: bool = False) -> Any:
    """The exponential stands in the sum and in the elements; `other`: not of the same argument."""
    x = te.placeholder((rows, columns), name="x")
    k = te.reduce_axis((0, columns if axis else rows), "k")
    if axis:
        total = te.compute((rows,), lambda i: te.sum(te.exp(x[i, k]), axis=k), "total")
    else:
        total = te.compute((columns,), lambda j: te.sum(te.exp(x[k, j]), axis=k), "total")

    def share(i: Any, j: Any) -> Any:
        return te.exp(x[i, j] * 2.0 if other else x[i, j]) / total[i if axis else j]

    return prim_func([x], te.compute((rows, columns), share, "share"))


def guarded() -> Any:
    """An exponential that is computed under a condition, as its operand does not reach further."""
    x = te.placeholder((12, 20), name="x")
    k = te.reduce_axis((0, 30), "k")

    def power(i: Any, j: Any) -> Any:
        return tirx.if_then_else(j < 20, te.exp(x[i, j]), tirx.const(1.0, "float32"))

    total = te.compute((12,), lambda i: te.sum(power(i, k), axis=k), "total")
    return prim_func([x], te.compute((12, 30), lambda i, j: power(i, j) / total[i], "share"))


def twice_in_a_stage() -> Any:
    """A value that one stage computes twice, and another one once."""
    x = te.placeholder((12, 30), name="x")
    k = te.reduce_axis((0, 30), "k")
    total = te.compute((12,), lambda i: te.sum(te.exp(x[i, k]) * (te.exp(x[i, k]) + 1.0), axis=k), "total")
    return prim_func([x], te.compute((12, 30), lambda i, j: te.exp(x[i, j]) / total[i], "share"))


def large() -> Any:
    """More terms for each result than stay in L1, and more in all than stay in L2."""
    x, y = te.placeholder((2, 1 << 16), name="x"), te.placeholder((1 << 16,), name="y")
    k, m = te.reduce_axis((0, 1 << 16), "k"), te.reduce_axis((0, 1 << 16), "m")
    total = te.compute((2,), lambda i: te.sum(te.exp(x[i, k]), axis=k), "total")
    mixed = te.compute((2,), lambda i: te.sum(te.exp(x[i, m]) * y[m], axis=m), "mixed")
    return prim_func([x, y], te.compute((2,), lambda i: mixed[i] / total[i], "mean"))


@pytest.mark.parametrize(
    ("function", "most"),
    [
        (weighted_mean(), 100_000),  # 184,000 where each stage has its own
        (softmax(), 8_000),  # 15,120
        (softmax(axis=0), 8_000),  # 15,120
        (twice_in_a_stage(), 8_700),  # 23,040
        (softmax(other=True), 15_480),
        (guarded(), 15_120),
        (large(), 5_636_098),
    ],
    ids=["windows", "rows", "columns", "twice in a stage", "other values", "under a condition", "beyond L2"],
)
def test_values_of_a_function_are_computed_once(function: Any, most: int) -> None:
    changed = with_shared_values(function)
    assert operations(changed) <= most
    arrays = random_arguments(function)
    np.testing.assert_allclose(run_plain(changed, arrays), run_plain(function, arrays), rtol=1e-5, atol=1e-5)


def test_values_beyond_a_cache_stay() -> None:
    function = large()
    assert with_shared_values(function).same_as(function)


def test_rows_of_a_stored_value_are_contiguous() -> None:
    """Vectors run across the columns of the results, not along a window of three pixels."""
    stored = next(one for one in with_shared_values(weighted_mean()).body.block.alloc_buffers if "terms" in one.name)
    assert [int(extent) for extent in stored.ty.shape] == [20, 3, 3, 20]


def test_a_name_that_is_taken() -> None:
    x = te.placeholder((12, 30), name="x")
    k = te.reduce_axis((0, 30), "k")
    taken = te.compute((12,), lambda i: te.sum(te.exp(x[i, k]), axis=k), "share_terms")
    share = te.compute((12, 30), lambda i, j: te.exp(x[i, j]) / taken[i], "share")
    names = stages(with_shared_values(prim_func([x], share)))
    assert len(names) == len({*names, "share", "share_terms"}) == 3


@pytest.mark.long
@pytest.mark.parametrize("target", [board(256, 16), board(512, 32), board(128, 32)])
def test_all_schedules_mean_the_same(target: Any) -> None:
    for function in (weighted_mean(), weighted_mean(13, 4), softmax(), softmax(axis=0), twice_in_a_stage()):
        assert check(with_shared_values(function), target, 1) > 0
