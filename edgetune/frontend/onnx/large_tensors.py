"""Large external tensors: kept outside the protobuf message, which cannot be serialised above 2 GB.

Such a tensor is an initializer of the main graph. In the message, a stand-in has its name, type and shape;
its array is in a mapping by name. Reading the data of a stand-in is an error, never other data.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import ModelError
from edgetune.frontend.onnx.domains import is_onnx
from edgetune.frontend.onnx.external_data import ExternalData, array_of, external_tensors

Weights = Mapping[str, np.ndarray]

LARGE = 1 << 16
"""Least bytes of a tensor that is kept outside. Shapes, axes and the like, which ONNX's own tools read, are smaller."""

_MOST_BYTES = (1 << 31) - (1 << 20)
# Shorter than any large tensor.
_NO_DATA = b"\0"


def take_in(proto: onnx.ModelProto, external: ExternalData) -> dict[str, np.ndarray]:
    """Gives every external tensor of `proto` its data: large ones become stand-ins, whose arrays are returned by name.

    Large tensors of Constant nodes and of nested graphs become initializers of the main graph. Raises ModelError when
    the rest is more than a message may hold.
    """
    _move_to_main_graph(proto.graph, external)
    arrays: dict[str, np.ndarray] = {}
    for initializer in proto.graph.initializer:
        if _is_large(initializer, external):
            if initializer.name in arrays:
                raise ModelError(
                    f"model {proto.graph.name!r} has two initializers {initializer.name!r}; export the model again"
                )
            arrays[initializer.name] = array_of(initializer, external.bytes_of(initializer))
            _become(initializer, _NO_DATA)
    rest = list(external_tensors(proto))
    inline = proto.ByteSize() + sum(external.byte_range(tensor).size for tensor in rest)
    if inline > _MOST_BYTES:
        raise ModelError(
            f"{inline} bytes of model {proto.graph.name!r} are in function bodies, attributes or small tensors, and "
            f"at most {_MOST_BYTES} are possible there; make its large tensors initializers"
        )
    for tensor in rest:
        _become(tensor, bytes(external.bytes_of(tensor)))
    return arrays


def stand_in(name: str, array: np.ndarray) -> TensorProto:
    """The initializer `name` that replaces `array` in the message."""
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return TensorProto(name=name, data_type=kind, dims=array.shape, raw_data=_NO_DATA)


def is_stand_in(tensor: TensorProto, weights: Weights) -> bool:
    """Whether the data of `tensor` is an array of `weights`."""
    return tensor.raw_data == _NO_DATA and tensor.name in weights and tuple(tensor.dims) == weights[tensor.name].shape


def value_of(initializer: TensorProto, weights: Weights) -> np.ndarray:
    """The values of an initializer of the main graph, stand-in or not."""
    if is_stand_in(initializer, weights):
        return weights[initializer.name]
    return np.asarray(numpy_helper.to_array(initializer))


def as_inputs(proto: onnx.ModelProto, weights: Weights) -> onnx.ModelProto:
    """`proto` with inputs in place of the stand-ins: a valid model, to which `weights` are fed."""
    result, graph = _copied(proto)
    declared = {value.name for value in graph.input}
    for initializer in proto.graph.initializer:
        if not is_stand_in(initializer, weights):
            graph.initializer.add().CopyFrom(initializer)
        elif initializer.name not in declared:
            value = helper.make_tensor_value_info(initializer.name, initializer.data_type, initializer.dims)
            graph.input.append(value)
    return result


def as_external(proto: onnx.ModelProto, weights: Weights) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """`proto` with external tensors instead of the stand-ins, and the arrays that ONNX Runtime uses for them.

    Their locations name no file, because ONNX Runtime opens no file where it is given the array. Types that NumPy lacks
    are put into the message. Unused stand-ins are left out, because ONNX Runtime would refuse their arrays.
    """
    result, graph = _copied(proto)
    given: dict[str, np.ndarray] = {}
    used = {output.name for output in graph.output} | {value.name for value in graph.input}
    used.update(name for inner in _graphs(graph) for node in inner.node for name in node.input)
    used.update(output.name for inner in _graphs(graph) for output in inner.output)
    for initializer in proto.graph.initializer:
        if is_stand_in(initializer, weights) and initializer.name not in used:
            continue
        tensor = graph.initializer.add()
        tensor.CopyFrom(initializer)
        if not is_stand_in(initializer, weights):
            continue
        array = weights[initializer.name]
        tensor.ClearField("raw_data")
        if array.dtype.isbuiltin != 1:
            tensor.CopyFrom(numpy_helper.from_array(array, initializer.name))
            continue
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=f"#{initializer.name}")
        given[initializer.name] = array
    return result, given


def _copied(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, onnx.GraphProto]:
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    del result.graph.initializer[:]
    return result, result.graph


def _become(tensor: TensorProto, data: bytes) -> None:
    tensor.raw_data = data
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]


def _is_large(tensor: TensorProto, external: ExternalData) -> bool:
    return tensor.data_location == TensorProto.EXTERNAL and external.byte_range(tensor).size >= LARGE


def _move_to_main_graph(main: onnx.GraphProto, external: ExternalData) -> None:
    names = _fresh_names(main)
    for graph in list(_graphs(main)):
        nodes = []
        declared = {value.name for value in graph.input}
        for initializer in list(graph.initializer):
            # An initializer that a caller may override stays in place.
            if graph is not main and initializer.name not in declared and _is_large(initializer, external):
                nodes.append(_moved(initializer, helper.make_node("Identity", [], [initializer.name]), main, names))
                graph.initializer.remove(initializer)
        for node in graph.node:
            tensor = _constant(node)
            if tensor is not None and _is_large(tensor, external):
                identity = helper.make_node("Identity", [], node.output, name=node.name)
                node.CopyFrom(_moved(tensor, identity, main, names))
        nodes += graph.node
        if len(nodes) > len(graph.node):
            del graph.node[:]
            graph.node.extend(nodes)


def _constant(node: onnx.NodeProto) -> TensorProto | None:
    """The tensor that a Constant node makes, None for other nodes."""
    values = (a.t for a in node.attribute if a.name == "value" and a.HasField("t"))
    return next(values, None) if node.op_type == "Constant" and is_onnx(node) else None


def _moved(
    tensor: TensorProto, identity: onnx.NodeProto, main: onnx.GraphProto, names: Iterator[str]
) -> onnx.NodeProto:
    """Makes `tensor` an initializer of `main` and returns `identity`, which reads it."""
    initializer = main.initializer.add()
    initializer.CopyFrom(tensor)
    initializer.name = next(names)
    identity.input.append(initializer.name)
    return identity


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)
            for inner in attribute.graphs:
                yield from _graphs(inner)


def _fresh_names(main: onnx.GraphProto) -> Iterator[str]:
    taken: set[str] = set()
    for graph in _graphs(main):
        taken.update(value.name for value in (*graph.input, *graph.initializer))
        taken.update(sparse.values.name for sparse in graph.sparse_initializer)
        taken.update(output for node in graph.node for output in node.output)
    return (name for name in map("external_{}".format, itertools.count()) if name not in taken)
