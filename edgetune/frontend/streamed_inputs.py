"""Streamed inputs: whether those that a user names are there, and have so many frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgetune.config.input_stream import InputStream
from edgetune.errors import ModelError
from edgetune.frontend.model_facts import InterfaceTensor


def checked_streams(
    inputs: Sequence[InterfaceTensor], streams: Mapping[str, InputStream], name: str
) -> dict[str, InputStream]:
    """`streams` with axes from 0 on; `name` is that of the model.

    Raises ModelError for an input, an axis or a number of frames that the model has not.
    """
    shapes = {one.name: one.shape for one in inputs}
    found: dict[str, InputStream] = {}
    if not streams:
        raise ModelError(f"no input of {name} is a stream; name one of {', '.join(sorted(shapes))}")
    for given, stream in streams.items():
        if given not in shapes:
            raise ModelError(
                f"{name} has no input {given!r} to be a stream; its inputs are {', '.join(sorted(shapes))}"
            )
        shape = shapes[given]
        if shape is None or not all(isinstance(extent, int) for extent in shape):
            raise ModelError(f"the shape of input {given!r} of {name} is not known; export it with fixed shapes")
        if not -len(shape) <= stream.axis < len(shape):
            raise ModelError(f"input {given!r} of {name} has the shape {list(shape)}, and no axis {stream.axis}")
        axis = stream.axis % len(shape)
        window = int(shape[axis])
        if not 1 <= stream.hop <= window:
            raise ModelError(
                f"a step cannot have {stream.hop} frames of input {given!r} of {name}, whose window has {window}; "
                f"choose a HOP of 1 to {window}"
            )
        found[given] = InputStream(axis, stream.hop)
    return found
