"""The reference has a result for all operands of divisions, conversions and fmod: that of the C of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from edgetune.graph import evaluate
from edgetune.graph.evaluate import ReferenceFunction


@pytest.fixture(autouse=True, params=[0, 1 << 62], ids=["optimised", "unoptimised"])
def few_iterations(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM optimises functions of more iterations."""
    monkeypatch.setattr(evaluate, "_FEW_ITERATIONS", request.param)


def evaluated(value: Callable[..., Any], *arrays: np.ndarray, dtype: str) -> np.ndarray:
    """`value` of the elements of `arrays`."""
    tensors = [te.placeholder(array.shape, str(array.dtype), f"x{n}") for n, array in enumerate(arrays)]
    out = te.compute(arrays[0].shape, lambda i: value(*(tensor[i] for tensor in tensors)), "out")
    reference = ReferenceFunction(te.create_prim_func([*tensors, out]))
    return reference.run(list(arrays), [(arrays[0].shape, dtype)])[0]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (te.floordiv, [None, 0, 0, 3, -4, -2, -3]),
        (te.truncdiv, [None, 0, 0, 3, -3, -1, -3]),
        (te.floormod, [0, 0, 0, 1, 1, -1, 0]),
        (te.truncmod, [0, 0, 0, 1, -1, 2, 0]),
    ],
)
def test_divisions_by_zero_and_minus_one(value: Callable[..., Any], wanted: list[int | None], dtype: str) -> None:
    least = int(np.iinfo(dtype).min)
    a, b = (np.array(row, dtype) for row in ([least, least, 7, 7, -7, 5, 3], [-1, 0, 0, 2, 2, -3, -1]))
    expected = [least if one is None else one for one in wanted]
    np.testing.assert_array_equal(evaluated(value, a, b, dtype=dtype), np.array(expected, dtype))


def test_divisions_of_unsigned_numbers() -> None:
    a, b = np.array([7, 255, 200], "uint8"), np.array([0, 255, 3], "uint8")
    np.testing.assert_array_equal(evaluated(te.floordiv, a, b, dtype="uint8"), np.array([0, 1, 66], "uint8"))
    np.testing.assert_array_equal(evaluated(te.floormod, a, b, dtype="uint8"), np.array([0, 0, 2], "uint8"))


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
def test_floats_that_no_integer_holds_saturate(dtype: str, source: str) -> None:
    limits = np.iinfo(dtype)
    values = [np.nan, np.inf, -np.inf, -1.5, 1.5, 100.75, -100.25, 6e4, -6e4]
    wanted = [0, limits.max, limits.min, *(min(max(int(value), limits.min), limits.max) for value in values[3:])]
    got = evaluated(lambda x: x.astype(dtype), np.array(values, source), dtype=dtype)
    np.testing.assert_array_equal(got, np.array(wanted, dtype))


def test_the_remainder_of_floats() -> None:
    x = np.array([-1.5, 1.5, 300.7, -300.2, 1e10, 0.0], "float32")
    got = evaluated(lambda one: te.fmod(one, tirx.const(3.0, "float32")), x, dtype="float32")
    np.testing.assert_array_equal(got, np.fmod(x, np.float32(3)))


def test_iterations_of_all_blocks_count() -> None:
    x = te.placeholder((4, 5), "float32", "x")
    k = te.reduce_axis((0, 5), "k")
    total = te.compute((4,), lambda i: te.sum(x[i, k], axis=k), "total")
    out = te.compute((4,), lambda i: total[i] * 2.0, "out")
    assert evaluate._iterations(te.create_prim_func([x, out])) == 4 * 5 + 4 + 1  # the root is a block as well
