"""Models y = x + w whose tensor w lies in every place that ONNX has for tensors, and files that hold its data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.compose
from onnx import TensorProto, helper, numpy_helper

Place = Callable[[TensorProto], onnx.ModelProto]
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
DATA_FILE = "w.bin"


def values(size: int) -> np.ndarray:
    """The data of w."""
    return np.linspace(-3.0, 5.0, size, dtype="float32")


def inline(size: int) -> TensorProto:
    """The tensor w, its data in the file."""
    return numpy_helper.from_array(values(size), "w")


def external(size: int, **entries: object) -> TensorProto:
    """The tensor w, its data outside: in w.bin from the first byte on, unless `entries` say otherwise."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[size], data_location=TensorProto.EXTERNAL)
    for key, value in ({"location": DATA_FILE} | entries).items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return tensor


def write(folder: Path, model: onnx.ModelProto, data: np.ndarray) -> Path:
    """Writes model.onnx and, beside it, w.bin; returns the path of the former."""
    folder.mkdir(parents=True, exist_ok=True)
    data.tofile(folder / DATA_FILE)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def decoy(folder: Path, size: int) -> None:
    """Writes a w.bin with other data of the same size."""
    np.full(size, 1000.0, "float32").tofile(folder / DATA_FILE)


def model_of(graph: onnx.GraphProto, functions: list[onnx.FunctionProto] | None = None) -> onnx.ModelProto:
    """A model of one graph."""
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=9, functions=functions or [])


def graph_of(
    nodes: list[onnx.NodeProto], size: int, initializers: list[TensorProto] | None = None, *more: onnx.ValueInfoProto
) -> onnx.GraphProto:
    """The graph of `nodes` from x and `more` to y."""
    vector = [size]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, vector) for name in "xy")
    return helper.make_graph(nodes, "sum", [x, *more], [y], initializers or [])


def _add() -> onnx.NodeProto:
    return helper.make_node("Add", ["x", "w"], ["y"], name="add")


def _constant(tensor: TensorProto, output: str = "w") -> onnx.NodeProto:
    return helper.make_node("Constant", [], [output], value=tensor)


def _initializer(tensor: TensorProto) -> onnx.ModelProto:
    return model_of(graph_of([_add()], tensor.dims[0], [tensor]))


def _constant_node(tensor: TensorProto) -> onnx.ModelProto:
    return model_of(graph_of([_constant(tensor), _add()], tensor.dims[0]))


def _branch(nodes: list[onnx.NodeProto], size: int, initializers: list[TensorProto]) -> onnx.GraphProto:
    y = helper.make_tensor_value_info("inner", TensorProto.FLOAT, [size])
    return helper.make_graph(nodes, "branch", [], [y], initializers)


def _if(taken: onnx.GraphProto, size: int) -> onnx.ModelProto:
    other = _branch([helper.make_node("Neg", ["x"], ["inner"])], size, [])
    holds = numpy_helper.from_array(np.array(True), "holds")
    node = helper.make_node("If", ["holds"], ["y"], then_branch=taken, else_branch=other)
    return model_of(graph_of([node], size, [holds]))


def _branch_initializer(tensor: TensorProto) -> onnx.ModelProto:
    size = tensor.dims[0]
    return _if(_branch([helper.make_node("Add", ["x", "w"], ["inner"])], size, [tensor]), size)


def _branch_constant(tensor: TensorProto) -> onnx.ModelProto:
    size = tensor.dims[0]
    nodes = [_constant(tensor), helper.make_node("Add", ["x", "w"], ["inner"])]
    return _if(_branch(nodes, size, []), size)


def _loop_initializer(tensor: TensorProto) -> onnx.ModelProto:
    size = tensor.dims[0]
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Identity", ["c"], ["c2"]), helper.make_node("Add", ["v", "w"], ["v2"])]
    inputs = [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("v", TensorProto.FLOAT, [size])]
    outputs = [info("c2", TensorProto.BOOL, []), info("v2", TensorProto.FLOAT, [size])]
    body = helper.make_graph(nodes, "body", inputs, outputs, [tensor])
    once = numpy_helper.from_array(np.array(1, "int64"), "once")
    holds = numpy_helper.from_array(np.array(True), "holds")
    return model_of(graph_of([helper.make_node("Loop", ["once", "holds", "x"], ["y"], body=body)], size, [once, holds]))


def _scan_constant(tensor: TensorProto) -> onnx.ModelProto:
    size = tensor.dims[0]
    row = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in ("row", "sum")]
    nodes = [_constant(tensor), helper.make_node("Add", ["row", "w"], ["sum"])]
    body = helper.make_graph(nodes, "body", row[:1], row[1:])
    one = numpy_helper.from_array(np.array([0], "int64"), "zero")
    outer = [
        helper.make_node("Unsqueeze", ["x", "zero"], ["rows"]),
        helper.make_node("Scan", ["rows"], ["sums"], body=body, num_scan_inputs=1),
        helper.make_node("Squeeze", ["sums", "zero"], ["y"]),
    ]
    return model_of(graph_of(outer, size, [one]))


