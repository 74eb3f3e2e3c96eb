"""Constant folding of one ONNX node whose inputs are known, or whose result depends only on the shape of its inputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgetune.frontend.onnx.domains import is_onnx
from edgetune.frontend.onnx.reference_evaluator import LACKS, reference_evaluator

# Random numbers are not constant; weights of a quantised model stay integers, also where a Cast widens them; another
# module unrolls loops; a selection has all the rows that it may have.
_NOT_EVALUATED = frozenset(
    [
        "NonMaxSuppression",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
        "DequantizeLinear",
        "If",
        "Loop",
        "Scan",
    ]
)

WIDENING = frozenset({"DequantizeLinear", "Cast"})
"""Operators that make numbers of more bits of integers."""
_INTEGERS = frozenset({"int8", "uint8", "int16", "uint16"})
_WIDER = frozenset({TensorProto.INT32, TensorProto.FLOAT})
_LEAST_KEPT = 64
"""Fewer elements are folded: as numbers they take hardly more memory than the code that widens them."""


def widens(node: onnx.NodeProto, array: np.ndarray) -> bool:
    """Whether `node`, which reads the constant `array`, makes numbers of it that take more memory.

    Such a constant stays as it is: the kernel that reads the numbers makes them.
    """
    if not is_onnx(node) or array.dtype.name not in _INTEGERS:
        return False
    if node.op_type == "DequantizeLinear":  # a product of integers reads small weights too
        return array.ndim > 1 or array.size >= _LEAST_KEPT
    wider = any(a.name == "to" and a.i in _WIDER for a in node.attribute)
    return node.op_type == "Cast" and wider and array.size >= _LEAST_KEPT


def constant_value(
    node: onnx.NodeProto,
    constants: Mapping[str, np.ndarray],
    types: Mapping[str, onnx.TypeProto],
    model: onnx.ModelProto,
) -> list[np.ndarray] | None:
    """The outputs of `node`, or None when they depend on an input of the model.

    ONNX's reference evaluator computes them.
    """
    if node.op_type in {"Shape", "Size", "EyeLike"} and node.input[0] not in constants:
        return _of_shape(node, types)
    if node.op_type in _NOT_EVALUATED or any(i and i not in constants for i in node.input):
        return None
    if node.op_type == "Cast" and widens(node, constants[node.input[0]]):
        return None
    inputs = {i: constants[i] for i in node.input if i}
    graph = helper.make_graph(
        [node], "constant", [helper.make_value_info(i, types[i]) for i in inputs],
        [helper.make_empty_tensor_value_info(o) for o in node.output if o],
    )  # fmt: skip
    single = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    try:
        with np.errstate(all="ignore"):
            results = iter(reference_evaluator(single).run(None, inputs))
    except LACKS:
        # The node then stays for TVM, which either supports it or rejects it by name: only a constant is lost.
        return None
    values = [next(results) if o else np.zeros(0) for o in node.output]
    usable = all(isinstance(v, np.ndarray | np.generic) and np.asarray(v).dtype.kind not in "OUS" for v in values)
    return [np.asarray(v) for v in values] if usable else None


def static_shape(name: str, types: Mapping[str, onnx.TypeProto]) -> tuple[int, ...] | None:
    """The shape of a value, None where it is not known."""
    if name not in types or not types[name].HasField("tensor_type") or not types[name].tensor_type.HasField("shape"):
        return None
    dims = types[name].tensor_type.shape.dim
    return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None


def real_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Graph inputs that are not initializers (files of IR version 3 list both)."""
    initializers = {i.name for i in graph.initializer} | {s.values.name for s in graph.sparse_initializer}
    return [i for i in graph.input if i.name not in initializers]


def is_sequence(name: str, types: Mapping[str, onnx.TypeProto]) -> bool:
    """Whether a value is a sequence of tensors."""
    return name in types and types[name].HasField("sequence_type")


def _of_shape(node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]) -> list[np.ndarray] | None:
    shape = static_shape(node.input[0], types)
    if shape is None:
        return None
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "Shape":
        return [np.array(shape[attributes.get("start", 0) : attributes.get("end")], "int64")]
    if node.op_type == "Size":
        return [np.array(int(np.prod(shape)), "int64")]
    dtype = attributes.get("dtype", types[node.input[0]].tensor_type.elem_type)
    return [np.eye(shape[0], shape[1], k=attributes.get("k", 0)).astype(helper.tensor_dtype_to_np_dtype(dtype))]
