"""Stream in a manifest: streamed inputs and stepped outputs are those of the package, with the frames of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from edgetune.package.manifest_part import ClosedPart, Count


class StreamedPart(ClosedPart):
    """An input that comes frame by frame."""

    name: str
    axis: Count
    hop: Annotated[int, Field(ge=1)]
    window: Annotated[int, Field(ge=1, lt=1 << 31)]


class SteppedPart(ClosedPart):
    """An output of a step."""

    name: str
    settled: Count
    axis: Annotated[int, Field(ge=-1)]
    frames: Count
    latency: int
    endless: bool = False


class StreamPart(ClosedPart):
    """What a package of one step knows of its window."""

    inputs: Annotated[list[StreamedPart], Field(min_length=1)]
    outputs: Annotated[list[SteppedPart], Field(min_length=1)]
    latency_frames: Annotated[int, Field(ge=0, lt=1 << 31)]
    step_macs: Count
    window_macs: Count
    step_ram: Count
    window_ram: Count


Shapes = Mapping[str, Sequence[int]]


def require_frames(stream: StreamPart, inputs: Shapes, outputs: Shapes) -> None:
    """Raise ValueError where `stream` names what is not there, or other frames than the shapes have.

    Shapes are by name, with the axes in the order of the model. `outputs` has states as well, which a user may make of
    outputs of a step.
    """
    _require_names("input", [one.name for one in stream.inputs], inputs)
    _require_names("output", [one.name for one in stream.outputs], outputs)
    for streamed in stream.inputs:
        _require_extent(f"the input {streamed.name!r}", inputs[streamed.name], streamed.axis, streamed.hop)
        if streamed.hop > streamed.window:
            raise ValueError(
                f"gives a step {streamed.hop} frames of the input {streamed.name!r}, and its window {streamed.window}"
            )
    for stepped in stream.outputs:
        if stepped.axis >= 0:
            _require_extent(f"the output {stepped.name!r}", outputs[stepped.name], stepped.axis, stepped.frames)
        if stepped.settled * stream.inputs[0].hop > stream.latency_frames:
            raise ValueError(
                f"says that the output {stepped.name!r} counts from step {stepped.settled} on, after the latency"
            )


def _require_names(what: str, names: Sequence[str], there: Shapes) -> None:
    for name in names:
        if name not in there:
            raise ValueError(f"names the {what} {name!r}, which the package does not have")
        if names.count(name) > 1:
            raise ValueError(f"names the {what} {name!r} twice")


def _require_extent(tensor: str, shape: Sequence[int], axis: int, frames: int) -> None:
    if not frames or axis >= len(shape) or shape[axis] != frames:
        raise ValueError(f"gives {tensor} {frames} frames along axis {axis}, and its shape is {[*shape]}")
