"""Operators that slide a kernel along axes, and padding: convolutions, pooling, Pad.

Along time, a step computes a convolution without padding of the rows that it keeps and of its new ones. TensorFlow
Lite Micro's streaming models and tract's `pulse` (Sonos) do the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.streaming.rules.attributes import Rule, attributes_of, constant_input, integers
from edgetune.frontend.onnx.streaming.step_graph import StepGraph


@dataclass(frozen=True)
class _Kernel:
    """How a kernel slides along time: it reads `reach` frames, and `left` and `right` stand around the window."""

    reach: int
    stride: int
    left: int
    right: int


def _pads(node: onnx.NodeProto, kernel: Sequence[int], extents: Sequence[int]) -> list[int]:
    """Padding at the beginnings and ends of all axes that a kernel slides along."""
    attributes, rank = attributes_of(node), len(kernel)
    kind = attributes.get("auto_pad", "NOTSET")
    if kind in {"NOTSET", "VALID"}:
        return list(attributes.get("pads", [])) if kind == "NOTSET" and "pads" in attributes else [0] * (2 * rank)
    strides, dilations = attributes.get("strides", [1] * rank), attributes.get("dilations", [1] * rank)
    sizes = zip(kernel, extents, strides, dilations, strict=True)
    whole = [max(0, (-(-extent // s) - 1) * s + (k - 1) * d + 1 - extent) for k, extent, s, d in sizes]
    less, more = [one // 2 for one in whole], [one - one // 2 for one in whole]
    return less + more if kind == "SAME_UPPER" else more + less


def _slides(
    step: StepGraph, node: onnx.NodeProto, kernel: Sequence[int], fill: float, *, needs_fill: bool = True
) -> None:
    """Writes the step of a node that slides `kernel` along the axes from 2 on; `fill` is what padding counts as."""
    name, output = node.input[0], node.output[0]
    if step.timed(node) != [name]:
        raise UnsupportedOperator("has weights that depend on a stream; make them constants")
    if len([one for one in node.output if one]) > 1:
        raise UnsupportedOperator("returns the places of its results in the window; leave this output out")
    frames = step.frames[name]
    if frames.axis == 0:
        step.through(node, 0)
        return
    if frames.axis == 1:
        step.whole(node)
        return
    at, rank, shape = frames.axis - 2, len(kernel), step.shape(name)
    attributes = attributes_of(node)
    strides, dilations = attributes.get("strides", [1] * rank), attributes.get("dilations", [1] * rank)
    pads, extent = _pads(node, kernel, shape[2:]), step.shape(output)[frames.axis]
    along = _Kernel((kernel[at] - 1) * dilations[at] + 1, strides[at], pads[at], pads[at + rank])
    if (
        frames.count % along.stride and extent == 1
    ):  # one result for the window: how far the next one is does not matter
        step.whole(node)
        return
    if frames.count % along.stride:
        raise UnsupportedOperator(
            f"advances by {along.stride} frames, which does not divide the {frames.count} that a step has here; choose "
            f"a HOP {along.stride // gcd(along.stride, frames.count)} times as large"
        )
    if along.left and not needs_fill:
        raise UnsupportedOperator(
            "pads before the first frame and does not count this padding; set count_include_pad, or do not pad"
        )
    is_ceiled = bool(attributes.get("ceil_mode", 0))
    latency, source = _rows(step, name, along, fill, is_ceiled=is_ceiled)
    changed: dict[str, Any] = {
        "auto_pad": None,
        "pads": [0 if place % rank == at else pad for place, pad in enumerate(pads)],
        "strides": [along.stride if place == at else stride for place, stride in enumerate(strides)],
    }
    step.copy(node, {name: source}, **changed)
    reached = along.left + frames.touched
    touched = min(extent, -(-reached // along.stride)) if reached > 0 else 0
    count, beyond = frames.count // along.stride, along.left + frames.extent - frames.touched_after - along.reach + 1
    step.frames[output] = replace(
        frames,
        count=count,
        extent=extent,
        latency=latency,
        touched=touched,
        touched_after=max(0, min(extent, extent - -(-beyond // along.stride))),
        aligned=frames.aligned and (frames.steps * count).denominator == 1,
        before=None,
    )


def _rows(step: StepGraph, name: str, along: _Kernel, fill: float, *, is_ceiled: bool) -> tuple[int, str]:
    """The latency of the result, and the rows that a step reads.

    The frame that a step computes first begins with the first of these rows, so their number decides about the phase.
    """
    frames = step.frames[name]
    least = along.reach - along.stride  # negative: the first rows of a step are skipped
    if frames.latency >= 0 or frames.is_early:  # no result before the first one: it would have to be known
        least = max(least, along.left - frames.latency)
    rows = least + (along.left - frames.latency - least) % along.stride
    latency = (frames.latency + rows - along.left) // along.stride
    source = step.kept(name, max(0, rows), fill if along.left else None)
    skipped, needed = max(0, -rows), frames.count - along.stride + along.reach
    spare = frames.count + rows - needed
    if skipped or spare >= along.stride or (spare and is_ceiled):
        source = step.cut(source, frames.axis, skipped, skipped + needed)
    return latency, source


def _convolution(weights: int, zero: int | None) -> Rule:
    """The rule of a convolution whose weights are at an input, as is the integer that stands for 0."""

    def rule(step: StepGraph, node: onnx.NodeProto) -> None:
        point = None if zero is None else constant_input(step, node, zero)
        if point is not None and point.size > 1:
            raise UnsupportedOperator("has several zero points of what it reads; use one")
        fill = 0.0 if point is None else float(point.ravel()[0])
        _slides(step, node, step.shape(node.input[weights])[2:], fill)

    return rule


def _average(step: StepGraph, node: onnx.NodeProto) -> None:
    attributes = attributes_of(node)
    counts = bool(attributes.get("count_include_pad", 0))
    _slides(step, node, attributes["kernel_shape"], 0.0, needs_fill=counts)


def _norm(step: StepGraph, node: onnx.NodeProto) -> None:
    _slides(step, node, attributes_of(node)["kernel_shape"], 0.0)


def _maximum(step: StepGraph, node: onnx.NodeProto) -> None:
    dtype = step.dtype(node.input[0])
    least = float(np.iinfo(dtype).min) if dtype.kind in "iu" else -np.inf
    _slides(step, node, attributes_of(node)["kernel_shape"], least)


def _pad(step: StepGraph, node: onnx.NodeProto) -> None:
    name, rank = node.input[0], len(step.shape(node.input[0]))
    frames, kind = step.frames[name], attributes_of(node).get("mode", "constant")
    axes = integers(step, node, 3, "axes") or list(range(rank))
    axes = [axis % rank for axis in axes]
    pads = integers(step, node, 1, "pads")
    if pads is None or step.timed(node) != [name]:
        raise UnsupportedOperator("has pads that depend on a stream; make them constants")
    at = axes.index(frames.axis) if frames.axis in axes else None
    left, right = (0, 0) if at is None else (pads[at], pads[at + len(axes)])
    if (left or right) and kind != "constant":
        raise UnsupportedOperator(
            f"pads along time in the mode {kind!r}, which needs frames to come; pad with constants"
        )
    value = constant_input(step, node, 2)
    fill = np.zeros((), step.dtype(name)) if value is None else value.reshape(()).astype(step.dtype(name))
    rest = [0 if place % len(axes) == at else pad for place, pad in enumerate(pads)]
    other = onnx.NodeProto()
    other.CopyFrom(node)
    other.input[1] = step.constant(np.array(rest, np.int64))
    padded(step, other if any(rest) else identity(node, name), left, right, fill)


def padded(step: StepGraph, node: onnx.NodeProto, left: int, right: int, fill: np.ndarray) -> None:
    """Writes a node of which a step has its first operand's frames, and the window has frames before and after these.

    Those are `fill`, an element or a frame. Where their number is negative, the window lacks so many of its own.
    """
    name, output = node.input[0], node.output[0]
    frames = step.frames[name]
    if not left:
        step.through(node, frames.axis)
        found, extent = step.frames[output], step.shape(output)[frames.axis]
        after = max(0, min(extent, right + found.touched_after))
        step.frames[output] = replace(found, extent=extent, touched_after=after)
        return
    is_wrong = frames.is_early and (left < 0 or not np.all(frames.before == fill))
    if is_wrong or (left > 0 and frames.latency > 0):
        name = _ready(step, name, fill)
        frames = step.frames[name]
    step.copy(node, {node.input[0]: name})
    shape = list(step.shape(output))
    extent, shape[frames.axis] = shape[frames.axis], 1
    before = np.broadcast_to(fill, shape).astype(step.dtype(output)) if left > 0 else None
    step.frames[output] = replace(
        frames,
        extent=extent,
        latency=frames.latency - left,
        touched=max(0, min(extent, left + frames.touched)),
        touched_after=max(0, min(extent, right + frames.touched_after)),
        before=before,
    )


def identity(node: onnx.NodeProto, name: str) -> onnx.NodeProto:
    """A node that returns `name` in place of `node`."""
    return onnx.helper.make_node("Identity", [name], node.output, name=node.name)


def _ready(step: StepGraph, name: str, fill: np.ndarray) -> str:
    """A value whose frames before the first one are `fill`: masked, or delayed until its first frame is one."""
    frames = step.frames[name]
    if frames.latency <= 0:
        return step.delayed(name, -frames.latency)
    masked = step.masked(name, fill)
    step.types[masked] = step.types[name]
    step.frames[masked] = frames
    return masked


def _transposed(step: StepGraph, node: onnx.NodeProto) -> None:
    """ConvTranspose: each frame is added to several ones, which are whole where none of these is to come."""
    name, output = node.input[0], node.output[0]
    frames, attributes = step.frames[name], attributes_of(node)
    if step.timed(node) != [name]:
        raise UnsupportedOperator("has weights that depend on a stream; make them constants")
    if frames.axis < 2:
        step.whole(node) if frames.axis else step.through(node, 0)
        return
    kernel, rank, at = step.shape(node.input[1])[2:], len(step.shape(name)) - 2, frames.axis - 2
    strides, dilations = attributes.get("strides", [1] * rank), attributes.get("dilations", [1] * rank)
    pads, added = list(attributes.get("pads", [0] * (2 * rank))), list(attributes.get("output_padding", [0] * rank))
    if attributes.get("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in attributes:
        raise UnsupportedOperator("takes its padding from the shape of its result; give it pads")
    if frames.is_early:
        name = step.delayed(name, -frames.latency)
        frames = step.frames[name]
    reach, stride = (kernel[at] - 1) * dilations[at] + 1, strides[at]
    rows = max(0, -(-(reach - stride) // stride))
    end = reach - stride
    left, touched = pads[at], max(0, frames.touched * stride + end - pads[at])
    pads[at], pads[at + rank], added[at] = rows * stride, max(0, end), max(0, -end)
    source = step.kept(name, rows, 0.0 if rows else None)
    step.copy(node, {node.input[0]: source}, pads=pads, output_padding=added)
    extent, whole = step.shape(output)[frames.axis], (frames.extent - frames.touched_after) * stride - left
    step.frames[output] = replace(
        frames,
        count=frames.count * stride,
        extent=extent,
        latency=frames.latency * stride + left,
        touched=min(extent, touched),
        touched_after=max(0, min(extent, extent - whole)),
        before=None,
    )


SLIDING: Mapping[str, Rule] = {
    "AveragePool": _average,
    "Conv": _convolution(1, None),
    "ConvInteger": _convolution(1, 2),
    "ConvTranspose": _transposed,
    "LpPool": _norm,
    "MaxPool": _maximum,
    "Pad": _pad,
    "QLinearConv": _convolution(3, 2),
}
