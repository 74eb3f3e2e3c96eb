"""Slice and Gather: rows of other axes, the last frame, or a window without its first and last frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.streaming.rules.attributes import Rule, attributes_of, constant_input, integers
from edgetune.frontend.onnx.streaming.step_graph import StepGraph


def slice_(step: StepGraph, node: onnx.NodeProto) -> None:
    """Along time: the last frame, or all without some at the beginning and end."""
    name, output = node.input[0], node.output[0]
    shape, frames = step.shape(name), step.frames[name]
    starts, ends = integers(step, node, 1, "starts"), integers(step, node, 2, "ends")
    if starts is None or ends is None or step.timed(node) != [name]:
        raise UnsupportedOperator("has bounds that depend on a stream; make them constants")
    axes = [axis % len(shape) for axis in integers(step, node, 3, "axes") or range(len(starts))]
    steps = integers(step, node, 4, "steps") or [1] * len(starts)
    if frames.axis not in axes:
        step.through(node, frames.axis)
        return
    at = axes.index(frames.axis)
    start, end, _ = slice(starts[at], ends[at], steps[at]).indices(frames.extent)
    if steps[at] != 1:
        step.whole(node)
        return
    rest = [place for place in range(len(axes)) if place != at]
    bounds = [[values[place] for place in rest] for values in (starts, ends, axes, steps)]
    inputs = [name, *(step.constant(np.array(values, np.int64)) for values in bounds)]
    other = onnx.helper.make_node("Slice", inputs, [output], name=node.name)
    if not rest:
        other = onnx.helper.make_node("Identity", [name], [output], name=node.name)
    if end == frames.extent and start == end - 1 and frames.extent > 1:
        _last(step, name, other)
        return
    if frames.is_early and start:
        other.input[0] = step.delayed(name, -frames.latency)
    step.through(other, frames.axis)
    found, extent = step.frames[output], end - start
    step.frames[output] = replace(
        found,
        extent=extent,
        latency=found.latency + start,
        touched=max(0, min(found.touched - start, extent)),
        touched_after=max(0, min(found.touched_after - (found.extent - end), extent)),
    )


def gather(step: StepGraph, node: onnx.NodeProto) -> None:
    """Rows of another axis, the last frame, or rows of a table by what a stream says."""
    name, indices = node.input
    along = attributes_of(node).get("axis", 0) % len(step.shape(name))
    if name not in step.frames:
        step.through(node, step.frames[indices].axis + along)
        return
    frames = step.frames[name]
    if indices in step.frames:
        step.whole(node)
        return
    if along != frames.axis:
        step.through(node, frames.axis + (len(step.shape(indices)) - 1 if along < frames.axis else 0))
        return
    places = constant_input(step, node, 1)
    if places is not None and places.size == 1 and int(places.ravel()[0]) % frames.extent == frames.extent - 1:
        zero = step.constant(np.zeros(places.shape, np.int64))
        _last(step, name, node, {indices: zero})
        return
    step.whole(node)


def _last(step: StepGraph, name: str, node: onnx.NodeProto, inputs: Mapping[str, str] | None = None) -> None:
    """Writes a node that reads the last frame of `name` alone; what layers before it found before the window counts."""
    window, settled = step.window(name, last=1)
    step.copy(node, {name: window, **(inputs or {})})
    frames = step.frames[name]
    step.settle(node.output, settled, endless=frames.touched >= frames.extent)


SELECTING: Mapping[str, Rule] = {"Gather": gather, "Slice": slice_}
