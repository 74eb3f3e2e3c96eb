"""Inaccurate float32 reference: such outputs are judged by the model in double, and what is said about tolerances.

In a network that amplifies rounding errors, all float32 implementations differ. What rounding does to it is its
tolerance; where the float32 reference is off by more, it is compared with double, and the error of the reference is
allowed as well. Where that error is so large that zeros, or any other answer, would pass, double is not used and the
reference stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgetune.graph.accuracy import Tolerance, compare
from edgetune.package.golden import MOST_ALLOWED, MOST_MOVED, Golden, OutputTolerance


@dataclass(frozen=True)
class Judged:
    """Cases to compare with and tolerances by output name; the outputs in `errors` are judged by double.

    `errors` are errors of the float32 reference, as shares of the largest element in double. So are those in `chaos`,
    where they are so large that a right output cannot be distinguished from a wrong one.
    """

    cases: tuple[Golden, ...]
    tolerances: Mapping[str, OutputTolerance]
    errors: Mapping[str, float]
    chaos: Mapping[str, float] = field(default_factory=dict)


def judge_by_double(
    cases: Sequence[Golden], doubles: Sequence[Mapping[str, np.ndarray]], tolerances: Mapping[str, OutputTolerance]
) -> Judged:
    """Use the outputs of `doubles`, one mapping per case, where the error of a reference exceeds its tolerance.

    They are also used where an output was judged by double before. `tolerances` are by output name,
    `OutputTolerance.default` for the rest. Integers and halves keep their reference. So does an output that
    overflows in float32 but not in double, because its attainable error is unknown. Outputs whose tolerance would
    exceed `MOST_ALLOWED` are `chaos`, and keep their reference as well.
    """
    errors: dict[str, float] = {}
    chaos: dict[str, float] = {}
    for name, array in cases[0].outputs.items() if cases else ():
        allowed = tolerances.get(name, OutputTolerance.default(str(array.dtype)))
        error = max(_error(c.outputs[name], d[name]) for c, d in zip(cases, doubles, strict=True))
        beyond = bool(allowed.reference_error) or error > allowed.relative
        if array.dtype == np.float32 and beyond and error < np.inf:
            error = max(error, allowed.reference_error)
            judgeable = allowed.by_double("float32", error).relative <= MOST_ALLOWED
            (errors if judgeable else chaos)[name] = error
    usual = OutputTolerance.default("float32")
    wider = {name: tolerances.get(name, usual).by_double("float32", error) for name, error in errors.items()}
    judged = [
        case._replace(outputs={n: _rounded(d[n], a) if n in errors else a for n, a in case.outputs.items()})
        for case, d in zip(cases, doubles, strict=True)
    ]
    return Judged(tuple(judged), {**tolerances, **wider}, errors, chaos)


def off_double(name: str, tolerance: OutputTolerance) -> str:
    """Message that output `name` is judged by double, why, and the tolerance."""
    return (
        f"output {name!r}: the reference in float32 differs from the model in double by "
        f"{100 * tolerance.reference_error:.2g} % of the largest element; outputs are compared with double, and "
        f"{100 * tolerance.relative:.2g} % are allowed"
    )


def off_storage(name: str, tolerance: OutputTolerance) -> str:
    """Message that 16 bits move output `name` by more than is usually allowed, and the tolerance."""
    return (
        f"output {name!r}: storing tensors in 16 bits moves it by {100 * tolerance.storage_error:.2g} % of the largest "
        f"element, however exactly the kernels compute; {100 * tolerance.relative:.2g} % are allowed"
    )


def off_rounding(name: str, tolerance: OutputTolerance) -> str:
    """Message that the network amplifies rounding in output `name`, or makes it chaotic, and the tolerance."""
    moved = f"output {name!r}: rounding each inner tensor by one unit in the last place, at random, moves it by"
    if tolerance.relative == 0.0 and tolerance.chaotic:
        return (
            f"{moved} {tolerance.rounding_error:g} or less in {100 * MOST_MOVED:g} % of the elements or more: these "
            "are ties that no result can be judged by, so the output stays exact"
        )
    if tolerance.relative == 0.0:
        return (
            f"{moved} {tolerance.rounding_error:g} or less in some elements; {tolerance.absolute:g} are allowed in "
            f"{tolerance.share:.2%} of the elements"
        )
    moved = f"{moved} {100 * tolerance.rounding_error:.3g} % of the largest element"
    if tolerance.chaotic:
        return f"{moved}: the network is chaotic, so no result can be judged; scale weights or inputs down"
    floor = f" (or {tolerance.absolute:.3g}, where that is more)" if tolerance.absolute else ""
    return f"{moved}; four times that, {100 * tolerance.relative:.3g} %{floor}, are allowed"


def off_steps(name: str, tolerance: OutputTolerance) -> str:
    """Message that output `name` is computed from quantised tensors, or that its evaluators differ; the tolerance."""
    apart = tolerance.disagreement / tolerance.step
    differ = f"evaluators of the reference differ from one another by {apart:.1f} steps"
    share = f"{tolerance.disagreeing:.1%} of the elements"
    if not tolerance.behind:
        return f"output {name!r}: {differ} in {share}; {tolerance.absolute / tolerance.step:.1f} are allowed"
    allowed = f"{tolerance.absolute:.3g} are allowed"
    if tolerance.capped:
        allowed += ", since a right output could not be told from a wrong one beyond that"
    return (
        f"output {name!r}: one step in each element of the {tolerance.behind} quantised tensors before it moves it by "
        f"{tolerance.step:.3g}; {differ} of that size; {allowed}"
    )


def chaotic(name: str, error: float) -> str:
    """Message that output `name` cannot be judged by double, and why."""
    return (
        f"output {name!r}: the reference in float32 differs from the model in double by {100 * error:.3g} % of the "
        "largest element, so no result in float32 can be judged; scale weights or inputs down"
    )


def note(name: str, tolerance: OutputTolerance) -> str:
    """What the user should know about the tolerance of output `name`; "" where it is the usual one."""
    if tolerance.reference_error:
        return off_double(name, tolerance)
    if tolerance.storage_error:
        return off_storage(name, tolerance)
    if tolerance.behind or tolerance.widened:
        return off_steps(name, tolerance)
    return off_rounding(name, tolerance) if tolerance.amplified or tolerance.chaotic else ""


def _error(reference: np.ndarray, double: np.ndarray) -> float:
    """Largest difference as a share of the largest element in double; infinite where only one of them is not finite."""
    rounded = _rounded(double, reference).astype(np.float64)
    attainable = np.where(np.isfinite(rounded), double, rounded)
    return compare(reference.astype(np.float64), attainable, Tolerance()).relative


def _rounded(double: np.ndarray, like: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return double.astype(like.dtype)
