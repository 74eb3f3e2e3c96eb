"""A model whose images are exchanged channels last: what its user chose, and the import with the axes moved there.

The order of axes is changed by a Transpose at each such input and output of the ONNX graph. The graph passes move it
into its neighbours, where it meets the transpose that channels-last convolutions need, and both vanish.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import onnx
from onnx import helper

from edgetune.config.nearest import nearest
from edgetune.config.preferences import Layout
from edgetune.errors import ModelError
from edgetune.graph.axis_order import LEAST_RANK, from_model, reordered, to_model
from edgetune.graph.program import TensorSpec
from edgetune.models.image_tensors import image_tensors
from edgetune.models.importer import BORDER, Imported, import_onnx
from edgetune.models.onnx_file import OnnxModel, real_inputs


def channels_last_tensors(model: OnnxModel, layout: Layout, layouts: Mapping[str, Layout]) -> frozenset[str]:
    """Names of the inputs and outputs of `model` that are exchanged channels last.

    `layout` is for all that are known as images, `layouts` for single ones by name. Raises ModelError where `layouts`
    names no input or output, or asks for channels last of a tensor that has no axes beside batch and channels.
    """
    graph = model.proto.graph
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in (*real_inputs(graph), *graph.output)}
    for name, chosen in layouts.items():
        if name not in ranks:
            raise ModelError(
                f"a layout is given for {name!r}, which is no input or output of {model.name}: {nearest(name, ranks)}"
            )
        if chosen == "channels_last" and ranks[name] < LEAST_RANK:
            raise ModelError(
                f"{name!r} of {model.name} cannot have its channels last, for it has {ranks[name]} axes and not "
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
    imported = import_onnx(replace(model, proto=proto))
    return replace(
        imported,
        inputs=tuple(_known_as(spec, own) for spec in imported.inputs),
        outputs=tuple(own.get(name, name) for name in imported.outputs),
        channels_last=frozenset(names),
        images=known & frozenset(names),
        channels_known=known | frozenset(names),
    )


def _exchanged(graph: onnx.GraphProto, value: onnx.ValueInfoProto, fresh: str, *, is_input: bool) -> onnx.NodeProto:
    """Declares an input or output channels last, as `fresh`; the node that stands between it and what it was."""
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
