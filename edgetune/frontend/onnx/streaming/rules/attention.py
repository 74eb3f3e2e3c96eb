"""Attention over the last frames: each frame of a step against the keys and values of the frames before it.

Of the scores of all frames of a window against all others, a mask leaves a band: those of the last n frames, whose
weights depend on how far back a frame is, and on nothing else. A step computes the rows of its own frames, against the
keys of n - 1 frames before them, which are a state.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.nested_graphs import reads
from edgetune.frontend.onnx.streaming.frames import Band
from edgetune.frontend.onnx.streaming.rules.attributes import Rule, attributes_of
from edgetune.frontend.onnx.streaming.step_graph import StepGraph

_NEGLIGIBLE = -1e4
"""A score that is less by this has no weight: e to the power of it is 0 in float32 and float64."""
_LOWEST = -1e30
"""The score of a frame before the reset. It is finite, so that a step that has only such frames makes no NaN."""
_SCALING = frozenset({"Cast", "Div", "Dropout", "Identity", "Mul"})


def scores(step: StepGraph, node: onnx.NodeProto) -> bool:
    """Writes a product of queries, whose rows are frames, and keys, whose columns are; whether that is what it is."""
    queries, keys = node.input
    if {queries, keys} - step.frames.keys() or {queries, keys} & step.bands.keys():
        return False
    places = [step.frames[name].axis - len(step.shape(name)) for name in (queries, keys)]
    frames = [step.frames[name] for name in (queries, keys)]
    if places != [-2, -1] or len({(one.count, one.extent, one.steps) for one in frames}) > 1:
        return False
    weights = _weights(step, node.output[0], frames[0].extent)
    if weights is None:
        return False
    latest = max(one.latency for one in frames)
    queries, keys = (step.delayed(name, latest - step.frames[name].latency) for name in (queries, keys))
    last = weights.shape[-1]
    joined = step.kept(keys, last - 1)
    step.copy(node, {node.input[0]: queries, node.input[1]: joined})
    touched = max(step.frames[queries].touched, step.frames[keys].touched + last - 1)
    step.attends(node.output[0], queries, touched, Band(last, latest))
    return True


def _weights(step: StepGraph, name: str, extent: int) -> np.ndarray | None:
    """What the mask behind scores adds to that of the frame d before, for each d of the band; None without a band."""
    outputs = {value.name for value in step.proto.graph.output}
    while True:
        readers = [node for node in step.proto.graph.node if name in reads(node)]
        if len(readers) != 1 or name in outputs:
            return None
        added = _added(step, readers[0], name)
        if added is not None:
            return _band(added) if added.shape[-2:] == (extent, extent) else None
        if readers[0].op_type not in _SCALING or not _is_scaling(step, readers[0], name):
            return None
        name = readers[0].output[0]


def _is_scaling(step: StepGraph, node: onnx.NodeProto, name: str) -> bool:
    return all(step.constants[one].size == 1 for one in node.input if one and one != name and one in step.constants)


def _added(step: StepGraph, node: onnx.NodeProto, name: str) -> np.ndarray | None:
    """What a node adds to scores, -inf for those that it replaces by negligible ones; None for another node."""
    others = [step.constants.get(one) for one in node.input if one != name]
    if any(other is None for other in others):
        return None
    known = [other for other in others if other is not None]
    if node.op_type == "Add" and len(known) == 1 and known[0].ndim > 1:
        return known[0].astype(np.float64)
    if node.op_type == "Where" and len(known) == 2 and known[0].ndim > 1 and (known[1] <= _NEGLIGIBLE).all():
        kept = known[0] if node.input[1] == name else ~known[0]
        return np.where(kept, 0.0, -np.inf)
    return None


def _band(added: np.ndarray) -> np.ndarray | None:
    """The weights of a band by how far back a frame is, along the last axis; None where they depend on more."""
    extent = added.shape[-1]
    far = np.arange(extent)[:, None] - np.arange(extent)
    known = far[(added > _NEGLIGIBLE).reshape(-1, extent, extent).any(0)]
    if known.size == 0 or known.min() < 0:
        return None
    diagonals = [np.diagonal(added, -back, -2, -1) for back in range(int(known.max()) + 1)]
    if any((diagonal != diagonal[..., :1]).any() for diagonal in diagonals):
        return None
    return np.stack([diagonal[..., 0] for diagonal in diagonals], -1)


def masks(step: StepGraph, node: onnx.NodeProto, name: str) -> bool:
    """Writes the node that masks scores; whether it does."""
    added = _added(step, node, name)
    if added is None or step.bands[name].masked:
        return False
    weights, band, frames = _band(added), step.bands[name], step.frames[name]
    if weights is None:
        return False
    back = np.arange(frames.count)[:, None] + band.last - 1 - np.arange(band.last - 1 + frames.count)
    mask = np.where((back >= 0) & (back < band.last), weights[..., back.clip(0, band.last - 1)], -np.inf)
    dtype = step.dtype(node.output[0])
    scored = step.emit("Add", [name, step.constant(mask.astype(dtype))])
    # Column j of step k is the key of frame k * count - latency - (last - 1) + j.
    first = -(-(band.latency + band.last - 1 - np.arange(mask.shape[-1])) // frames.count)
    lowest = step.constant(np.array(max(_LOWEST, np.finfo(dtype).min), dtype))
    step.emit("Where", [step.is_before(first), lowest, scored], node.output[0])
    step.attends(node.output[0], name, frames.touched, Band(band.last, band.latency, masked=True))
    return True


def banded(step: StepGraph, node: onnx.NodeProto) -> None:
    """A node that reads scores: it masks them, computes each of itself or of its row, or sums values by them."""
    of = [name for name in step.timed(node) if name in step.bands]
    rule = _OF_SCORES.get(node.op_type)
    if len(of) == 1 and masks(step, node, of[0]):
        return
    if rule is None or len({step.bands[name] for name in of}) > 1:
        raise UnsupportedOperator(
            "reads scores of attention over the last frames, and has no form for a step; use softmax, and products "
            "with values"
        )
    rule(step, node)


def _each(step: StepGraph, node: onnx.NodeProto) -> None:
    names = step.timed(node)
    others = [step.shape(name) for name in node.input if name and name not in names]
    if any(name not in step.bands for name in names) or any(set(shape[-2:]) - {1} for shape in others):
        raise UnsupportedOperator(
            "joins scores of attention with what is not the same for all frames; leave out what depends on the place "
            "of a frame"
        )
    band, frames = step.bands[names[0]], step.frames[names[0]]
    step.copy(node)
    for output in filter(None, node.output):
        step.attends(output, names[0], frames.touched, band)


def _row(step: StepGraph, node: onnx.NodeProto) -> None:
    rank = len(step.shape(node.input[0]))
    if attributes_of(node).get("axis", -1) % rank != rank - 1:
        raise UnsupportedOperator("goes along the queries of attention, which a step does not have; use the keys")
    _each(step, node)


def _sum(step: StepGraph, node: onnx.NodeProto) -> None:
    weights, values = node.input
    band = step.bands.get(weights)
    frames = step.frames.get(values)
    is_rows = frames is not None and frames.axis == len(step.shape(values)) - 2
    if band is None or frames is None or not is_rows or values in step.bands or frames.latency > band.latency:
        raise UnsupportedOperator(
            "sums by scores of attention what are not the values of the same frames; use values made of the frames of "
            "the keys"
        )
    if not band.masked:
        raise UnsupportedOperator("sums values by scores of attention that are not masked; mask them before")
    values = step.delayed(values, band.latency - frames.latency)
    joined = step.kept(values, band.last - 1)
    step.copy(node, {node.input[1]: joined})
    scored = step.frames[weights]
    touched = max(scored.touched, step.frames[values].touched + band.last - 1)
    step.follows(node.output[0], weights, len(step.shape(node.output[0])) - 2, touched)


_ELEMENTS = (
    *("Add", "And", "Cast", "Clip", "DequantizeLinear", "Div", "Dropout", "Equal", "Exp", "Identity", "IsInf", "IsNaN"),
    *("Mul", "Neg", "Not", "QuantizeLinear", "Sigmoid", "Sub", "Tanh", "Where"),
)

_OF_SCORES: Mapping[str, Rule] = {
    **dict.fromkeys(_ELEMENTS, _each),
    "Softmax": _row,
    "LogSoftmax": _row,
    "MatMul": _sum,
}
