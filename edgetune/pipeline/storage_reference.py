"""Storage reference: how far a precision of 16 bits moves the outputs of a model, however exactly kernels compute.

A deep network can lose more by the rounding of its tensors than a package is allowed to differ from its reference. Then
no package of that precision agrees better, and the loss is the tolerance, which is said.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgetune.events import Event
from edgetune.graph.accuracy import Tolerance, compare
from edgetune.graph.evaluate import evaluate_program
from edgetune.package.golden import OutputTolerance
from edgetune.package.reference_error import MOST_ALLOWED, off_storage
from edgetune.pipeline.compile_input import CompileInput, Events


def judged_by_storage(subject: CompileInput, events: Events) -> CompileInput | None:
    """`subject` with a tolerance of what storage costs, where that is more than allowed; None where it is nowhere.

    The program of `subject`, whose tensors have their 16 bits, is evaluated kernel by kernel with sums in double.
    Outputs that would be allowed to differ by over `MOST_ALLOWED` keep their tolerance: nothing could be told then.
    """
    wider: dict[str, OutputTolerance] = {}
    stored = evaluate_program(subject.program, [case.inputs for case in subject.goldens])
    relative = {name: tolerance for name, tolerance in subject.tolerances.items() if tolerance.relative}
    for name, allowed in relative.items():
        pairs = [(case.outputs[name], rounded[name]) for case, rounded in zip(subject.goldens, stored, strict=True)]
        error = max(_error(reference, rounded) for reference, rounded in pairs)
        found = OutputTolerance.stored(error)
        if allowed.relative < found.relative <= MOST_ALLOWED:
            wider[name] = found
            events(Event("warning", {"message": off_storage(name, found)}))
    return replace(subject, tolerances={**subject.tolerances, **wider}) if wider else None


def _error(reference: np.ndarray, stored: np.ndarray) -> float:
    """The largest difference as a share of the largest element; infinite where only one of them is finite."""
    return compare(stored.astype(np.float64), reference.astype(np.float64), Tolerance()).relative
