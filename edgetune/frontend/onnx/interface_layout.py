"""Channels-last interface: imports a model with the axes of chosen inputs and outputs moved to channels last.

A Transpose at each such input and output of the ONNX graph changes the order of axes. The graph passes move it
into its neighbours, where it meets the transpose that channels-last convolutions need, and both cancel.

The module also finds the inputs and outputs that are images: tensors whose axis 1 the model's operators use as
channels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import onnx
from onnx import helper

from edgetune.errors import ModelError
from edgetune.frontend.onnx.domains import is_onnx
from edgetune.frontend.onnx.importer import BORDER, import_onnx
from edgetune.frontend.onnx.node_values import real_inputs
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.graph.imported import Imported
from edgetune.graph.layout.axis_order import LEAST_RANK, from_model, reordered, to_model
from edgetune.graph.program import TensorSpec
from edgetune.target.preferences import Layout
from edgetune.yaml_reader.nearest import nearest

_Shapes = Mapping[str, tuple[int, ...]]
_RANKS = range(LEAST_RANK, 6)

# Operators whose first input and first output are (N, C, spatial...) by definition.
_CHANNELS_FIRST = frozenset(
    {
        *("Conv", "ConvInteger", "ConvTranspose", "DeformConv", "QLinearConv"),
        *("AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LpPool", "MaxPool", "MaxUnpool"),
        *("BatchNormalization", "GroupNormalization", "InstanceNormalization", "LRN"),
        *("DepthToSpace", "GridSample", "SpaceToDepth"),
    }
)
# Operators that may resize any axis: the shapes show whether only the spatial axes of a channels-first tensor change.
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

    A tensor is an image where a channels-first operator reads or makes it, or where only operators that keep the
    meaning of axes are between it and such a tensor. A transposed or reshaped tensor is none, because the meaning of
    its axes is unknown. Bodies of loops and functions are not searched.
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
    """The tensors of `node` that it uses as channels first."""
    pair = node.input[0] if node.input else "", node.output[0]
    if node.op_type in _CHANNELS_FIRST:
        return pair
    before, after = (shapes.get(name, ()) for name in pair)
    # The last axis must change too: a channels-last image keeps its first two when only columns change.
    spatial = before[:2] == after[:2] and before[-1:] != after[-1:]
    return pair if node.op_type in _RESIZING and spatial else ()


def _same_axes(node: onnx.NodeProto, shapes: _Shapes) -> Iterator[tuple[str, str]]:
    """Pairs of an input and an output of `node` whose axes have the same meaning, one by one."""
    sources = node.input if node.op_type in _ANY_INPUT else node.input[:1] if node.op_type in _FIRST_INPUT else ()
    for source in sources:
        if source in shapes and len(shapes[source]) == len(shapes.get(node.output[0], ())):
            yield source, node.output[0]


def channels_last_tensors(model: OnnxModel, layout: Layout, layouts: Mapping[str, Layout]) -> frozenset[str]:
    """Names of the inputs and outputs of `model` that are exchanged channels last.

    `layout` applies to all known images, `layouts` to single tensors by name. Raises ModelError where `layouts`
    names no input or output, or requests channels last for a tensor without axes beside batch and channels.
    """
    graph = model.proto.graph
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in (*real_inputs(graph), *graph.output)}
    for name, chosen in layouts.items():
        if name not in ranks:
            raise ModelError(
                f"a layout is given for {name!r}, which is not an input or output of {model.name}: "
                f"{nearest(name, ranks)}"
            )
        if chosen == "channels_last" and ranks[name] < LEAST_RANK:
            raise ModelError(
                f"{name!r} of {model.name} cannot have its channels last, because it has {ranks[name]} axes and not "
                "(N, C, ...): give it the layout model"
            )
    known = image_tensors(model) if layout == "channels_last" else frozenset()
    return frozenset(
        name for name in ranks if layouts.get(name, "channels_last" if name in known else "model") != "model"
    )


def import_channels_last(model: OnnxModel, names: Collection[str]) -> Imported:
    """Imports `model` with the inputs and outputs `names` (N, C, ...) as (N, ..., C); raises as `import_onnx` does."""
    known = image_tensors(model)
    if not names:
        return replace(import_onnx(model), channels_known=known)
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    graph = proto.graph
    inputs = [value for value in real_inputs(graph) if value.name in names]
    outputs = [value for value in graph.output if value.name in names]
    own = dict(zip(_fresh(graph, len(inputs) + len(outputs)), (v.name for v in (*inputs, *outputs)), strict=True))
    fresh = iter(own)
    before = [_exchanged(graph, value, next(fresh), is_input=True) for value in inputs]
    after = [_exchanged(graph, value, next(fresh), is_input=False) for value in outputs]
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    imported = import_onnx(model.with_proto(proto))
    return replace(
        imported,
        inputs=tuple(_known_as(spec, own) for spec in imported.inputs),
        outputs=tuple(own.get(name, name) for name in imported.outputs),
        selections=frozenset(own.get(name, name) for name in imported.selections),
        channels_last=frozenset(names),
        images=known & frozenset(names),
        channels_known=known | frozenset(names),
    )


def _exchanged(graph: onnx.GraphProto, value: onnx.ValueInfoProto, fresh: str, *, is_input: bool) -> onnx.NodeProto:
    """Declares an input or output channels last, as `fresh`; returns the node between it and the original tensor."""
    graph.value_info.add().CopyFrom(value)
    inner, shape = value.name, value.type.tensor_type.shape
    value.name = fresh
    rank = len(shape.dim)
    extents = reordered([dim.dim_value for dim in shape.dim], from_model(rank, "channels_last"))
    for dim, extent in zip(shape.dim, extents, strict=True):
        dim.dim_value = extent
    axes = (to_model if is_input else from_model)(rank, "channels_last")
    ends = (fresh, inner) if is_input else (inner, fresh)
    return helper.make_node("Transpose", ends[:1], ends[1:], name=f"{BORDER}{inner}", perm=axes)


def _known_as(spec: TensorSpec, own: Mapping[str, str]) -> TensorSpec:
    return replace(spec, name=own[spec.name], layout="channels_last") if spec.name in own else spec


def _fresh(graph: onnx.GraphProto, count: int) -> list[str]:
    """Names that no tensor of `graph` has."""
    taken = {v.name for v in (*graph.input, *graph.output)} | {i.name for i in graph.initializer}
    taken |= {name for node in graph.node for name in (*node.input, *node.output)}
    candidates = (f"{BORDER}{number}" for number in range(count + len(taken)))
    return [name for name in candidates if name not in taken][:count]
