"""Declared states: whether they fit the model and the board, and what looks like a state and is not declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from edgetune.config.settings import Settings
from edgetune.errors import ModelError, UsageError
from edgetune.frontend.model_facts import InterfaceTensor, state_pairs
from edgetune.frontend.model_format import Interface, Model
from edgetune.frontend.streamed_inputs import checked_streams
from edgetune.graph.program import Program
from edgetune.pipeline.backends import backend_of


def stepped(settings: Settings, model: Model) -> Model:
    """The model of a step where `settings` have streams, else `model` itself.

    Raises what `Model.stepped` raises, ModelError where streams do not fit the inputs, and UsageError where the board
    cannot keep what a step needs.
    """
    if not settings.streams:
        return model
    _require_keeping(settings, _streams(settings))
    interface = model.interface()
    if interface is not None:
        checked_streams(interface[0], settings.streams, str(settings.model))
    return model.stepped(settings.streams)


def _require_keeping(settings: Settings, what: str) -> None:
    """Raise UsageError where packages for the board keep no states, which `what` asks for."""
    backend = backend_of(settings.target)
    if not backend.keeps_states:
        raise UsageError(
            f"{what} asks for a state, which packages in C keep, and those for board '{settings.target.name}' are in "
            f"{backend.dialect.name}: leave it out, or build for a board with a CPU"
        )


def states_of(settings: Settings, model: Model) -> dict[str, str]:
    """The states that `model` itself declares, and those of `settings`: outputs by the inputs that they become."""
    return {one.name_in: one.name_out for one in model.states()} | {**settings.states}


def require_states(settings: Settings, model: Model) -> None:
    """Raise ModelError where `model` cannot keep the states of `settings`, and UsageError where the board cannot.

    UsageError as well for an output in two pairs.
    """
    if settings.states or model.states():
        _require_keeping(settings, _flags(settings.states) or "the model")
    if not settings.states:
        return
    twice = [name for name, count in Counter(settings.states.values()).items() if count > 1]
    if twice:
        raise UsageError(f"--state names the output '{twice[0]}' twice: an output becomes one input")
    interface = model.interface()
    if interface is None:
        raise ModelError(
            f"--state names '{next(iter(settings.states))}', but packages of models of this format keep no states: "
            "leave it out"
        )
    _require_pairs(settings, interface)


def require_equal_ends(settings: Settings, program: Program) -> None:
    """Raise ModelError where the imported model has other inputs and outputs for states than its file stated."""
    ends = (
        tuple(InterfaceTensor(one.name, one.of_model().shape, one.dtype) for one in side)
        for side in (program.inputs, program.outputs)
    )
    _require_pairs(settings, (next(ends), next(ends)))


def _require_pairs(settings: Settings, interface: Interface) -> None:
    sides = [{tensor.name: tensor for tensor in side} for side in interface]
    for pair in settings.states.items():
        for side, name, words in zip(sides, pair, ("input", "output"), strict=True):
            if name not in side:
                raise ModelError(
                    f"--state names the {words} '{name}', but {settings.model} has the {words}s {', '.join(side)}"
                )
        one, other = sides[0][pair[0]], sides[1][pair[1]]
        if one.shape != other.shape or one.dtype != other.dtype:
            raise ModelError(
                f"--state {pair[0]}={pair[1]} joins {_shown(one)} and {_shown(other)}: name an input and an output of "
                "one shape and type"
            )
    if set(settings.states.values()) == set(sides[1]):
        raise ModelError(
            f"{_flags(settings.states)} leaves the package without outputs: add an Identity of '{other.name}' to the "
            "model as another output, or leave --state out"
        )


def undeclared(settings: Settings, model: Model) -> str:
    """A sentence that names what looks like a state of `model` and is not declared, "" where there is nothing."""
    interface = model.interface()
    if interface is None or not backend_of(settings.target).keeps_states:
        return ""
    known = states_of(settings, model)
    declared = set(known), set(known.values())
    free = (
        tuple(one for one in side if one.name not in known) for side, known in zip(interface, declared, strict=True)
    )
    pairs = state_pairs(*free)
    if not pairs:
        return ""
    look = [f"input '{name_in}' and output '{name_out}'" for name_in, name_out in pairs]
    many = len(pairs) > 1
    return (
        f"{', '.join(look)} look like {'states' if many else 'a state'}, which the program around the package has to "
        f"copy between runs: {_flags(dict(pairs))} {'keep' if many else 'keeps'} {'them' if many else 'it'} inside"
    )


def _flags(states: Mapping[str, str]) -> str:
    return " ".join(f"--state {name_in}={name_out}" for name_in, name_out in states.items())


def _streams(settings: Settings) -> str:
    return " ".join(f"--stream {name}:{one.axis}={one.hop}" for name, one in settings.streams.items())


def _shown(tensor: InterfaceTensor) -> str:
    return f"'{tensor.name}' ({','.join(map(str, tensor.shape or ()))} {tensor.dtype})"


def with_equal_layouts(exchanged: frozenset[str], states: Mapping[str, str]) -> frozenset[str]:
    """`exchanged` without the ends of states of which one alone would be exchanged."""
    uneven = [pair for pair in states.items() if (pair[0] in exchanged) != (pair[1] in exchanged)]
    return exchanged - {name for pair in uneven for name in pair}
