"""The elements of a softmax are multiplied by the reciprocal of their sum; other divisors stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, topi

from edgetune.rewrites.normal_form import normal_form
from edgetune.rewrites.reciprocals import with_reciprocals
from tests.examples import costly
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func, random_arguments, run_plain


def softmax(shape: tuple[int, ...], axis: int = -1, dtype: str = "float32") -> Any:
    x = te.placeholder(shape, dtype, name="x")
    return normal_form(prim_func([x], topi.nn.softmax(x, axis=axis)), [])


def by_hand(shape: tuple[int, int], *, shift: int = 0, offset: float = 0.0, largest: bool = True) -> Any:
    """A softmax whose exponentials are written twice; or shares of other exponentials."""
    x = te.placeholder(shape, name="x")
    i, j = te.reduce_axis((0, shape[1] - shift), "i"), te.reduce_axis((0, shape[1]), "j")
    reduced = te.max if largest else te.min
    most = te.compute((shape[0],), lambda r: reduced(x[r, i + shift], axis=i), "most")
    total = te.compute((shape[0],), lambda r: te.sum(te.exp(x[r, j] - most[r] - offset), axis=j), "total")
    return normal_form(
        prim_func([x], te.compute(shape, lambda r, c: te.exp(x[r, c] - most[r] - offset) / total[r], "shares")), []
    )


def divides(function: Any) -> bool:
    return "reciprocal" not in str(with_reciprocals(function))


@pytest.mark.long
@costly(20)
@given(
    st.sampled_from([("float32", 3e-7), ("float64", 6e-16)]),
    st.lists(st.integers(3, 40), min_size=2, max_size=3),
    st.integers(0, 2),
    st.integers(1, 1000),
)
def test_a_softmax_stays_one(kind: tuple[str, float], extents: list[int], axis: int, seed: int) -> None:
    function = softmax(tuple(extents), axis % len(extents), kind[0])
    assert not divides(function)
    arrays = random_arguments(function, seed)
    arrays[0] *= 30
    found, wanted = run_plain(with_reciprocals(function), arrays), run_plain(function, arrays)
    np.testing.assert_allclose(found, wanted, rtol=kind[1], atol=1e-44)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_without_numbers_stay_so(value: float) -> None:
    function = softmax((3, 8))
    arrays = random_arguments(function)
    arrays[0][1, 2], arrays[0][2] = value, value
    found, wanted = run_plain(with_reciprocals(function), arrays), run_plain(function, arrays)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=3e-7)


def test_one_that_is_written_by_hand() -> None:
    assert not divides(by_hand((8, 20)))


@pytest.mark.parametrize(
    "function",
    [
        by_hand((8, 20), shift=1),
        by_hand((8, 20), offset=95.0),
        by_hand((8, 20), largest=False),
        softmax((30, 2)),
        softmax((8, 20), dtype="float16"),
    ],
    ids=["the largest of fewer", "another gap", "the smallest", "rows of two", "another type"],
)
def test_other_divisors_stay(function: Any) -> None:
    """Such a sum may be tiny, so that its reciprocal is infinite."""
    assert divides(function)


@pytest.mark.long
@costly(5)
@given(st.sampled_from([(8, 20), (70, 7), (9, 31)]), st.sampled_from([board(256, 16), board(128, 32)]))
def test_all_schedules_mean_the_same(shape: tuple[int, int], target: Any) -> None:
    assert check(with_reciprocals(softmax(shape)), target, 1) > 0
