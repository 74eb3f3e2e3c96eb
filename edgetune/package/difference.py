"""How far apart two tensors are: largest absolute and relative error, and units in the last place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetune.package.golden import Tolerance

_INTEGERS: dict[int, np.dtype[Any]] = {2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}


@dataclass(frozen=True)
class Difference:
    """The distance of one output from its reference; `ulp` is in steps for integers.

    `differing` is the share of elements that are not bit-equal. Infinities and NaN that agree count as no error; where
    they do not agree, `ok` is False whatever the bound.
    """

    name: str
    max_abs: float
    max_rel: float
    ulp: float
    differing: float
    bound: float
    ok: bool

    def worse(self, other: Difference) -> Difference:
        """Return both as one: the larger of each number, good only if both are."""
        return Difference(
            self.name,
            max(self.max_abs, other.max_abs),
            max(self.max_rel, other.max_rel),
            max(self.ulp, other.ulp),
            max(self.differing, other.differing),
            max(self.bound, other.bound),
            self.ok and other.ok,
        )


def difference(name: str, got: np.ndarray, wanted: np.ndarray, tolerance: Tolerance) -> Difference:
    """Compare `got` with `wanted`, which have equal shape and dtype."""
    bound = tolerance.bound(wanted)
    if not wanted.size:
        return Difference(name, 0.0, 0.0, 0.0, 0.0, bound, ok=True)
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    agree = np.array_equal(a[~finite], b[~finite], equal_nan=True)
    error = np.abs(np.where(finite, a, 0.0) - np.where(finite, b, 0.0))
    if not np.issubdtype(wanted.dtype, np.inexact) and wanted.dtype.itemsize == 8:
        error = np.where(got == wanted, 0.0, np.maximum(error, 1.0))  # a double cannot tell neighbours apart there
    magnitude = np.abs(b)
    relative = np.divide(error, magnitude, out=np.zeros_like(error), where=finite & (magnitude > 0.0))
    steps = np.where(finite, _steps(got, wanted), 0.0)
    return Difference(
        name=name,
        max_abs=float(error.max()),
        max_rel=float(relative.max()),
        ulp=float(steps.max()),
        differing=float(np.mean(error > 0.0)),
        bound=bound,
        ok=bool(agree and error.max() <= bound),
    )


def _steps(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Representable values between two arrays of one dtype, as doubles."""
    bits: np.dtype[Any] | None = _INTEGERS.get(wanted.dtype.itemsize)
    if bits is None or wanted.dtype.kind in "iub":
        return np.abs(got.astype(np.float64) - wanted.astype(np.float64))

    def position(values: np.ndarray) -> np.ndarray:
        whole = np.ascontiguousarray(values).view(bits).astype(np.int64)
        return np.where(whole < 0, -(whole & (2 ** (8 * bits.itemsize - 1) - 1)), whole)

    a, b = position(got), position(wanted)
    apart = np.abs(a.astype(np.float64)) + np.abs(b.astype(np.float64))
    return np.where((a < 0) == (b < 0), np.abs((a - b).astype(np.float64)), apart)
