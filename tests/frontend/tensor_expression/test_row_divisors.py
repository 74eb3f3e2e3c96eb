"""Elements that share a square root as divisor are multiplied by its reciprocal; other divisors stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te

from edgetune.frontend.tensor_expression.row_divisors import with_row_divisors
from tests.sketch_samples import prim_func, random_arguments, run_plain


def divided(shape: tuple[int, int], *, root: bool = True, own: bool = False, dtype: str = "float32") -> Any:
    """Rows over the root of one number each; `own`: over the root of each element."""
    x, d = te.placeholder(shape, dtype, "x"), te.placeholder(shape if own else shape[:1], dtype, "d")

    def value(i: Any, j: Any) -> Any:
        divisor = d[i, j] if own else d[i]
        return x[i, j] / (te.sqrt(divisor) if root else divisor)

    return prim_func([x, d], te.compute(shape, value, "divided"))


@settings(max_examples=10, deadline=None)
@given(st.tuples(st.integers(1, 9), st.integers(3, 20)), st.integers(-149, 127), st.integers(0, 99))
def test_rows_over_roots_of_any_size(shape: tuple[int, int], exponent: int, seed: int) -> None:
    function = divided(shape)
    assert "1.0" in str(with_row_divisors(function))
    arrays = random_arguments(function, seed)
    arrays[1] = np.ldexp(np.abs(arrays[1]) % 1 + 1, exponent).astype(np.float32)
    found, wanted = run_plain(with_row_divisors(function), arrays), run_plain(function, arrays)
    np.testing.assert_allclose(found, wanted, rtol=3e-7)


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, -1.0])
@pytest.mark.parametrize("element", [np.nan, np.inf, 0.0, 1.0])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_without_numbers_stay_so(value: float, element: float) -> None:
    function = divided((3, 4))
    arrays = random_arguments(function)
    arrays[0][1], arrays[1][:] = element, value
    found, wanted = run_plain(with_row_divisors(function), arrays), run_plain(function, arrays)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "function",
    [divided((8, 20), root=False), divided((8, 20), own=True), divided((8, 2)), divided((8, 20), dtype="float64")],
    ids=["no root", "a root for each element", "rows of two", "another type"],
)
def test_other_divisors_stay(function: Any) -> None:
    assert with_row_divisors(function).script() == function.script()
