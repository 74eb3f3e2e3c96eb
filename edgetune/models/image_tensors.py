"""Which inputs and outputs of a model are images: tensors whose axis 1 the model's operators take for channels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import onnx

from edgetune.graph.axis_order import LEAST_RANK
from edgetune.models.domains import is_onnx
from edgetune.models.onnx_file import OnnxModel, real_inputs

_Shapes = Mapping[str, tuple[int, ...]]
_RANKS = range(LEAST_RANK, 6)

# Operators whose definition says (N, C, spatial...), of their first input and their first output.
_CHANNELS_FIRST = frozenset(
    {
        *("Conv", "ConvInteger", "ConvTranspose", "DeformConv", "QLinearConv"),
        *("AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LpPool", "MaxPool", "MaxUnpool"),
        *("BatchNormalization", "GroupNormalization", "InstanceNormalization", "LRN"),
        *("DepthToSpace", "GridSample", "SpaceToDepth"),
    }
)
# Operators that may resize any axis: shapes tell whether these are the spatial ones of a channels-first tensor.
_RESIZING = frozenset({"Resize", "Upsample"})
# Operators whose result has the axes of their first input.
_FIRST_INPUT = frozenset(
    {
        *("Abs", "Acos", "Asin", "Atan", "Ceil", "Cos", "Erf", "Exp", "Floor", "Log", "Neg", "Not", "Reciprocal"),
        *("Round", "Sign", "Sin", "Sqrt", "Tan", "Tanh", "Celu", "Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish"),
        *("LeakyRelu", "Mish", "PRelu", "Relu", "Selu", "Shrink", "Sigmoid", "Softplus", "Softsign", "Swish"),
        *("ThresholdedRelu", "Cast", "CastLike", "Dropout", "Identity", "Pad", "Slice", "LogSoftmax", "Softmax"),
        *("DequantizeLinear", "QuantizeLinear"),
    }
)
# Operators whose result has the axes of every input of its rank.
_ANY_INPUT = frozenset(
    {
        *("Add", "Div", "Max", "Mean", "Min", "Mod", "Mul", "Pow", "Sub", "Sum", "Concat", "Where"),
        *("And", "Or", "Xor", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    }
)


def image_tensors(model: OnnxModel) -> frozenset[str]:
    """Names of the inputs and outputs (N, C, spatial...) of 3 to 5 axes.

    A tensor is one where a channels-first operator reads it or makes it, or where operators that keep what axes mean
    stand between it and such a tensor. What is transposed or reshaped on the way is none: nobody tells what its axes
    mean. Bodies of loops and functions are not looked into.
    """
    graph = model.proto.graph
    shapes = {
        value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        for value in (*graph.input, *graph.value_info, *graph.output)
        if value.type.tensor_type.HasField("shape")
    }
    nodes = [node for node in graph.node if is_onnx(node)]
    alike: defaultdict[str, set[str]] = defaultdict(set)
    for one, other in (pair for node in nodes for pair in _same_axes(node, shapes)):
        alike[one].add(other)
        alike[other].add(one)
    reached: set[str] = set()
    waiting = [name for node in nodes for name in _channels_first(node, shapes)]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += alike[name]
    interface = {value.name for value in (*real_inputs(graph), *graph.output)}
    return frozenset(name for name in interface & reached if len(shapes.get(name, ())) in _RANKS)


def _channels_first(node: onnx.NodeProto, shapes: _Shapes) -> tuple[str, ...]:
    """The tensors of `node` that it takes for channels-first ones."""
    pair = node.input[0] if node.input else "", node.output[0]
    if node.op_type in _CHANNELS_FIRST:
        return pair
    before, after = (shapes.get(name, ()) for name in pair)
    # The last axis too: of a channels-last image, the columns alone may be resized.
    spatial = before[:2] == after[:2] and before[-1:] != after[-1:]
    return pair if node.op_type in _RESIZING and spatial else ()


def _same_axes(node: onnx.NodeProto, shapes: _Shapes) -> Iterator[tuple[str, str]]:
    """Pairs of an input and an output of `node` whose axes mean the same, one by one."""
    sources = node.input if node.op_type in _ANY_INPUT else node.input[:1] if node.op_type in _FIRST_INPUT else ()
    for source in sources:
        if source in shapes and len(shapes[source]) == len(shapes.get(node.output[0], ())):
            yield source, node.output[0]
