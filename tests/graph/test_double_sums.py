"""Float sums of references are accumulated in double and rounded once; all else is computed as the kernel says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import te, tirx, topi

from edgetune.graph.accuracy import compare
from edgetune.graph.double_sums import in_double
from edgetune.graph.evaluate import evaluate
from edgetune.graph.program import Param
from edgetune.measure.jobs import ReferenceJob
from edgetune.measure.reference import make_case
from edgetune.schedule.kernel_spec import KernelSpec

MANY = 1 << 20
HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def total(count: int, dtype: str, term: Callable[[te.Tensor, tirx.Var], tirx.Expr]) -> tirx.PrimFunc:
    x = te.placeholder((count,), dtype, "x")
    k = te.reduce_axis((0, count), "k")
    return te.create_prim_func([x, te.compute((1,), lambda _: te.sum(term(x, k), axis=k), "total")])


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(HALVES.get(dtype, dtype))


def test_a_million_squares_are_summed_as_the_definition_says(tmp_path: Path) -> None:
    function = total(MANY, "float32", lambda x, k: x[k] * x[k])
    params = (Param("x", (MANY,), "float32", "input"), Param("total", (1,), "float32", "output"))
    spec = KernelSpec("k", "kernel", str(tvm.ir.save_json(function)), params, 0)
    case = make_case(spec, tmp_path, ReferenceJob("k", 0, {}))
    x, reference = (np.load(path) for path in case.arrays)
    squares = x * x
    assert reference.dtype == np.float32
    assert reference == np.float32(np.sum(squares, dtype=np.float64))
    assert case.tolerances[1] is not None
    pairwise, in_lanes = np.sum(squares, keepdims=True), squares.reshape(-1, 8).cumsum(0)[-1].sum(keepdims=True)
    for candidate in (pairwise, in_lanes):
        assert compare(candidate, reference, case.tolerances[1]).allowed
    wrong = np.sum(squares[:-1000], keepdims=True)
    assert not compare(wrong, reference, case.tolerances[1]).allowed


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_summed_in_double_and_rounded_once(dtype: str) -> None:
    x = normal(4096, dtype=dtype)
    found = evaluate(total(4096, dtype, lambda x, k: x[k]), [x], [((1,), dtype)])[0]
    assert found.dtype == HALVES[dtype]
    assert found[0] == np.sum(x.astype(np.float64)).astype(HALVES[dtype])


def test_a_chain_reads_each_sum_rounded_once() -> None:
    x = te.placeholder((4, 4096), "float32", "x")
    k, j = te.reduce_axis((0, 4096), "k"), te.reduce_axis((0, 4096), "j")
    sums = te.compute((4,), lambda i: te.sum(x[i, k], axis=k), "sums")
    mean = te.compute((4,), lambda i: sums[i] * tirx.const(1 / 4096, "float32"), "mean")
    apart = te.compute((4, 4096), lambda i, k: (x[i, k] - mean[i]) * (x[i, k] - mean[i]), "apart")
    variance = te.compute((4,), lambda i: te.sum(apart[i, j], axis=j), "variance")
    values = normal(4, 4096) + np.float32(1000)
    found = evaluate(te.create_prim_func([x, variance]), [values], [((4,), "float32")])[0]
    middle = values.sum(1, dtype=np.float64).astype(np.float32) * np.float32(1 / 4096)
    squares = (values - middle[:, None]) ** 2
    assert np.array_equal(found, squares.sum(1, dtype=np.float64).astype(np.float32))


def test_several_sums_of_one_reduction() -> None:
    x = te.placeholder((MANY,), "float32", "x")
    k = te.reduce_axis((0, MANY), "k")
    both = te.comm_reducer(
        lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda a, b: (tirx.const(0, a), tirx.const(0, b)), "both"
    )
    sums = te.compute((1,), lambda _: both((x[k], x[k] * x[k]), axis=k), "sums")
    values = np.abs(normal(MANY))
    outputs = [((1,), "float32"), ((1,), "float32")]
    found = evaluate(te.create_prim_func([x, *sums]), [values], outputs)
    for one, terms in zip(found, (values, values * values), strict=True):
        assert one == np.float32(terms.sum(dtype=np.float64))


def test_a_sum_that_its_kernel_gives_out_and_reads_again() -> None:
    x = te.placeholder((MANY,), "float32", "x")
    k = te.reduce_axis((0, MANY), "k")
    sums = te.compute((1,), lambda _: te.sum(x[k], axis=k), "sums")
    root = te.compute((1,), lambda i: tirx.sqrt(sums[i]), "root")
    values = np.abs(normal(MANY))
    found = evaluate(te.create_prim_func([x, sums, root]), [values], [((1,), "float32"), ((1,), "float32")])
    assert found[0] == np.float32(values.sum(dtype=np.float64))
    assert found[1] == np.sqrt(found[0])


def test_a_sum_too_large_for_its_type_is_infinite() -> None:
    x = np.full(4096, 60000, np.float16)
    found = evaluate(total(4096, "float16", lambda x, k: x[k]), [x], [((1,), "float16")])[0]
    assert np.isposinf(found[0])


@pytest.mark.parametrize(
    "unchanged",
    [
        total(64, "int32", lambda x, k: x[k] * x[k]),
        total(64, "float64", lambda x, k: x[k]),
        te.create_prim_func([(x := te.placeholder((4, 64), "float32", "x")), topi.max(x, 1)]),
        te.create_prim_func([(x := te.placeholder((4, 64), "float32", "x")), topi.argmax(x, 1)]),
        te.create_prim_func([(x := te.placeholder((4, 64), "float32", "x")), topi.prod(x, 1)]),
        te.create_prim_func([(x := te.placeholder((4, 64), "float32", "x")), topi.add(x, x)]),
    ],
    ids=["integers", "doubles", "maximum", "place of the maximum", "product", "no reduction"],
)
def test_what_is_no_narrow_float_sum_stays_as_it_is(unchanged: tirx.PrimFunc) -> None:
    assert in_double(unchanged).same_as(unchanged)
