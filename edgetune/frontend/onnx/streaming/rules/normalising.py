"""Operators that read a whole axis, or several: reductions, softmax, normalisations, global pooling.

Along other axes than time, each frame is computed of itself. Along time, they read the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import onnx

from edgetune.frontend.onnx.streaming.rules.attributes import Rule, attributes_of, integers
from edgetune.frontend.onnx.streaming.step_graph import StepGraph


def _of_axes(
    axes: Callable[[StepGraph, onnx.NodeProto, int], Iterable[int]],
) -> Rule:
    """The rule of an operator that reads these axes of its first operand whole, and keeps all axes."""

    def rule(step: StepGraph, node: onnx.NodeProto) -> None:
        name = node.input[0]
        axis, rank = step.frames[name].axis if name in step.frames else -1, len(step.shape(name))
        if step.timed(node) != [name] or axis in {one % rank for one in axes(step, node, rank)}:
            step.whole(node)
            return
        step.through(node, axis)

    return rule


def _axis(default: int) -> Rule:
    return _of_axes(lambda _, node, rank: [attributes_of(node).get("axis", default) % rank])


def _reduction(step: StepGraph, node: onnx.NodeProto) -> None:
    name = node.input[0]
    axis, rank, attributes = step.frames[name].axis, len(step.shape(name)), attributes_of(node)
    named = integers(step, node, 1, "axes")
    axes = (
        {one % rank for one in named} if named else set() if attributes.get("noop_with_empty_axes") else {*range(rank)}
    )
    _reduced(step, node, axes, axis)


def _position(step: StepGraph, node: onnx.NodeProto) -> None:
    """ArgMax and ArgMin."""
    name = node.input[0]
    along = attributes_of(node).get("axis", 0) % len(step.shape(name))
    _reduced(step, node, {along}, step.frames[name].axis)


def _reduced(step: StepGraph, node: onnx.NodeProto, axes: set[int], axis: int) -> None:
    if axis in axes:
        step.whole(node)
        return
    keeps = attributes_of(node).get("keepdims", 1)
    step.through(node, axis if keeps else axis - sum(one < axis for one in axes))


_REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"),
    *("ReduceProd", "ReduceSum", "ReduceSumSquare"),
)

NORMALISING: Mapping[str, Rule] = {
    **dict.fromkeys(_REDUCTIONS, _reduction),
    **dict.fromkeys(("ArgMax", "ArgMin"), _position),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "TopK"), _axis(-1)),
    **dict.fromkeys(
        ("LayerNormalization", "RMSNormalization"),
        _of_axes(lambda _, node, rank: range(attributes_of(node).get("axis", -1) % rank, rank)),
    ),
    **dict.fromkeys(("BatchNormalization", "LRN"), _of_axes(lambda *_: [1])),
    **dict.fromkeys(
        ("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "GroupNormalization", "InstanceNormalization"),
        _of_axes(lambda _, __, rank: range(1, rank)),
    ),
    "MeanVarianceNormalization": _of_axes(lambda _, node, __: attributes_of(node).get("axes", [0, 2, 3])),
}
