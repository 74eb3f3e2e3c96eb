"""Compile input: the model as a program, with golden cases and tolerances, under the user's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.config.settings import Settings
from edgetune.events import Event
from edgetune.frontend.onnx.custom import registered_in
from edgetune.frontend.onnx.disagreement import Disagreement, disagreement
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.interface_layout import channels_last_tensors, import_channels_last
from edgetune.frontend.onnx.reader import OnnxModel, read_onnx
from edgetune.frontend.onnx.reference import is_quantised, output_steps
from edgetune.frontend.onnx.sample_inputs import sample_inputs
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from edgetune.package.emit import Check, PackageSummary
from edgetune.package.golden import Golden, OutputTolerance
from edgetune.package.inputs import Device, GoldenCases, PackageOptions
from edgetune.pipeline import link
from edgetune.pipeline.flavours import flavours_of
from edgetune.pipeline.link import Choice
from edgetune.pipeline.reference_outputs import reference_outputs

Events = Callable[[Event], None]

GOLDEN_CASES = 3

_NO_IMAGE = (
    "layout channels_last changes nothing: no operator of the model tells that axis 1 of an input or output is its "
    "channels; name those where it is with --layout NAME=channels_last"
)


@dataclass(frozen=True)
class CompileInput:
    """Input of a package build: the program, golden cases computed by `reference`, and the tolerances of the outputs.

    `model` evaluates the cases in double if the reference is inaccurate; None where nothing can.
    """

    program: Program
    goldens: tuple[Golden, ...]
    reference: str
    tolerances: Mapping[str, OutputTolerance]
    file: str
    model: OnnxModel | None = None


def load(settings: Settings, events: Events = lambda _: None, model: OnnxModel | None = None) -> CompileInput:
    """The model of `settings` as a program, with the reference's outputs for sample inputs.

    `model` is the content of `settings.model` if the caller has read it already. The reference evaluates the unchanged
    model; afterwards the goldens are converted to the layouts of the interface.
    """
    model = model or read_onnx(settings.model, settings.shapes)
    exchanged = channels_last_tensors(model, settings.layout, settings.layouts)
    if settings.layout == "channels_last" and not exchanged:
        events(Event("warning", {"message": _NO_IMAGE}))
    program = to_program(import_channels_last(model, exchanged))
    feeds = sample_inputs(model, [t.of_model() for t in program.inputs], GOLDEN_CASES, settings.seed)
    outputs, reference = reference_outputs(
        model, lambda: to_program(import_onnx(model)) if exchanged else program, feeds, events
    )
    goldens = tuple(Golden(i, o) for i, o in zip(feeds, outputs, strict=True))
    layouts = {tensor.name: tensor.layout for tensor in (*program.inputs, *program.outputs)}
    return CompileInput(
        program,
        tuple(golden.exchanged(layouts) for golden in goldens),
        reference,
        _tolerances(model, goldens, events),
        settings.model.name,
        model,
    )


def _tolerances(model: OnnxModel, goldens: Sequence[Golden], events: Events) -> dict[str, OutputTolerance]:
    """One step for each quantised output, or more where evaluators of the reference differ, which an event reports."""
    steps = output_steps(model)
    if not steps or not is_quantised(model):
        return {}
    if registered_in(model):  # the program itself is the only evaluator
        found = dict.fromkeys(steps, Disagreement(0.0, 0.0))
    else:
        found = dict(disagreement(model, [g.inputs for g in goldens], [g.outputs for g in goldens]))
    chosen = {n: OutputTolerance.quantised(step, found[n].largest, found[n].share) for n, step in steps.items()}
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
    subject: CompileInput,
    settings: Settings,
    choices: Sequence[Choice],
    out: Path,
    events: Events,
    check: Check | None = None,
) -> PackageSummary:
    """Writes the package of `subject` with these choices to `out`; raises what `link.assemble` raises."""
    return link.assemble(
        subject.program,
        choices,
        GoldenCases(subject.goldens, subject.reference, subject.tolerances),
        device_of(settings),
        PackageOptions(flavours_of(settings), settings.name, subject.file),
        out,
        events,
        check,
    )


def device_of(settings: Settings) -> Device:
    """What the package of `settings` runs on."""
    return Device(settings.target, settings.threads, settings.ram_limit, settings.flash_limit)
