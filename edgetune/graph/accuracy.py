"""Accuracy of outputs: how far one may be from its reference, and the comparison of both, for kernels and packages.

The self-test of a package and the agent on a board have the same rule in C (`templates/accuracy.h`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

FLOAT_TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-4, "float64": 1e-4}
"""Allowed error relative to the largest element, by dtype. For the 16-bit types it is about four units in the last
place."""


@dataclass(frozen=True)
class Tolerance:
    """How far an output may be from its reference; exact unless said otherwise.

    No element may be further off than `absolute`, in units of the output, or than `relative` times the largest finite
    magnitude of the reference. At most the `share` of the elements (or one element) may be further off than that
    product alone, such as values that round to the adjacent step.
    """

    relative: float = 0.0
    absolute: float = 0.0
    share: float = 1.0

    @classmethod
    def default(cls, dtype: str) -> Self:
        """Return `FLOAT_TOLERANCE` for floats, exact equality for everything else."""
        return cls(relative=FLOAT_TOLERANCE.get(dtype, 0.0))

    def bound(self, largest: float) -> float:
        """Return the largest absolute error allowed, given the `largest` finite magnitude of the reference."""
        return max(self.absolute, self.relative * largest)


@dataclass(frozen=True)
class OutputError:
    """The largest error of an output, the same as a share of the largest finite reference value, and the verdict.

    Both errors are infinite where a NaN or an infinity is not that of the reference. `bound` is the largest absolute
    error allowed.
    """

    absolute: float = 0.0
    relative: float = 0.0
    bound: float = 0.0
    allowed: bool = True


_unwarned = np.errstate(invalid="ignore", over="ignore")  # signalling NaN, and differences beyond double


@_unwarned
def compare(output: np.ndarray, reference: np.ndarray, tolerance: Tolerance) -> OutputError:
    """Compare arrays of equal shape and dtype. A reference of zeros alone counts as if its largest value were 1.

    A bool is exact whatever the tolerance, and any byte except 0 and 1 is wrong.
    """
    if reference.dtype == np.bool_:
        return compare(output.view(np.uint8), reference.view(np.uint8), Tolerance())
    if not tolerance.relative and np.array_equal(output, reference):  # quick, as most integer outputs are
        return OutputError(bound=tolerance.absolute)
    magnitudes = np.abs(reference.astype(np.float64))
    largest = float(np.max(magnitudes, initial=0.0, where=np.isfinite(magnitudes))) or 1.0
    bound = tolerance.bound(largest)
    errors = absolute_errors(output, reference)
    absolute = float(np.max(errors, initial=0.0))
    allowed = absolute <= bound and absolute < np.inf
    if allowed and tolerance.share < 1:
        off = int(np.count_nonzero(errors > tolerance.relative * largest))
        allowed = off <= max(1.0, tolerance.share * errors.size)
    return OutputError(absolute, absolute / largest, bound, allowed)


@_unwarned
def absolute_errors(output: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return the error of each element as a double: never 0 for integers that differ, infinite as in `OutputError`."""
    if reference.dtype.kind in "biu":
        return distance(output, reference)
    errors = np.asarray(np.abs(output.astype(np.float64) - reference.astype(np.float64)))
    special = ~np.isfinite(errors)
    if np.any(special):
        got, wanted = output[special], reference[special]
        errors[special] = np.where((got == wanted) | (np.isnan(got) & np.isnan(wanted)), 0.0, np.inf)
    return errors


def distance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return |`one` - `other`| of integers as doubles, rounded once; bools are bytes."""
    if one.dtype == np.bool_:
        one, other = one.view(np.uint8), other.view(np.uint8)
    unsigned = f"u{one.dtype.itemsize}"
    greater, lesser = np.maximum(one, other).reshape(-1), np.minimum(one, other).reshape(-1)
    apart: np.ndarray = greater.view(unsigned) - lesser.view(unsigned)
    return apart.astype(np.float64).reshape(one.shape)