def _function_constant(tensor: TensorProto) -> onnx.ModelProto:
    inner = [_constant(tensor), helper.make_node("Add", ["a", "w"], ["b"])]
    function = helper.make_function("local", "ShiftConstant", ["a"], ["b"], inner, OPSETS[:1])
    node = helper.make_node("ShiftConstant", ["x"], ["y"], domain="local")
    return model_of(graph_of([node], tensor.dims[0]), [function])


def _function_default(tensor: TensorProto) -> onnx.ModelProto:
    function = _shift_by("ShiftDefault", attribute_protos=[helper.make_attribute("by", tensor)])
    node = helper.make_node("ShiftDefault", ["x"], ["y"], domain="local")
    return model_of(graph_of([node], tensor.dims[0]), [function])


def _function_argument(tensor: TensorProto) -> onnx.ModelProto:
    node = helper.make_node("ShiftBy", ["x"], ["y"], domain="local", by=tensor)
    return model_of(graph_of([node], tensor.dims[0]), [_shift_by("ShiftBy", attributes=["by"])])


def _shift_by(name: str, **attributes: Any) -> onnx.FunctionProto:
    """A function of a that adds its attribute `by`."""
    constant = helper.make_node("Constant", [], ["w"])
    constant.attribute.add(name="value", ref_attr_name="by", type=onnx.AttributeProto.TENSOR)
    inner = [constant, helper.make_node("Add", ["a", "w"], ["b"])]
    return helper.make_function("local", name, ["a"], ["b"], inner, OPSETS[:1], **attributes)


def _training(tensor: TensorProto) -> onnx.ModelProto:
    model = _initializer(inline(tensor.dims[0]))
    model.training_info.add().initialization.initializer.append(tensor)
    return model


def _sparse(tensor: TensorProto) -> onnx.SparseTensorProto:
    size = tensor.dims[0]
    indices = numpy_helper.from_array(np.arange(size, dtype="int64"), "")
    return helper.make_sparse_tensor(tensor, indices, [size])


def _sparse_values(tensor: TensorProto) -> onnx.ModelProto:
    model = model_of(graph_of([_add()], tensor.dims[0]))
    model.graph.sparse_initializer.append(_sparse(tensor))
    return model


def _sparse_indices(tensor: TensorProto) -> onnx.ModelProto:
    size = tensor.dims[0] // 2  # indices have eight bytes each
    model = _sparse_values(inline(size))
    indices = model.graph.sparse_initializer[0].indices
    indices.CopyFrom(tensor)
    indices.data_type, indices.dims[0] = TensorProto.INT64, size
    return model


def _sparse_constant(tensor: TensorProto) -> onnx.ModelProto:
    node = helper.make_node("Constant", [], ["w"], sparse_value=_sparse(tensor))
    return model_of(graph_of([node, _add()], tensor.dims[0]))


def _list_of_tensors(tensor: TensorProto) -> onnx.ModelProto:
    node = helper.make_node("Listed", ["x"], ["y"], domain="local", values=[tensor, tensor])
    return model_of(graph_of([node], tensor.dims[0]))


RIGHT: dict[str, Place] = {
    "initializer": _initializer,
    "constant node": _constant_node,
    "initializer of a branch": _branch_initializer,
    "constant of a branch": _branch_constant,
    "initializer of a loop": _loop_initializer,
    "constant of a scan": _scan_constant,
    "constant of a function": _function_constant,
    "default of a function": _function_default,
    "argument of a function": _function_argument,
    "training": _training,
}
"""Places of w in models that can be built."""

REFUSED: dict[str, Place] = {
    "sparse initializer's values": _sparse_values,
    "sparse initializer's indices": _sparse_indices,
    "sparse constant": _sparse_constant,
    "list of tensors": _list_of_tensors,
}
"""Places of w in models that are refused, wherever the data is."""

PLACES: dict[str, Place] = {**RIGHT, **REFUSED}
"""All places of w."""


def everywhere(size: int) -> onnx.ModelProto:
    """All models of RIGHT in one, one after the other: y = x + w for each of them."""
    whole = model_of(graph_of([], size))
    before = "x"
    for number, place in enumerate(RIGHT.values()):
        part = onnx.compose.add_prefix(place(external(size)), f"p{number}_", rename_functions=False)
        whole.graph.node.append(helper.make_node("Identity", [before], [f"p{number}_x"]))
        whole.graph.node.extend(part.graph.node)
        whole.graph.initializer.extend(part.graph.initializer)
        whole.functions.extend(part.functions)
        whole.training_info.extend(part.training_info)
        before = f"p{number}_y"
    whole.graph.node.append(helper.make_node("Identity", [before], ["y"]))
    return whole
