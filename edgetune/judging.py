"""What a package is judged by where its reference in float32 is itself off: the model in double."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgetune.errors import ModelError
from edgetune.events import Event
from edgetune.graph.axis_order import exchanged, given_back
from edgetune.graph.program import TensorSpec
from edgetune.models.custom import registered_in
from edgetune.models.double import evaluate_in_double
from edgetune.models.onnx_file import OnnxModel
from edgetune.models.reference import is_quantised
from edgetune.package.golden import Golden, Tolerance
from edgetune.package.reference_error import Judged, chaotic, judge_by_double, off_double
from edgetune.subject import Events, Subject


def judged_by_double(subject: Subject, events: Events) -> Subject | None:
    """`subject` with outputs judged by double where the reference is off; None where it is not, or nothing can tell."""
    if subject.model is None:
        return None
    tensors = (*subject.program.inputs, *subject.program.outputs)
    judged = judge(subject.model, tensors, subject.goldens, subject.tolerances, events)
    return replace(subject, goldens=judged.cases, tolerances=judged.tolerances) if judged.errors else None


def judge(
    model: OnnxModel,
    tensors: Sequence[TensorSpec],
    cases: Sequence[Golden],
    tolerances: Mapping[str, Tolerance],
    events: Events,
) -> Judged:
    """`cases`, exchanged as `tensors` say, with those outputs judged by double where the reference of `model` is off.

    Each of them is announced, as are those too far off to be judged, and a model that cannot be evaluated in double.
    What a quantised model may be off is counted in steps, and a registered operator has no other evaluator: both stay
    as they are.
    """
    unchanged = Judged(tuple(cases), tolerances, {})
    if is_quantised(model) or registered_in(model):
        return unchanged
    layouts = {tensor.name: tensor.layout for tensor in tensors}
    try:
        doubles = evaluate_in_double(model, [given_back(case.inputs, layouts) for case in cases])
    except ModelError as error:
        events(Event("warning", {"message": f"{error.message}: nothing tells how far its reference is off"}))
        return unchanged
    judged = judge_by_double(cases, [exchanged(double, layouts) for double in doubles], tolerances)
    for name, off in judged.chaos.items():
        events(Event("warning", {"message": chaotic(name, off)}))
    for name in judged.errors:
        events(Event("warning", {"message": off_double(name, judged.tolerances[name])}))
    return judged
