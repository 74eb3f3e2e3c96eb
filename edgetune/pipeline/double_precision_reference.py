"""Double-precision reference: the model in double judges a package where its float32 reference is inaccurate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgetune.errors import ModelError
from edgetune.events import Event
from edgetune.frontend.model_format import Model
from edgetune.graph.layout.axis_order import exchanged, given_back
from edgetune.graph.program import TensorSpec
from edgetune.package.golden import Golden, OutputTolerance
from edgetune.package.reference_error import Judged, chaotic, judge_by_double, off_double
from edgetune.pipeline.compile_input import CompileInput, Events


def judged_by_double(subject: CompileInput, events: Events) -> CompileInput | None:
    """`subject` with inaccurate outputs judged by double; None where the reference is accurate or none can decide."""
    tensors = (*subject.program.inputs, *subject.program.outputs)
    judged = judge(subject.model, tensors, subject.goldens, subject.tolerances, events)
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
