"""Operators that compute each element of the elements in its place."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.streaming.rules.attributes import Rule, attributes_of, one_row
from edgetune.frontend.onnx.streaming.step_graph import StepGraph

_SMALL = frozenset({"int8", "uint8", "int16", "uint16"})


def elementwise(step: StepGraph, node: onnx.NodeProto) -> None:
    """One operand or several, which are broadcast."""
    names = step.timed(node)
    places = {step.frames[name].axis - len(step.shape(name)) for name in names}
    extents = {step.frames[name].extent for name in names}
    shape = step.shape(node.output[0])
    if len(places) > 1 or len(extents) > 1 or shape[min(places)] not in extents:
        step.whole(node)
        return
    place, inputs = places.pop(), {}
    for name in node.input:
        if name and name not in step.frames:
            extent = step.shape(name)
            if len(extent) >= -place and extent[place] != 1:
                inputs[name] = one_row(step, name, len(extent) + place)
    step.through(node, len(shape) + place, inputs)


def cast(step: StepGraph, node: onnx.NodeProto) -> None:
    """A Cast; where it widens integers, states are of these."""
    written = step.through(node, step.frames[node.input[0]].axis)
    if step.dtype(node.input[0]).name in _SMALL:
        step.widens(written)


def quantising(step: StepGraph, node: onnx.NodeProto) -> None:
    """QuantizeLinear and DequantizeLinear, whose scales are numbers or those of an axis."""
    source = node.input[0]
    if source not in step.frames or any(name in step.frames for name in node.input[1:]):
        raise UnsupportedOperator("reads a scale or a zero point that changes from frame to frame; use a constant")
    axis, rank = step.frames[source].axis, len(step.shape(source))
    scale = step.shape(node.input[1])
    of = int(attributes_of(node).get("axis", 1)) % max(rank, 1)
    if len(scale) > 1 or (scale not in {(), (1,)} and of == axis):
        raise UnsupportedOperator("has scales along the time axis; use one scale, or scales of channels")
    written = step.through(node, axis)
    if node.op_type == "DequantizeLinear" and step.dtype(source).name in _SMALL:
        step.widens(written)


_PLAIN = (
    *("Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd", "BitwiseNot"),
    *("BitwiseOr", "BitwiseXor", "CastLike", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div", "Dropout", "Elu", "Equal"),
    *("Erf", "Exp", "FixedPointScale", "FixedPointScaleOnce", "Floor", "Gelu", "Greater", "GreaterOrEqual"),
    *("HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max"),
    *("Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu"),
    *("Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan"),
    *("Tanh", "ThresholdedRelu", "Where", "Xor"),
)

ELEMENTWISE: Mapping[str, Rule] = {
    **dict.fromkeys(_PLAIN, elementwise),
    "Cast": cast,
    "DequantizeLinear": quantising,
    "QuantizeLinear": quantising,
}
