"""Double-precision reference: sums in double judge a package where its float32 reference cannot.

The model in double, where that reference is inaccurate. And the program in 16 bits with sums in double: a deep network
can lose more by the rounding of its tensors than a package is allowed to differ from its reference. Then no package of
that precision agrees better, and the loss is the tolerance, which is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgetune.errors import ModelError
from edgetune.events import Event
from edgetune.frontend.model_format import Model
from edgetune.graph.accuracy import Tolerance, compare
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.layout.axis_order import exchanged, given_back
from edgetune.graph.program import TensorSpec
from edgetune.package.golden import MOST_ALLOWED, Golden, OutputTolerance
from edgetune.package.reference_error import (
    Judged,
    chaotic,
    judge_by_double,
    off_double,
    off_storage,
)
from edgetune.pipeline.compile_input import CompileInput, Events


def judged_by_double(subject: CompileInput, events: Events) -> CompileInput | None:
    """`subject` with inaccurate outputs judged by double; None where the reference is accurate or none can decide."""
    judged = judge(subject.model, subject.program.tensors, subject.goldens, subject.tolerances, events)
    return replace(subject, goldens=judged.cases, tolerances=judged.tolerances) if judged.errors else None


def judge(
    model: Model,
    tensors: Sequence[TensorSpec],
    cases: Sequence[Golden],
    tolerances: Mapping[str, OutputTolerance],
    events: Events,
) -> Judged:
    """`cases`, in the layouts of `tensors`, with outputs from double where `model`'s reference is inaccurate.

    Events report each such output, outputs with too large errors to be judged, and a model that cannot be evaluated in
    double. Where the model has no evaluation in double, the cases stay unchanged.
    """
    unchanged = Judged(tuple(cases), tolerances, {})
    layouts = {tensor.name: tensor.layout for tensor in tensors}
    try:
        doubles = model.outputs_in_double([given_back(case.inputs, layouts) for case in cases])
    except ModelError as error:
        events(Event("warning", {"message": f"{error.message}: the error of its reference is unknown"}))
        return unchanged
    if doubles is None:
        return unchanged
    judged = judge_by_double(cases, [exchanged(double, layouts) for double in doubles], tolerances)
    for name, off in judged.chaos.items():
        events(Event("warning", {"message": chaotic(name, off)}))
    for name in judged.errors:
        events(Event("warning", {"message": off_double(name, judged.tolerances[name])}))
    return judged


def judged_by_storage(subject: CompileInput, events: Events) -> CompileInput | None:
    """`subject` with a tolerance of what storage costs, where that is more than allowed; None where it is nowhere.

    The program of `subject`, whose tensors have their 16 bits, is evaluated kernel by kernel with sums in double.
    Outputs that would be allowed to differ by over `MOST_ALLOWED` keep their tolerance: nothing could be told then.
    """
    wider: dict[str, OutputTolerance] = {}
    stored = evaluate_program(subject.program, [case.inputs for case in subject.goldens])
    relative = {name: tolerance for name, tolerance in subject.tolerances.items() if tolerance.relative}
    for name, allowed in relative.items():
        pairs = [(outputs[name], case.outputs[name]) for outputs, case in zip(stored, subject.goldens, strict=True)]
        errors = [compare(a.astype(np.float64), b.astype(np.float64), Tolerance()).relative for a, b in pairs]
        found = allowed.stored(max(errors))  # infinite where only one of both is finite
        if allowed.relative < found.relative <= MOST_ALLOWED:
            wider[name] = found
            events(Event("warning", {"message": off_storage(name, found)}))
    return replace(subject, tolerances={**subject.tolerances, **wider}) if wider else None
