"""Attention over the last frames: each frame of a step against the keys and values of the frames before it.

Of the scores of all frames of a window against all others, a mask leaves a band: those of the last n frames, whose
weights depend on how far back a frame is, and on nothing else. A step computes the rows of its own frames, against the
keys of n - 1 frames before them, which are a state.

A step lacks the scores that the mask excludes. The rules compute what nodes after the mask make of these. It has to be
0 where values are summed. Where it is not, a rule raises UnsupportedOperator, and the product of queries and
keys reads the whole window instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.nested_graphs import reads
from edgetune.frontend.onnx.streaming.frames import Band
from edgetune.frontend.onnx.streaming.node_results import results_of
from edgetune.frontend.onnx.streaming.rules.attributes import attributes_of
from edgetune.frontend.onnx.streaming.rules.elementwise import ELEMENTWISE
from edgetune.frontend.onnx.streaming.step_graph import StepGraph

_NEGLIGIBLE = -1e4
"""A score that is less by this has no weight: e to the power of it is 0 in float32 and float64."""
_LOWEST = -1e30
"""The score that a step gives what it excludes. It is finite, so that frames before the reset make no NaN."""
_RANKED = frozenset(
    {"Add", "Cast", "Clip", "DequantizeLinear", "Div", "Dropout", "Identity", "Mul", "Neg", "QuantizeLinear"}
    | {"Sigmoid", "Sub", "Tanh"}
)
"""What scores may pass before their mask, and before softmax: none makes numbers as large as those of a mask."""


@dataclass(frozen=True)
class _Mask:
    """A mask that leaves a band: what it adds to that of the frame d before, for each d along the last axis.

    `excluded` are the least and the largest number that it adds to scores outside the band, or replaces them by.
    """

    weights: np.ndarray
    excluded: tuple[float, ...]

    @property
    def last(self) -> int:
        """How many frames the band has."""
        return int(self.weights.shape[-1])


def scores(step: StepGraph, node: onnx.NodeProto) -> bool:
    """Writes a product of queries, whose rows are frames, and keys, whose columns are; whether that is what it is."""
    queries, keys = node.input
    if {queries, keys} - step.frames.keys() or node.output[0] in step.unbanded:
        return False
    places = [step.frames[name].axis - len(step.shape(name)) for name in (queries, keys)]
    frames = [step.frames[name] for name in (queries, keys)]
    if places != [-2, -1] or len({(one.count, one.extent, one.steps) for one in frames}) > 1:
        return False
    mask = _mask_behind(step, node.output[0], frames[0].extent)
    if mask is None:
        return False
    latest = max(one.latency for one in frames)
    if any(one.is_early for one in frames):  # frames before the first one are padding, and have scores
        latest = max(latest, 0)
    queries, keys = (step.delayed(name, latest - step.frames[name].latency) for name in (queries, keys))
    step.copy(node, {node.input[0]: queries, node.input[1]: step.kept(keys, mask.last - 1)})
    band = Band(frozenset([node.output[0]]), mask.last, latest)
    step.attends(node.output[0], [queries, keys], mask.last, band)
    return True


def _mask_behind(step: StepGraph, name: str, extent: int) -> _Mask | None:
    """The mask that scores pass after nodes that compute each of itself; None where they pass another node before."""
    outputs = {value.name for value in step.proto.graph.output}
    while name not in outputs:
        readers = [node for node in step.proto.graph.node if name in reads(node)]
        if len(readers) != 1:
            return None
        (reader,) = readers
        added = _added(step, reader, name)
        if added is not None:
            return _band(added) if added.shape[-2:] == (extent, extent) else None
        others = [one for one in reader.input if one and one != name]
        if not _is_ranked(reader, name) or not _is_same_for_all(step, others):
            return None
        name = reader.output[0]
    return None


def _is_ranked(node: onnx.NodeProto, name: str) -> bool:
    """Whether a node scales or limits the scores that it reads first."""
    return node.op_type in {"Add", "Mul"} or (node.op_type in _RANKED and node.input[0] == name)


def _is_same_for_all(step: StepGraph, operands: Sequence[str]) -> bool:
    """Whether operands beside scores have the same elements for all of the last two axes."""
    return all(set(step.shape(one)[-2:]) <= {1} for one in operands)


def _added(step: StepGraph, node: onnx.NodeProto, name: str) -> np.ndarray | None:
    """What a node adds to scores, or where it replaces some, 0 and what these become; None for another node."""
    others = [step.constants.get(one) for one in node.input if one != name]
    known = [other for other in others if other is not None]
    if len(known) < len(others):
        return None
    if node.op_type == "Add" and len(known) == 1 and known[0].ndim > 1:
        return known[0].astype(np.float64)
    if node.op_type == "Where" and len(known) == 2 and known[0].ndim > 1 and known[1].size == 1:
        kept = known[0] if node.input[1] == name else ~known[0]
        return np.where(kept, 0.0, known[1].astype(np.float64).ravel())
    return None


def _band(added: np.ndarray) -> _Mask | None:
    """The band of a mask; None where what it adds depends on more than how far back a frame is, or leaves it out."""
    extent = added.shape[-1]
    far = np.arange(extent)[:, None] - np.arange(extent)
    known = far[(added > _NEGLIGIBLE).reshape(-1, extent, extent).any(0)]
    if known.size == 0 or known.min() < 0:
        return None
    diagonals = [np.diagonal(added, -back, -2, -1) for back in range(int(known.max()) + 1)]
    if any((diagonal != diagonal[..., :1]).any() for diagonal in diagonals):
        return None
    weights = np.stack([diagonal[..., 0] for diagonal in diagonals], -1)
    if not (weights[..., 0] > _NEGLIGIBLE).all():  # a frame without any other before it would have no scores
        return None
    outside = added[..., (far < 0) | (far >= len(diagonals))]
    return _Mask(weights, (float(outside.min()), float(outside.max())) if outside.size else ())


def banded(step: StepGraph, node: onnx.NodeProto) -> None:
    """A node that reads scores: it masks them, computes each of itself or of its row, or sums values by them."""
    names = step.timed(node)
    if node.op_type in {"Add", "Where"} and len(names) == 1 and _masks(step, node, names[0]):
        return
    if node.op_type in ELEMENTWISE:
        _each(step, node)
    elif node.op_type in {"LogSoftmax", "Softmax"}:
        _row(step, node)
    elif node.op_type == "MatMul":
        _sum(step, node)
    else:
        raise UnsupportedOperator(
            "reads scores of attention over the last frames, and has no form for a step; use softmax, and products "
            "with values"
        )


def _masks(step: StepGraph, node: onnx.NodeProto, name: str) -> bool:
    """Writes the node that masks scores; whether it does."""
    band, frames, dtype = step.bands[name], step.frames[name], step.dtype(node.output[0])
    added = _added(step, node, name)
    mask = _band(added) if added is not None and added.shape[-2:] == (frames.extent, frames.extent) else None
    if mask is None or mask.last != band.last or dtype.kind != "f":
        return False
    lowest = max(_LOWEST, float(np.finfo(dtype).min))
    back = np.arange(frames.count)[:, None] + band.last - 1 - np.arange(band.last - 1 + frames.count)
    kept = np.where((back >= 0) & (back < band.last), mask.weights[..., back.clip(0, band.last - 1)], lowest)
    scored = step.emit("Add", [name, step.constant(kept.astype(dtype))])
    # Column j of step k is the key of frame k * count - latency - (last - 1) + j.
    first = -(-(band.latency + band.last - 1 - np.arange(kept.shape[-1])) // frames.count)
    fill = step.constant(np.array(lowest, dtype))
    step.emit("Where", [step.is_before(first), fill, scored], node.output[0])
    before = band.excluded or (0.0,)
    excluded = {
        lowest,
        *(added if node.op_type == "Where" else added + one for added in mask.excluded for one in before),
    }
    step.attends(node.output[0], [name], band=replace(band, excluded=tuple(sorted(excluded))))
    return True


def _each(step: StepGraph, node: onnx.NodeProto) -> None:
    """A node that computes each score of itself, or of those in the same place."""
    names = step.timed(node)
    bands = [step.bands[name] for name in names if name in step.bands]
    others = [name for name in node.input if name and name not in names]
    frames = [step.frames[name] for name in names]
    alike = {(one.last, one.latency) for one in bands}, {(one.count, one.extent, one.steps) for one in frames}
    if len(bands) < len(names) or not _is_same_for_all(step, others) or any(len(one) > 1 for one in alike):
        raise UnsupportedOperator(
            "joins scores of attention with what is not the same for all frames; leave out what depends on the place "
            "of a frame"
        )
    products = frozenset[str]().union(*(band.products for band in bands))
    is_ranked = all(band.ranked for band in bands) and _is_ranked(node, names[0])
    step.copy(node)
    for output, excluded in zip(node.output, _excluded(step, node, names), strict=True):
        if output:
            band = Band(products, bands[0].last, bands[0].latency, excluded, is_ranked)
            step.attends(output, names, band=band)


def _excluded(step: StepGraph, node: onnx.NodeProto, names: Sequence[str]) -> list[tuple[float, ...] | None]:
    """What a node makes of excluded scores, for each output."""
    numbers = [step.bands[name].excluded for name in names]
    others = {name for name in node.input if name and name not in names}
    if None in numbers or not others <= step.constants.keys():
        return [None] * len(node.output)
    feeds = {name: step.constants[name] for name in others}
    together = list(product(*(one or () for one in numbers)))
    for place, name in enumerate(names):
        shape = (*step.shape(name)[:-2], 1, len(together))
        feeds[name] = np.broadcast_to(np.array([row[place] for row in together], step.dtype(name)), shape)
    found = results_of(node, feeds, step.proto)
    return [None if one is None else tuple(np.unique(one.astype(np.float64)).tolist()) for one in found]


def _row(step: StepGraph, node: onnx.NodeProto) -> None:
    """Softmax and LogSoftmax: excluded scores have no weight, and a logarithm of about as much as they were."""
    (name,) = node.input
    rank, band = len(step.shape(name)), step.bands[name]
    if attributes_of(node).get("axis", -1) % rank != rank - 1:
        raise UnsupportedOperator("goes along the queries of attention, which a step does not have; use the keys")
    if band.excluded is None or not band.ranked or not all(one <= _NEGLIGIBLE for one in band.excluded):
        raise UnsupportedOperator(
            "reads scores of attention that have no mask, or that a node changes after the mask; put the mask right "
            "before it"
        )
    step.copy(node)
    excluded = (0.0,) if node.op_type == "Softmax" else band.excluded
    step.attends(node.output[0], [name], band=replace(band, excluded=excluded))


def _sum(step: StepGraph, node: onnx.NodeProto) -> None:
    """A product with values: frames that are excluded add 0."""
    weights, values = node.input
    band, scored, frames = step.bands.get(weights), step.frames[weights], step.frames.get(values)
    if (
        band is None
        or frames is None
        or values in step.bands
        or frames.axis != len(step.shape(values)) - 2
        or (frames.count, frames.extent, frames.steps) != (scored.count, scored.extent, scored.steps)
        or frames.latency > band.latency
    ):
        raise UnsupportedOperator(
            "sums by scores of attention what are not the values of the same frames; use values made of the frames of "
            "the keys"
        )
    if band.excluded is None or any(band.excluded):
        raise UnsupportedOperator(
            "sums values by what is not 0 for frames that a mask excludes; put a softmax right before it"
        )
    values = step.delayed(values, band.latency - frames.latency)
    step.copy(node, {node.input[1]: step.kept(values, band.last - 1)})
    step.attends(node.output[0], [weights, values], band.last)
