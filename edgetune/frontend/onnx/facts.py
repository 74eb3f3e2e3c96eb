"""Facts of an ONNX model: what its file says, and what an import of its graph shows, without a build."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import prod
from typing import TYPE_CHECKING

import onnx
from onnx import TensorProto, helper

from edgetune.errors import DynamicShape, UnsupportedOperator
from edgetune.frontend.model_facts import (
    InterfaceTensor,
    ModelCosts,
    ModelFacts,
    TensorQuantisation,
    UnsupportedNode,
    facts_of_program,
)
from edgetune.frontend.model_format import AxisSizes, Interface, Shapes
from edgetune.frontend.onnx.domains import DEFAULT_DOMAIN, opset_of, shown_operator
from edgetune.frontend.onnx.external_data import element_bits, tensors
from edgetune.frontend.onnx.free_axes import size_of, symbol_of
from edgetune.frontend.onnx.interface_quantisation import quantisations
from edgetune.frontend.onnx.large_tensors import Weights, is_stand_in
from edgetune.frontend.onnx.nested_graphs import all_nodes
from edgetune.frontend.onnx.node_values import real_inputs
from edgetune.frontend.onnx.reader import OnnxFile, OnnxModel, with_shapes

if TYPE_CHECKING:
    from edgetune.graph.imported import Imported

_BYTE = 8


def facts_of(stored: OnnxFile, shapes: Shapes, sizes: AxisSizes) -> ModelFacts:
    """The facts of `stored` with these shapes and sizes of axes; open ones stay open, and a remark says which.

    Raises ModelError as `with_shapes` does, except for shapes that stay open.
    """
    operators = Counter(shown_operator(node) for node in all_nodes(stored.proto.graph))
    weights = _weight_bytes(stored.proto, stored.weights)
    quantised = quantisations(stored.proto.graph, stored.weights)
    costs = ModelCosts()
    inputs: Iterable[onnx.ValueInfoProto] = real_inputs(stored.proto.graph)
    outputs: Iterable[onnx.ValueInfoProto] = stored.proto.graph.output
    try:
        model = with_shapes(stored, shapes, sizes)
    except DynamicShape as error:
        remarks: tuple[str, ...] = (error.message,)
    except UnsupportedOperator as error:  # an old form of an operator, which keeps all shapes behind it unknown
        remarks, costs = (), ModelCosts((UnsupportedNode("", "", error.message),))
    else:
        remarks = model.settled
        inputs, outputs = real_inputs(model.proto.graph), model.proto.graph.output
        costs = costs_of_import(model)
    return ModelFacts(
        format="ONNX",
        version=_version(stored.proto),
        producer=" ".join(filter(None, (stored.proto.producer_name, stored.proto.producer_version))),
        inputs=tuple(_tensor(value, quantised) for value in inputs),
        outputs=tuple(_tensor(value, quantised) for value in outputs),
        operators=dict(operators.most_common()),
        unsupported=(),
        weights=weights,
        remarks=remarks,
    ).with_costs(costs)


def interface_of(model: OnnxModel) -> Interface:
    """The inputs and outputs of a model, without their quantisation."""
    graph = model.proto.graph
    return tuple(_tensor(value, {}) for value in real_inputs(graph)), tuple(
        _tensor(value, {}) for value in graph.output
    )


def costs_of_import(model: OnnxModel) -> ModelCosts:
    """Nodes that cannot be imported; multiply-adds and least memory of the others, and where that is from."""
    from edgetune.frontend.onnx.importer import import_supported
    from edgetune.graph.module_costs import costs_of

    imported, refused = import_supported(model)
    unsupported = tuple(UnsupportedNode(one.operator, one.name, one.sentence) for one in refused)
    if imported is None:
        return ModelCosts(unsupported)
    try:
        costs = costs_of(imported)
    except UnsupportedOperator:
        return ModelCosts(unsupported) if unsupported else _partitioned(imported)
    return ModelCosts(unsupported, costs.macs, costs.live_bytes, costs.shared_bytes)


def _partitioned(imported: Imported) -> ModelCosts:
    """The same from the graph passes, which take longer and have the last word."""
    from edgetune.graph.partition import to_program

    try:
        found = facts_of_program(to_program(imported))
    except UnsupportedOperator as error:
        return ModelCosts((UnsupportedNode("", "", error.message),), ram_source="memory plan")
    return ModelCosts((), found.macs, found.ram_bytes, found.shared_ram_bytes, found.ram_source)


def _version(proto: onnx.ModelProto) -> str:
    used = {node.domain for node in all_nodes(proto.graph)} - set(DEFAULT_DOMAIN)
    others = [f"{entry.domain} {entry.version}" for entry in proto.opset_import if entry.domain in used]
    return ", ".join([f"opset {opset_of(proto)}", *others, f"IR version {proto.ir_version}"])


def _weight_bytes(proto: onnx.ModelProto, weights: Weights) -> dict[str, int]:
    """Bytes of all stored tensors by type, largest first; packed types count as they are packed."""
    total: Counter[str] = Counter()
    for tensor in tensors(proto):
        if is_stand_in(tensor, weights):
            total[weights[tensor.name].dtype.name] += weights[tensor.name].nbytes
        elif (bits := element_bits(tensor.data_type)) is not None:
            name = TensorProto.DataType.Name(tensor.data_type).lower()
            total[{"float": "float32", "double": "float64"}.get(name, name)] += -(-prod(tensor.dims) * bits // _BYTE)
    return {name: size for name, size in total.most_common() if size}


def _tensor(value: onnx.ValueInfoProto, quantised: Mapping[str, TensorQuantisation]) -> InterfaceTensor:
    tensor = value.type.tensor_type
    sizes = ((size_of(dim), symbol_of(dim)) for dim in tensor.shape.dim)
    shape = tuple(symbol or "?" if size is None else size for size, symbol in sizes)
    stated = shape if tensor.HasField("shape") else None
    known = element_bits(tensor.elem_type) is not None
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name if known else "unknown"
    return InterfaceTensor(value.name, stated, dtype, quantised.get(value.name))
