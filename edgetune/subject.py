"""What a package is made of: a model as a program, with the answers of a reference, under the settings of its user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune import assembly
from edgetune.answers import answers
from edgetune.assembly import Choice
from edgetune.config.settings import Settings
from edgetune.events import Event
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from edgetune.models.custom import registered_in
from edgetune.models.disagreement import Disagreement, disagreement
from edgetune.models.importer import import_onnx
from edgetune.models.interface_layout import channels_last_tensors, import_channels_last
from edgetune.models.onnx_file import OnnxModel, read_onnx
from edgetune.models.reference import is_quantised, output_steps
from edgetune.models.sample_inputs import sample_inputs
from edgetune.package.emit import Check, PackageSummary
from edgetune.package.golden import Golden, Tolerance

Events = Callable[[Event], None]

GOLDEN_CASES = 3

_NO_IMAGE = (
    "layout channels_last changes nothing: no operator of the model tells that axis 1 of an input or output is its "
    "channels; name those where it is with --layout NAME=channels_last"
)


@dataclass(frozen=True)
class Subject:
    """What a package is made of: the program, golden cases answered by `reference`, and how near it must come.

    `model` is what answers them in double, should the reference be off; None where nothing does.
    """

    program: Program
    goldens: tuple[Golden, ...]
    reference: str
    tolerances: Mapping[str, Tolerance]
    file: str
    model: OnnxModel | None = None


def load(settings: Settings, events: Events = lambda _: None, model: OnnxModel | None = None) -> Subject:
    """The model of `settings` as a program, with the answers of the reference to sample inputs.

    `model` is what `settings.model` holds, where that was read before. The reference answers the model as it is:
    goldens are exchanged as the interface has them afterwards.
    """
    model = model or read_onnx(settings.model, settings.shapes)
    exchanged = channels_last_tensors(model, settings.layout, settings.layouts)
    if settings.layout == "channels_last" and not exchanged:
        events(Event("warning", {"message": _NO_IMAGE}))
    program = to_program(import_channels_last(model, exchanged))
    feeds = sample_inputs(model, [t.of_model() for t in program.inputs], GOLDEN_CASES, settings.seed)
    outputs, reference = answers(model, lambda: to_program(import_onnx(model)) if exchanged else program, feeds, events)
    goldens = tuple(Golden(i, o) for i, o in zip(feeds, outputs, strict=True))
    layouts = {tensor.name: tensor.layout for tensor in (*program.inputs, *program.outputs)}
    return Subject(
        program,
        tuple(golden.exchanged(layouts) for golden in goldens),
        reference,
        _tolerances(model, goldens, events),
        settings.model.name,
        model,
    )


def _tolerances(model: OnnxModel, goldens: Sequence[Golden], events: Events) -> dict[str, Tolerance]:
    """One step for each quantised output, or what the references themselves cannot agree on, which is announced."""
    steps = output_steps(model)
    if not steps or not is_quantised(model):
        return {}
    if registered_in(model):  # the program itself is the only evaluator
        found = dict.fromkeys(steps, Disagreement(0.0, 0.0))
    else:
        found = dict(disagreement(model, [g.inputs for g in goldens], [g.outputs for g in goldens]))
    chosen = {n: Tolerance.quantised(step, found[n].largest, found[n].share) for n, step in steps.items()}
    for name, tolerance in chosen.items():
        if tolerance.widened:
            apart = tolerance.disagreement / tolerance.step
            message = (
                f"output {name!r}: evaluators of the reference differ among themselves by {apart:.1f} steps in "
                f"{tolerance.disagreeing:.0%} of the elements; {tolerance.absolute / tolerance.step:.1f} are allowed"
            )
            events(Event("warning", {"message": message}))
    return chosen


def assembled(
    subject: Subject,
    settings: Settings,
    choices: Sequence[Choice],
    out: Path,
    events: Events,
    check: Check | None = None,
) -> PackageSummary:
    """Writes the package of `subject` with these choices to `out`; raises what `assembly.assemble` raises."""
    return assembly.assemble(
        subject.program,
        choices,
        settings.target,
        out,
        name=settings.name,
        goldens=subject.goldens,
        reference=subject.reference,
        tolerances=subject.tolerances,
        model_file=subject.file,
        limits=limits_of(settings),
        events=events,
        threads=settings.threads,
        check=check,
    )


def limits_of(settings: Settings) -> assembly.Limits:
    """What the user said that the device has."""
    return assembly.Limits(settings.ram_limit, settings.flash_limit)
