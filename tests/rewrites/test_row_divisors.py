"""Elements that share a divisor are multiplied by its reciprocal, with results of any size; other divisors stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.rewrites.row_divisors import with_row_divisors
from tests.examples import costly
from tests.schedule.test_sketches import check
from tests.sketch_samples import board, prim_func, random_arguments, run_plain


def divided(shape: tuple[int, int], *, root: bool = True, own: bool = False, dtype: str = "float32") -> Any:
    """Rows over the root of one number each; `own`: over the root of each element."""
    x, d = te.placeholder(shape, dtype, "x"), te.placeholder(shape if own else shape[:1], dtype, "d")

    def value(i: Any, j: Any) -> Any:
        divisor = d[i, j] if own else d[i]
        return x[i, j] / (te.sqrt(divisor) if root else divisor)

    return prim_func([x, d], te.compute(shape, value, "divided"))


@costly(10)
@given(st.tuples(st.integers(1, 9), st.integers(3, 20)), st.integers(-149, 127), st.integers(0, 99))
def test_rows_over_roots_of_any_size(shape: tuple[int, int], exponent: int, seed: int) -> None:
    function = divided(shape)
    assert "1.0" in str(with_row_divisors(function))
    arrays = random_arguments(function, seed)
    arrays[1] = np.ldexp(np.abs(arrays[1]) % 1 + 1, exponent).astype(np.float32)
    found, wanted = run_plain(with_row_divisors(function), arrays), run_plain(function, arrays)
    np.testing.assert_allclose(found, wanted, rtol=3e-7)


# Of each type: the exponents of its least and largest numbers, and two and a half units in the last place.
TYPES = {"float32": (-149, 128, 3e-7), "float64": (-1074, 1024, 6e-16)}


def values_of_any_size(dtype: str, seed: int, *shape: int) -> np.ndarray:
    generator, (least, most, _) = np.random.default_rng(seed), TYPES[dtype]
    return np.ldexp(generator.uniform(1, 2, shape), generator.integers(least, most, shape)).astype(dtype)


@pytest.mark.long
@costly(20)
@given(
    st.sampled_from([*TYPES]), st.tuples(st.integers(1, 40), st.integers(64, 90)), st.booleans(), st.integers(0, 9999)
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_over_divisors_of_any_size(dtype: str, shape: tuple[int, int], root: bool, seed: int) -> None:
    """Also tiny divisors, whose reciprocal is infinite, and huge ones, whose reciprocal loses bits."""
    function = divided(shape, root=root, dtype=dtype)
    assert with_row_divisors(function).script() != function.script()
    arrays = random_arguments(function, seed)
    arrays[0], arrays[1] = values_of_any_size(dtype, seed, *shape), values_of_any_size(dtype, seed + 1, shape[0])
    if not root:
        arrays[1] = -arrays[1]
    found, wanted = run_plain(with_row_divisors(function), arrays), run_plain(function, arrays)
    np.testing.assert_allclose(found, wanted, rtol=TYPES[dtype][2], atol=3 * float(np.finfo(dtype).smallest_subnormal))


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, -1.0])
@pytest.mark.parametrize("element", [np.nan, np.inf, 0.0, 1.0])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_without_numbers_stay_so(value: float, element: float, root: bool) -> None:
    function = divided((3, 64), root=root)
    arrays = random_arguments(function)
    arrays[0][1], arrays[1][:] = element, value
    found, wanted = run_plain(with_row_divisors(function), arrays), run_plain(function, arrays)
    np.testing.assert_array_equal(found, wanted)


def guarded() -> Any:
    """A divisor that is outside of its tensor at the first row, where a condition does not hold."""
    x, d = te.placeholder((9, 70), name="x"), te.placeholder((8,), name="d")
    return prim_func(
        [x, d],
        te.compute((9, 70), lambda i, j: tirx.if_then_else(i > 0, x[i, j] / d[i - 1], x[i, j]), "divided"),
    )


def by_one() -> Any:
    x, d = te.placeholder((9, 70), name="x"), te.placeholder((1,), name="d")
    return prim_func([x, d], te.compute((9, 70), lambda i, j: x[i, j] / d[0], "divided"))


@pytest.mark.parametrize(
    "function",
    [
        guarded(),
        by_one(),
        divided((8, 63), root=False),
        divided((8, 70), own=True),
        divided((8, 70), own=True, root=False),
        divided((8, 2)),
        divided((8, 70), dtype="float16"),
        divided((8, 70), root=False, dtype="float16"),
    ],
    ids=[
        "guarded",
        "one for all",
        "short rows",
        "a root for each element",
        "an own divisor",
        "rows of two",
        "another type",
        "another divisor",
    ],
)
def test_other_divisors_stay(function: Any) -> None:
    assert with_row_divisors(function).script() == function.script()


@pytest.mark.parametrize("target", [board(256, 16), board(512, 32), board(128, 32)])
def test_all_schedules_mean_the_same(target: Any) -> None:
    for function in (divided((8, 20)), divided((9, 70), root=False)):
        assert check(with_row_divisors(function), target, 1) > 0
