"""Compile input: the model as a program, with golden cases and tolerances, under the user's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.config.settings import Settings
from edgetune.errors import MemoryLimitExceeded, UnsupportedOperator
from edgetune.events import Event
from edgetune.frontend.model_format import Model
from edgetune.graph.loops import times_called, without_loops
from edgetune.graph.memory.regions import RegionSize
from edgetune.graph.precision import ALLOWED, with_precision
from edgetune.graph.program import Program
from edgetune.graph.states import with_states
from edgetune.graph.stream import WindowStream
from edgetune.graph.ways import Ways
from edgetune.package.emit import Check, PackageSummary
from edgetune.package.golden import Golden, GoldenCases, OutputTolerance
from edgetune.package.inputs import Device, PackageOptions
from edgetune.pipeline import link
from edgetune.pipeline.backends import backend_of
from edgetune.pipeline.declared_states import (
    first_values,
    require_equal_ends,
    require_states,
    states_of,
    stepped,
    undeclared,
    with_equal_layouts,
)
from edgetune.pipeline.flavours import flavours_of
from edgetune.pipeline.link import Choice
from edgetune.pipeline.model_formats import read_model
from edgetune.pipeline.sequences import golden_cases, stream_lengths
from edgetune.pipeline.tolerances import tolerances_of
from edgetune.target.board_kind import BoardKind
from edgetune.target.target import Target

Events = Callable[[Event], None]

GOLDEN_CASES = 3
STATE_CASES = (3, 2)
"""Of a model with states: two sequences."""
_MOST_CALLS = 8192  # of a package that has every iteration

_NO_IMAGE = (
    "layout channels_last changes nothing: no operator of the model shows that axis 1 of an input or output holds "
    "channels; name such inputs and outputs with --layout NAME=channels_last"
)


@dataclass(frozen=True)
class CompileInput:
    """Input of a package build: the program, golden cases computed by `reference`, and the tolerances of the outputs.

    `model` evaluates the cases in double if the reference is inaccurate. `stream` is there where it is one step.
    """

    program: Program
    goldens: tuple[Golden, ...]
    reference: str
    tolerances: Mapping[str, OutputTolerance]
    file: str
    model: Model
    stream: WindowStream | None = None


def load(settings: Settings, events: Events = lambda _: None, model: Model | None = None) -> CompileInput:
    """The model of `settings` as a program, with the reference's outputs for sample inputs.

    `model` is the content of `settings.model` if the caller has read it already. The reference evaluates the unchanged
    model; afterwards the goldens are converted to the layouts of the interface.
    """
    model = stepped(settings, model or read_model(settings.model, settings.shapes, sizes=settings.dims))
    require_states(settings, model)
    states = states_of(settings, model)
    if said := undeclared(settings, model):
        events(Event("warning", {"message": said}))
    exchanged = with_equal_layouts(model.channels_last(settings.layout, settings.layouts), states)
    if settings.layout == "channels_last" and not exchanged:
        events(Event("warning", {"message": _NO_IMAGE}))
    plain = imported(model, settings.target, exchanged, states, keeps_channels=settings.keep_constant_channels)
    whole = _for_board(plain, settings.target)
    require_equal_ends(settings, model, whole)
    program = with_states(whole, states, first_values(settings, model))
    _require_ends_in_memory(program, settings.target)
    stream = model.stream()
    goldens, reference = golden_cases(
        model,
        [tensor.of_model() for tensor in program.inputs],
        [state for state in program.states if state.of_model],
        _lengths(stream, kept=bool(program.states)),
        settings.seed,
        model.program if exchanged or whole.rings else lambda: plain,
        events,
    )
    layouts = {tensor.name: tensor.layout for tensor in program.tensors}
    tolerances = tolerances_of(model, goldens, events, states.values())
    if settings.precision in ALLOWED:
        usual = OutputTolerance(relative=ALLOWED[settings.precision])
        stored = {t.name: tolerances.get(t.name, usual) for t in program.outputs if t.dtype == "float32"}
        tolerances |= {
            name: replace(one, relative=max(one.relative, usual.relative))
            for name, one in stored.items()
            if not one.step
        }
    return CompileInput(
        with_precision(program, settings.precision).with_io(settings.io),
        tuple(golden.exchanged(layouts) for golden in goldens),
        reference,
        tolerances,
        settings.model.name,
        model,
        stream,
    )


def _require_ends_in_memory(program: Program, target: BoardKind) -> None:
    """Refuse an input or an output that no memory of `target` holds, before a reference computes with it.

    Raises MemoryLimitExceeded. What fits has indices of 32 bits.
    """
    size = max(target.memory_sizes.values(), default=None)  # an input may lie in flash
    largest = max((*program.input_buffers(), *program.output_buffers()), key=lambda one: one.nbytes)
    if size is None or largest.nbytes <= size:
        return
    shown = f"{largest.kind} {largest.name} {'x'.join(map(str, largest.shape))} of {program.name}"
    raise MemoryLimitExceeded(
        f"{shown} takes {largest.nbytes} bytes, and board '{target.name}' has no memory of more than {size} bytes, "
        f"{largest.nbytes - size} too few: use a smaller model or a larger board",
        ("ram", largest.nbytes - size),
    )


def _lengths(stream: WindowStream | None, *, kept: bool) -> tuple[int, ...]:
    """How many golden cases there are in each sequence."""
    if stream is not None:
        return stream_lengths(stream)
    return STATE_CASES if kept else (GOLDEN_CASES,)


def program_for(
    model: Model,
    target: BoardKind,
    exchanged: frozenset[str] = frozenset(),
    states: Mapping[str, str] | None = None,
) -> Program:
    """The program of `model` for boards of `target`, in the forms that a build without records has."""
    return _for_board(imported(model, target, exchanged, states), target)


def imported(
    model: Model,
    target: BoardKind,
    exchanged: frozenset[str] = frozenset(),
    states: Mapping[str, str] | None = None,
    *,
    keeps_channels: bool = False,
) -> Program:
    """The program of `model` as the backend of `target` takes it (see `Model.program`)."""
    ways = Ways(joins_attention=backend_of(target).joins_attention, keeps_channels=keeps_channels)
    return program_with(model, exchanged, states or {}, ways)


def _for_board(program: Program, target: BoardKind) -> Program:
    """`program` in other forms of its kernels, and without loops where packages of the backend have none."""
    backend = backend_of(target)
    program = backend.in_forms(program, target)
    if backend.loops or not program.loops:
        return program
    calls = sum(times_called(program, number) for number in range(len(program.calls)))
    if calls > _MOST_CALLS:
        raise UnsupportedOperator(
            f"{program.name} has {len(program.loops)} loops of {calls:,} calls in all, and packages for {target.name} "
            f"have each call on its own, at most {_MOST_CALLS:,}: build it for a board with a CPU, or for fewer steps"
        )
    return without_loops(program)


def program_with(model: Model, exchanged: frozenset[str], states: Mapping[str, str], ways: Ways) -> Program:
    """The program of `model`, whose `states` are still inputs and outputs; a format without states is not told any."""
    if not states:
        return model.program(exchanged, ways=ways)
    return model.program(exchanged, ways=ways, states=states)


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
        PackageOptions(
            flavours_of(settings),
            settings.name,
            subject.file,
            version=settings.package_version,
            stream=subject.stream,
        ),
        out,
        events,
        check,
    )


def device_of(settings: Settings) -> Device:
    """What the package of `settings` runs on: no setting makes its memory larger than the target says."""
    sizes = settings.target.memory_sizes
    stated = {"ram": settings.ram_limit, "flash": settings.flash_limit}
    ram, flash = (
        min((size for size in (stated[name], sizes.get(name)) if size is not None), default=None) for name in stated
    )
    return Device(settings.target, settings.threads, ram, flash, regions_of(settings.target))


def regions_of(target: BoardKind) -> tuple[RegionSize, ...]:
    """The regions of RAM that a target names, with what a workspace may take of each; none where it names none."""
    space = target.memory_map if isinstance(target, Target) else None
    if space is None or not space.regions:
        return ()
    return tuple(RegionSize(one.name, one.workspace_bytes) for one in space.workspaces)
