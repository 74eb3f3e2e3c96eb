"""Recurrent layers along time: their states at the end of a step are those at the beginning of the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.streaming.rules.attributes import Rule, attributes_of, constant_input, one_row
from edgetune.frontend.onnx.streaming.step_graph import StepGraph

_LENGTHS, _HIDDEN, _CELL = 4, 5, 6


def _recurrent(step: StepGraph, node: onnx.NodeProto) -> None:
    """RNN, GRU and LSTM in both layouts."""
    name, attributes = node.input[0], attributes_of(node)
    direction, layout = attributes.get("direction", "forward"), attributes.get("layout", 0)
    if step.timed(node) != [name]:
        raise UnsupportedOperator("has weights or first states that are frames of a stream; make them constants")
    frames = step.frames[name]
    if frames.axis == 1 - layout:
        _batch(step, node, layout)
        return
    if frames.axis != layout:
        step.whole(node)
        return
    if direction != "forward":
        raise UnsupportedOperator(
            f"is {direction}, so its first result needs the last frame; use direction=forward, and train again"
        )
    lengths = constant_input(step, node, _LENGTHS)
    if lengths is not None and (lengths != frames.extent).any():
        raise UnsupportedOperator("has sequences shorter than the window; leave sequence_lens out")
    # The states must not see frames before the first one, so either all frames of a step are such, or none is.
    late = -frames.latency if frames.is_early else -frames.latency % frames.count if frames.latency > 0 else 0
    name = step.delayed(name, late)
    frames = step.frames[name]
    places = (_HIDDEN, _CELL) if node.op_type == "LSTM" else (_HIDDEN,)
    written = onnx.NodeProto()
    written.CopyFrom(node)
    written.input[:] = [name, *list(node.input)[1:], *[""] * (places[-1] + 1 - len(node.input))]
    written.input[_LENGTHS] = ""
    outputs = [output if step.is_read(output) else "" for output in node.output]
    outputs += [""] * (1 + len(places) - len(outputs))
    finals = [output for output in outputs[1:] if output]
    frozen = step.is_before(np.array(frames.latency // frames.count)) if frames.latency > 0 else ""
    following: list[tuple[str, list[str], str]] = []
    for number, place in enumerate(places, 1):
        given = node.input[place] if place < len(node.input) else ""
        first = step.constants.get(given, np.zeros(_shape(step, node, layout), step.dtype(name)))
        now, after = step.state(next(filter(None, node.output)), first)
        if given and given not in step.constants:
            now = step.emit("Where", [step.is_before(np.array(1)), given, now])
        written.input[place] = now
        result = step.name(f"{now}_found") if frozen else after
        if frozen:
            following.append(("Where", [frozen, now, result], after))
        if outputs[number]:
            following.append(("Identity", [after], outputs[number]))
        outputs[number] = result
    step.copy(written, outputs=outputs)
    for operator, inputs, output in following:
        step.emit(operator, inputs, output)
    if node.output[0]:
        step.frames[node.output[0]] = replace(frames, touched=frames.extent, before=None)
    if finals:
        step.settle(finals, step.last_frame(frames), endless=True)


def _batch(step: StepGraph, node: onnx.NodeProto, layout: int) -> None:
    """Frames are the batch, and the layer goes along another axis of each: it has no state."""
    count, inputs = step.frames[node.input[0]].count, {}
    for place, axis in ((_LENGTHS, 0), (_HIDDEN, 1 - layout), (_CELL, 1 - layout)):
        if place < len(node.input) and node.input[place]:
            inputs[node.input[place]] = one_row(step, node.input[place], axis, count)
    step.through(node, [0, 0, 0] if layout else [2, 1, 1], inputs)


def _shape(step: StepGraph, node: onnx.NodeProto, layout: int) -> tuple[int, ...]:
    """The shape of a state: directions, batch and features, or batch first."""
    batch, features = step.shape(node.input[0])[1 - layout], step.shape(node.input[2])[-1]
    return (batch, 1, features) if layout else (1, batch, features)


RECURRENT: Mapping[str, Rule] = dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent)
