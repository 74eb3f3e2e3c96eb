"""The rule by which an output is right: tolerance, special values, exact integers, and few elements a step off."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from edgetune.graph.accuracy import Tolerance, compare


@given(arrays.arrays(np.float32, 20, elements=st.floats(-100, 100, width=32)), st.integers(0, 19), st.floats(0.001, 10))
def test_differences_are_measured_against_the_largest(values: np.ndarray, where: int, error: float) -> None:
    changed = values.astype(np.float64)
    changed[where] += error
    largest = float(np.max(np.abs(values)))
    found = compare(changed, values.astype(np.float64), Tolerance(relative=1e-4))
    assert found.absolute == pytest.approx(error, rel=1e-6)
    assert found.allowed == (found.absolute <= 1e-4 * largest)


def test_special_values_must_be_where_the_reference_has_them() -> None:
    reference = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
    tolerance = Tolerance(relative=1e-4)
    assert compare(reference.copy(), reference, tolerance).allowed
    for index in range(4):
        for wrong in (np.nan, np.inf, -np.inf, 2.0):
            other = reference.copy()
            other[index] = wrong
            same = np.array_equal(other, reference, equal_nan=True)
            assert compare(other, reference, tolerance).allowed == same


def test_integers_are_exact_unless_said() -> None:
    reference = np.array([1, 2, 2**62], np.int64)
    assert compare(reference.copy(), reference, Tolerance()).allowed
    assert not compare(reference + np.array([0, 0, 1]), reference, Tolerance()).allowed
    steps = np.array([1, 127], np.int8)
    assert compare(steps - np.int8(1), steps, Tolerance(absolute=1.0)).allowed
    assert not compare(steps - np.int8(2), steps, Tolerance(absolute=1.0)).allowed


def test_only_few_elements_may_be_a_step_off() -> None:
    reference = np.arange(100, dtype=np.int8)
    tolerance = Tolerance(absolute=1.0, share=0.02)
    for off, allowed in ((0, True), (2, True), (3, False), (100, False)):
        changed = reference.copy()
        changed[:off] += 1
        assert compare(changed, reference, tolerance).allowed == allowed


def test_a_bool_is_nought_or_one() -> None:
    reference = np.array([True, False])
    assert compare(np.array([1, 0], np.uint8).view(np.bool_), reference, Tolerance()).allowed
    assert not compare(np.array([2, 0], np.uint8).view(np.bool_), reference, Tolerance()).allowed


def test_empty_outputs_agree() -> None:
    nothing = np.zeros((0, 3), np.float32)
    assert compare(nothing, nothing, Tolerance()).allowed


def test_the_bound_is_the_larger_part_and_not_their_sum() -> None:
    reference = np.array([10.0, 0.0])
    tolerance = Tolerance(relative=0.1, absolute=0.5)
    assert compare(reference + 1.0, reference, tolerance).bound == 1.0
    assert compare(reference + 1.0, reference, tolerance).allowed
    assert not compare(reference + 1.25, reference, tolerance).allowed


@pytest.mark.parametrize("special", [[], [np.nan, np.inf]])
def test_a_reference_of_zeros_counts_as_if_its_largest_value_were_one(special: list[float]) -> None:
    reference = np.array([0.0, -0.0, *special])
    found = compare(reference + 1e-5, reference, Tolerance(relative=1e-4))
    assert (found.allowed, found.bound) == (True, 1e-4)
    assert found.relative == pytest.approx(1e-5)
    assert not compare(reference + 2e-4, reference, Tolerance(relative=1e-4)).allowed


def test_integers_are_counted_in_steps_beyond_the_precision_of_double() -> None:
    reference = np.array([2**63 + 2**62], np.uint64)
    for step, allowed in ((1, True), (2, False)):
        found = compare(reference + np.uint64(step), reference, Tolerance(absolute=1.0))
        assert (found.absolute, found.allowed) == (step, allowed)
    ends = np.array([-(2**63), 2**63 - 1], np.int64)
    assert compare(ends, ends[::-1], Tolerance()).absolute == 2.0**64


def test_an_error_beyond_the_largest_double_is_never_allowed() -> None:
    reference = np.array([1.7e308])
    assert not compare(-reference, reference, Tolerance(relative=2.0)).allowed


def test_a_process_that_compares_needs_no_compiler() -> None:
    code = "import edgetune.graph.accuracy, sys; sys.exit('tvm' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
