"""Compares an output with its reference: NaN and infinity must be equal, other values must be within the tolerance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgetune.boards.protocol import Tolerance


@dataclass(frozen=True)
class OutputError:
    """The largest absolute error, that error relative to the largest finite reference value, and whether it is allowed.

    Both errors are infinite when a NaN or an infinity is where the reference has none, or the other way round.
    """

    absolute: float
    relative: float
    allowed: bool


def compare(output: np.ndarray, reference: np.ndarray, tolerance: Tolerance) -> OutputError:
    """Compare arrays of equal shape and dtype, elementwise."""
    if output.size == 0:
        return OutputError(0.0, 0.0, allowed=True)
    if output.dtype == np.bool_:  # any byte except 0 and 1 is wrong too
        return _compare(output.view(np.uint8), reference.view(np.uint8), Tolerance())
    return _compare(output, reference, tolerance)


def _compare(output: np.ndarray, reference: np.ndarray, tolerance: Tolerance) -> OutputError:
    exact_integers = output.dtype.kind in "iu" and tolerance == Tolerance()
    if exact_integers and np.array_equal(output, reference):
        return OutputError(0.0, 0.0, allowed=True)
    got, wanted = output.astype(np.float64), reference.astype(np.float64)
    finite = np.isfinite(wanted)
    special = ~finite
    if np.any(np.isfinite(got) != finite) or not np.array_equal(got[special], wanted[special], equal_nan=True):
        return OutputError(float("inf"), float("inf"), allowed=False)
    if not np.any(finite):
        return OutputError(0.0, 0.0, allowed=True)
    largest = float(np.max(np.abs(wanted[finite])))
    absolute = float(np.max(np.abs(got[finite] - wanted[finite])))
    if exact_integers:  # they differ, even if a double cannot represent the difference
        return OutputError(max(absolute, 1.0), absolute / max(largest, 1.0), allowed=False)
    relative = absolute / largest if largest > 0 else float(absolute > 0)
    allowed = absolute <= max(tolerance.absolute, tolerance.relative * largest)
    if allowed and tolerance.share < 1:
        off = int(np.count_nonzero(np.abs(got[finite] - wanted[finite]) > tolerance.relative * largest))
        allowed = off <= max(1.0, tolerance.share * wanted.size)
    return OutputError(absolute, relative, allowed)
