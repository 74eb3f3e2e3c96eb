"""Compares an output with its reference: equal where both are special, close enough everywhere else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgetune.measure.jobs import Tolerance


@dataclass(frozen=True)
class Difference:
    """Largest absolute error, the same relative to the largest finite reference value, and whether it is allowed.

    Both errors are infinite when a NaN or an infinity is where the reference has none, or the other way round.
    """

    absolute: float
    relative: float
    allowed: bool


def compare(output: np.ndarray, reference: np.ndarray, tolerance: Tolerance) -> Difference:
    """Compare arrays of equal shape and dtype, elementwise."""
    if output.size == 0:
        return Difference(0.0, 0.0, allowed=True)
    if output.dtype == np.bool_:  # any byte but 0 and 1 is wrong as well
        return _compare(output.view(np.uint8), reference.view(np.uint8), Tolerance())
    return _compare(output, reference, tolerance)


def _compare(output: np.ndarray, reference: np.ndarray, tolerance: Tolerance) -> Difference:
    exact_integers = output.dtype.kind in "iu" and tolerance == Tolerance()
    if exact_integers and np.array_equal(output, reference):
        return Difference(0.0, 0.0, allowed=True)
    got, wanted = output.astype(np.float64), reference.astype(np.float64)
    finite = np.isfinite(wanted)
    special = ~finite
    if np.any(np.isfinite(got) != finite) or not np.array_equal(got[special], wanted[special], equal_nan=True):
        return Difference(float("inf"), float("inf"), allowed=False)
    if not np.any(finite):
        return Difference(0.0, 0.0, allowed=True)
    largest = float(np.max(np.abs(wanted[finite])))
    absolute = float(np.max(np.abs(got[finite] - wanted[finite])))
    if exact_integers:  # they differ, be it beyond the precision of a double
        return Difference(max(absolute, 1.0), absolute / max(largest, 1.0), allowed=False)
    relative = absolute / largest if largest > 0 else float(absolute > 0)
    allowed = absolute <= max(tolerance.absolute, tolerance.relative * largest)
    if allowed and tolerance.share < 1:
        off = int(np.count_nonzero(np.abs(got[finite] - wanted[finite]) > tolerance.relative * largest))
        allowed = off <= max(1.0, tolerance.share * wanted.size)
    return Difference(absolute, relative, allowed)
