"""Operators that move elements: the time axis is where it was, or somewhere else, or part of another axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.streaming.rules.attributes import Rule, attributes_of, constant_input, integers, one_row
from edgetune.frontend.onnx.streaming.rules.sliding import identity, padded
from edgetune.frontend.onnx.streaming.step_graph import StepGraph


def transpose(step: StepGraph, node: onnx.NodeProto) -> None:
    """The time axis moves."""
    name = node.input[0]
    order = attributes_of(node).get("perm", list(range(len(step.shape(name))))[::-1])
    step.through(node, list(order).index(step.frames[name].axis))


def reshape(step: StepGraph, node: onnx.NodeProto) -> None:
    """Reshape and Flatten: the time axis may stay whole, at another place."""
    name, output = node.input[0], node.output[0]
    if step.timed(node) != [name]:
        raise UnsupportedOperator("has a shape that depends on a stream; make it a constant")
    before, after = step.shape(name), step.shape(output)
    axis = _moved(before, after, step.frames[name].axis)
    if axis is None:
        step.whole(node)
        return
    shape = list(after)
    shape[axis] = step.frames[name].count
    target = step.constant(np.array(shape, np.int64))
    single = onnx.helper.make_node("Reshape", [name, target], [output], name=node.name)
    step.through(single, axis)


def _moved(before: Sequence[int], after: Sequence[int], axis: int) -> int | None:
    """Where an axis is after a reshape that keeps it whole, None where none does.

    An axis of extent 1 may be any other of these, or be gone. It is the one at the same place, where there is one.
    """
    places = [
        place
        for place, extent in enumerate(after)
        if extent == before[axis]
        and prod(after[:place]) == prod(before[:axis])
        and prod(after[place + 1 :]) == prod(before[axis + 1 :])
    ]
    if before[axis] > 1:
        return places[0] if places else None
    return axis if axis in places and len(after) >= len(before) else None


def squeeze(step: StepGraph, node: onnx.NodeProto) -> None:
    """The time axis stays, unless it is removed itself."""
    name = node.input[0]
    shape, axis = step.shape(name), step.frames[name].axis
    named = integers(step, node, 1, "axes")
    axes = {one % len(shape) for one in named} if named else {at for at, extent in enumerate(shape) if extent == 1}
    if axis in axes:
        step.whole(node)
        return
    removed = step.constant(np.array(sorted(axes), np.int64))
    other = onnx.helper.make_node("Squeeze", [name, removed], node.output, name=node.name)
    step.through(other, axis - sum(one < axis for one in axes))


def unsqueeze(step: StepGraph, node: onnx.NodeProto) -> None:
    """The axes before the time axis stay the same ones."""
    name = node.input[0]
    rank = len(step.shape(node.output[0]))
    added = {one % rank for one in integers(step, node, 1, "axes") or []}
    step.through(node, [at for at in range(rank) if at not in added][step.frames[name].axis])


def concat(step: StepGraph, node: onnx.NodeProto) -> None:
    """Streams and constants side by side, along another axis than time."""
    names = step.timed(node)
    axis = {step.frames[name].axis for name in names}
    along = attributes_of(node)["axis"] % len(step.shape(node.output[0]))
    if len(names) == 1 and along in axis and node.input[-1] == names[0]:
        _behind(step, node, along)
        return
    if len(axis) > 1 or along in axis:
        step.whole(node)
        return
    (time,) = axis
    count = step.frames[names[0]].count
    inputs = {name: one_row(step, name, time, count) for name in node.input if name not in step.frames}
    step.through(node, time, inputs)


def _behind(step: StepGraph, node: onnx.NodeProto, axis: int) -> None:
    """Constant frames, followed by a stream: they are padding where all of them are the same."""
    *first, name = node.input
    if name in first or any(one not in step.constants for one in first):
        step.whole(node)
        return
    rows = np.concatenate([step.constants[one] for one in first], axis)
    if (rows != rows.take([0], axis)).any():
        step.whole(node)
        return
    padded(step, identity(node, name), rows.shape[axis], 0, rows.take([0], axis))


def split(step: StepGraph, node: onnx.NodeProto) -> None:
    """Parts along another axis than time."""
    name = node.input[0]
    axis = step.frames[name].axis
    if attributes_of(node).get("axis", 0) % len(step.shape(name)) == axis:
        step.whole(node)
        return
    step.through(node, axis)


def expand(step: StepGraph, node: onnx.NodeProto) -> None:
    """Repeats along other axes than time."""
    name, output = node.input[0], node.output[0]
    shape = list(step.shape(output))
    frames = step.frames[name]
    axis = frames.axis + len(shape) - len(step.shape(name))
    if shape[axis] != frames.extent:
        step.whole(node)
        return
    shape[axis] = frames.count
    step.through(node, axis, {node.input[1]: step.constant(np.array(shape, np.int64))})


def tile(step: StepGraph, node: onnx.NodeProto) -> None:
    """Repeats along other axes than time."""
    axis, repeats = step.frames[node.input[0]].axis, integers(step, node, 1, "repeats") or []
    if repeats[axis] != 1:
        step.whole(node)
        return
    step.through(node, axis)


def resize(step: StepGraph, node: onnx.NodeProto) -> None:
    """Other axes than time become longer or shorter."""
    name, output = node.input[0], node.output[0]
    attributes, shape, frames = attributes_of(node), list(step.shape(output)), step.frames[name]
    mode = attributes.get("coordinate_transformation_mode", "half_pixel")
    if shape[frames.axis] != frames.extent or mode == "tf_crop_and_resize":
        raise UnsupportedOperator("changes the number of frames; use a ConvTranspose, or leave it out")
    scales = np.array(shape, np.float32) / np.array(step.shape(name), np.float32)
    given = constant_input(step, node, 2)
    if given is not None and given.size == len(shape):
        scales = given
    inputs = [name, "", step.constant(scales)]
    other = onnx.helper.make_node("Resize", inputs, [output], name=node.name)
    kept = {"axes", "keep_aspect_ratio_policy"}
    other.attribute.extend(attribute for attribute in node.attribute if attribute.name not in kept)
    step.through(other, frames.axis)


ARRANGING: Mapping[str, Rule] = {
    "Concat": concat,
    "Expand": expand,
    "Flatten": reshape,
    "Reshape": reshape,
    "Resize": resize,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
