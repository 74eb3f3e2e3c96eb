"""States of a package, those that the model has and those that are declared: whether they fit the model and the board.

And what looks like a state and is not declared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from edgetune.config.model_file import not_a_file
from edgetune.config.settings import Settings
from edgetune.config.state_setting import output_and_file
from edgetune.errors import ModelError, UsageError
from edgetune.frontend.model_facts import InterfaceTensor, alike, state_pairs
from edgetune.frontend.model_format import Interface, Model
from edgetune.frontend.streamed_inputs import checked_streams
from edgetune.graph.program import Program
from edgetune.pipeline.backends import backend_of
from edgetune.verify.array_files import stored_array

_MOST_BYTES = 2 * 1024 * 1024
"""Of all first values of a package that are not zero, which it has as C text."""


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


def _require_keeping(settings: Settings, flags: str, model: str = "") -> None:
    """Raise UsageError where packages for the board keep no states, which `flags` ask for, or without any `model`."""
    backend = backend_of(settings.target)
    if not backend.keeps_states:
        raise UsageError(
            f"{flags or model} asks for a state, which packages in C keep, and those for board "
            f"'{settings.target.name}' are in {backend.dialect.name}: "
            f"{'leave it out, or build for' if flags else 'build it for'} a board with a CPU"
        )


def states_of(settings: Settings, model: Model) -> dict[str, str]:
    """The states that `model` itself declares, and those of `settings`: outputs by the inputs that they become."""
    return {one.name_in: one.name_out for one in model.states()} | _pairs(settings)


def _pairs(settings: Settings) -> dict[str, str]:
    return {name_in: output_and_file(stated)[0] for name_in, stated in settings.states.items()}


def first_values(settings: Settings, model: Model) -> dict[str, np.ndarray]:
    """What states are before the first run, by input, where that is not zero everywhere; raises as `require_states`."""
    found = {one.name_in: one.first for one in model.states()}
    tensors = {tensor.name: tensor for tensor in (model.interface() or ((), ()))[0]}
    for name_in, stated in settings.states.items():
        _, file = output_and_file(stated)
        if file is not None:
            found[name_in] = _first_value(f"--state {name_in}={stated}", file, tensors[name_in])
    size = sum(first.nbytes for first in found.values() if first.size and np.any(first != first.flat[0]))
    if size > _MOST_BYTES:
        names = ", ".join(f"'{name}'" for name in found)
        raise ModelError(
            f"the first values of {names} take {size:,} bytes, and a package has at most {_MOST_BYTES:,} of them: "
            "begin large states with zeros"
        )
    return found


def _first_value(flag: str, file: Path, tensor: InterfaceTensor) -> np.ndarray:
    """The array in `file` that `flag` gives to the state `tensor`.

    Raises UsageError where it cannot be read, and ModelError where it has another shape or type than the state.
    """
    fault = not_a_file(file)
    if fault is not None:
        raise UsageError(f"{flag} names a file that {fault}: write it with numpy.save")
    try:
        found = stored_array(file)
    except OSError as error:
        raise UsageError(f"{flag} names a file that cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise UsageError(f"{flag} names a file that is no array of NumPy: write it with numpy.save") from None
    if found.shape != tensor.shape or str(found.dtype) != tensor.dtype:
        shown = ",".join(map(str, found.shape)) or "a scalar"
        wanted = ",".join(map(str, tensor.shape or ())) or "a scalar"
        raise ModelError(
            f"{flag} gives '{tensor.name}' the first value {shown} {found.dtype}, and the state is {wanted} "
            f"{tensor.dtype}: write a file of that shape and type"
        )
    return np.ascontiguousarray(found.read()).reshape(found.shape)


def require_states(settings: Settings, model: Model) -> None:
    """Raise ModelError where `model` cannot keep the states of `settings`, and UsageError where the board cannot.

    UsageError as well for an output in two pairs, and for a file of first values that cannot be read.
    """
    states = states_of(settings, model)
    if states:
        kept = f"{settings.model} keeps '{next(iter(states))}' from run to run, and so it"
        _require_keeping(settings, _flags(settings.states), kept)
    pairs = _pairs(settings)
    if not pairs:
        return
    twice = [name for name, count in Counter(pairs.values()).items() if count > 1]
    if twice:
        raise UsageError(f"--state names the output '{twice[0]}' twice: an output becomes one input")
    interface = model.interface()
    if interface is None:
        raise ModelError(
            f"--state names '{next(iter(settings.states))}', but packages of models of this format keep no states: "
            "leave it out"
        )
    _require_pairs(settings, model, interface)
    first_values(settings, model)


def require_equal_ends(settings: Settings, model: Model, program: Program) -> None:
    """Raise ModelError where the imported `model` has other inputs and outputs for states than its file stated."""
    ends = (
        tuple(InterfaceTensor(one.name, one.of_model().shape, one.dtype) for one in side)
        for side in (program.inputs, program.outputs)
    )
    inputs, outputs = next(ends), next(ends)
    of = {tensor.name: tensor for tensor in (*inputs, *outputs)}
    for one in model.states():
        before, after = of[one.name_in], of[one.name_out]
        if before.shape != after.shape or before.dtype != after.dtype:
            raise ModelError(
                f"{settings.model} makes {_shown(after)} of its state {_shown(before)}, which cannot hold it: export "
                "the model again"
            )
    _require_pairs(settings, model, (inputs, outputs))


def _require_pairs(settings: Settings, model: Model, interface: Interface) -> None:
    own = {one.name_in for one in model.states()}, {one.name_out for one in model.states()}
    sides = [
        {tensor.name: tensor for tensor in side if tensor.name not in known}
        for side, known in zip(interface, own, strict=True)
    ]
    pairs = _pairs(settings)
    for pair in pairs.items():
        for side, name, words in zip(sides, pair, ("input", "output"), strict=True):
            if name not in side:
                raise ModelError(
                    f"--state names the {words} '{name}', but {settings.model} has the {words}s {', '.join(side)}"
                )
        one, other = sides[0][pair[0]], sides[1][pair[1]]
        if not alike(one.shape, other.shape) or one.dtype != other.dtype:
            raise ModelError(
                f"--state {pair[0]}={pair[1]} joins {_shown(one)} and {_shown(other)}: name an input and an output of "
                "one shape and type"
            )
    if pairs and set(pairs.values()) == set(sides[1]):
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
