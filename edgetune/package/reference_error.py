"""A reference in float32 that is itself off: outputs judged by the model in double instead, and by what it reaches.

A network that amplifies roundings makes any implementation in float32 differ from any other. What a package may be off
is then not the usual tolerance, but what the reference is off as well. Where that is so much that zeros, or any other
answer, would be within it, nothing is judged by double: the reference stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgetune.package.golden import Golden, Tolerance

MOST_ALLOWED = 0.5
"""Share of the largest element; an answer that has nothing to do with the model is off by 1 to 2."""


@dataclass(frozen=True)
class Judged:
    """Cases to compare with and tolerances by output name, of which those of `errors` are judged by double.

    `errors` are those of the reference in float32, as shares of the largest element in double; so are those of `chaos`,
    where they are so large that nothing tells a right output from a wrong one.
    """

    cases: tuple[Golden, ...]
    tolerances: Mapping[str, Tolerance]
    errors: Mapping[str, float]
    chaos: Mapping[str, float] = field(default_factory=dict)


def judge_by_double(
    cases: Sequence[Golden], doubles: Sequence[Mapping[str, np.ndarray]], tolerances: Mapping[str, Tolerance]
) -> Judged:
    """Take the outputs of `doubles`, one mapping per case, where a reference is off them by more than its tolerance.

    They are taken as well where an output was judged by double before. `tolerances` are by output name,
    `Tolerance.default` for the rest. Integers and halves keep their reference, and so does an output that overflows in
    float32 but not in double: nothing says how near one can come to that. Outputs of which more than `MOST_ALLOWED`
    would be allowed are `chaos`, and keep it as well.
    """
    errors: dict[str, float] = {}
    chaos: dict[str, float] = {}
    for name, array in cases[0].outputs.items() if cases else ():
        allowed = tolerances.get(name, Tolerance.default(str(array.dtype)))
        error = max(_error(c.outputs[name], d[name]) for c, d in zip(cases, doubles, strict=True))
        beyond = bool(allowed.reference_error) or error > allowed.relative
        if array.dtype == np.float32 and beyond and error < np.inf:
            error = max(error, allowed.reference_error)
            judgeable = Tolerance.by_double("float32", error).relative <= MOST_ALLOWED
            (errors if judgeable else chaos)[name] = error
    wider = {name: Tolerance.by_double("float32", error) for name, error in errors.items()}
    judged = [
        Golden(case.inputs, {n: _rounded(d[n], a) if n in errors else a for n, a in case.outputs.items()})
        for case, d in zip(cases, doubles, strict=True)
    ]
    return Judged(tuple(judged), {**tolerances, **wider}, errors, chaos)


def off_double(name: str, tolerance: Tolerance) -> str:
    """Say that output `name` is judged by double, why, and what is allowed."""
    return (
        f"output {name!r}: the reference in float32 is itself off the model in double by "
        f"{100 * tolerance.reference_error:.2g} % of the largest element; judged by double, "
        f"{100 * tolerance.relative:.2g} % are allowed"
    )


def chaotic(name: str, error: float) -> str:
    """Say that output `name` cannot be judged by double, and why."""
    return (
        f"output {name!r}: the reference in float32 is itself off the model in double by {100 * error:.3g} % of the "
        "largest element: nothing tells whether what is computed in float32 is right; scale weights or inputs down"
    )


def _error(reference: np.ndarray, double: np.ndarray) -> float:
    """Largest difference as a share of the largest element in double; infinite where one of them alone is special."""
    rounded = _rounded(double, reference).astype(np.float64)
    finite = np.isfinite(rounded)
    if not np.array_equal(finite, np.isfinite(reference)):
        return float("inf")
    if not np.array_equal(rounded[~finite], reference[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    largest = float(np.abs(double[finite]).max())
    return float(np.abs(double[finite] - reference[finite]).max()) / (largest or 1.0)


def _rounded(double: np.ndarray, like: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return double.astype(like.dtype)
