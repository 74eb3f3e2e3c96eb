"""Streamed inputs: whether those that a user names are there, and have so many frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from edgetune.config.input_stream import InputStream
from edgetune.errors import ModelError
from edgetune.frontend.model_facts import InterfaceTensor

_LEAST_FRAMES = 2


def checked_streams(
    inputs: Sequence[InterfaceTensor], streams: Mapping[str, InputStream], name: str
) -> dict[str, InputStream]:
    """`streams` with axes from 0 on; `name` is that of the model.

    Raises ModelError for an input, an axis or a number of frames that the model has not, and for windows that are not
    equally many steps long.
    """
    shapes = {one.name: one.shape for one in inputs}
    found: dict[str, InputStream] = {}
    steps: dict[str, Fraction] = {}
    if not streams:
        raise ModelError(f"no input of {name} is a stream; name one of {', '.join(sorted(shapes))}")
    for given, stream in streams.items():
        if given not in shapes:
            raise ModelError(
                f"--stream names the input {given!r}, but {name} has the inputs {', '.join(sorted(shapes))}: give "
                "--stream NAME:AXIS with one of them",
                of_inputs=True,
            )
        shape = shapes[given]
        if shape is None or not all(isinstance(extent, int) for extent in shape):
            raise ModelError(
                f"--stream names the input {given!r}, whose shape in {name} is not known: export it with fixed shapes",
                of_inputs=True,
            )
        extents = [int(extent) for extent in shape]
        if not -len(extents) <= stream.axis < len(extents):
            raise ModelError(
                f"--stream names axis {stream.axis} of input {given!r}, whose shape in {name} is {extents}: give "
                f"{_flag(given)}:AXIS with its time axis, from 0 on",
                of_inputs=True,
            )
        axis = stream.axis % len(extents)
        window = extents[axis]
        if window < _LEAST_FRAMES:
            raise ModelError(
                f"--stream names axis {axis} of input {given!r}, which has {'one element' if window else 'no elements'}"
                f" (its shape in {name} is {extents}), and there is nothing to keep of such a window: is it the time "
                f"axis? give {_flag(given)}:AXIS with that one",
                of_inputs=True,
            )
        if not 1 <= stream.hop <= window:
            raise ModelError(
                f"--stream gives a step {stream.hop} frames of input {given!r}, and its window in {name} has {window}: "
                f"give {_flag(given)}:{axis}=HOP with a HOP of 1 to {window}",
                of_inputs=True,
            )
        found[given] = InputStream(axis, stream.hop)
        steps[given] = Fraction(window, stream.hop)
    first, *others = steps
    for other in others:
        if steps[other] != steps[first]:
            raise ModelError(
                f"the window of input {first!r} of {name} is {float(steps[first]):g} steps long, and that of {other!r} "
                f"{float(steps[other]):g}; choose a HOP for each so that they are equally many"
            )
    return found


def _flag(name: str) -> str:
    return f"--stream {name if name.isprintable() else repr(name)}"
