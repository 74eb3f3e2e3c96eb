"""Translation of a `.tflite` file to an ONNX model of the same arithmetic, operator by operator.

A quantised tensor stays an integer tensor of the same name. An operator that computes reads it through a
DequantizeLinear and its result goes through a QuantizeLinear, which is what the quantisation of TensorFlow Lite means
("Quantization specification", version of 2018-12, and Jacob et al. 2017, section 2.1). LiteRT's kernels approximate
that in fixed point, so that a result may be one step away.

Operators that only move elements move the integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import ModelError
from edgetune.frontend.onnx.fixed_point import DOMAIN, fixed_point_functions
from edgetune.frontend.tflite.content import Quantisation, Tensor, TfliteContent

OPSET = 21
"""The first opset whose QuantizeLinear has 16 and 4 bits."""

_IR_VERSION = 10
_STORED = {"INT4": TensorProto.INT8}


class MisfitError(Exception):
    """An operator of the file that is not translated; the text says why, without its name and place."""


class Translation:
    """Nodes and constants of the ONNX model. Values are names; every method that makes one returns its name."""

    def __init__(self, content: TfliteContent) -> None:
        self.content = content
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self._real: dict[int, str] = {}
        self._taken = {tensor.name for tensor in content.tensors}
        for tensor in content.tensors:
            if tensor.value is not None:
                self.constants[tensor.name] = tensor.value

    def fresh(self, name: str) -> str:
        """A name that nothing has yet."""
        found, number = name, 0
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found

    def constant(self, value: Any, dtype: Any, name: str = "constant") -> str:
        """A new constant."""
        found = self.fresh(name)
        self.constants[found] = np.asarray(value, dtype)
        return found

    def real(self, number: int) -> str:
        """The real numbers that a quantised tensor stands for; any other tensor itself."""
        tensor = self.content.tensors[number]
        if tensor.quantisation is None:
            return tensor.name
        if number not in self._real:
            self._real[number] = self.dequantised(tensor, tensor.quantisation, tensor.name, tensor.quantisation.axis)
        return self._real[number]

    def dequantised(self, tensor: Tensor, found: Quantisation, integers: str, axis: int) -> str:
        """The real numbers of `integers`, arranged anew of `tensor`, whose quantised axis is `axis` now."""
        shape = () if found.scale.size == 1 else found.scale.shape
        operands = [integers, self.constant(found.scale.reshape(shape), np.float32, f"{tensor.name}/scale")]
        if np.any(found.zero_point):
            zero_point = found.zero_point.astype(np.int8 if tensor.type == "INT4" else tensor.dtype)
            operands.append(self.constant(zero_point.reshape(shape), zero_point.dtype, f"{tensor.name}/zero_point"))
        result = self.fresh(f"{tensor.name}/real")
        attributes = {"axis": axis} if shape else {}
        self.nodes.append(helper.make_node("DequantizeLinear", operands, [result], name=result, **attributes))
        return result

    def quantised(self, tensor: Tensor, found: Quantisation, value: str) -> None:
        """Makes `tensor` of its real numbers."""
        if tensor.type not in {"INT8", "UINT8", "INT16"} or found.scale.size > 1:
            raise MisfitError(f"makes the tensor {tensor.name!r} of {tensor.type} with {found.scale.size} scales")
        operands = [
            value,
            self.constant(found.scale.reshape(()), np.float32, f"{tensor.name}/scale"),
            self.constant(found.zero_point.reshape(()), tensor.dtype, f"{tensor.name}/zero_point"),
        ]
        self.nodes.append(
            helper.make_node("QuantizeLinear", operands, [tensor.name], name=self.fresh(f"{tensor.name}/quantised"))
        )

    def model(self, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
        """The model whose inputs have `shapes`, by name."""
        tensors = self.content.tensors
        outputs = [self._output(number, position) for position, number in enumerate(self.content.outputs)]
        used = {name for node in self.nodes for name in node.input}
        graph = helper.make_graph(
            self.nodes,
            self.content.path.stem,
            [
                helper.make_tensor_value_info(tensors[n].name, _element_type(tensors[n]), shapes[tensors[n].name])
                for n in self.content.inputs
            ],
            outputs,
            [numpy_helper.from_array(array, name) for name, array in self.constants.items() if name in used],
        )
        own = any(node.domain == DOMAIN for node in self.nodes)
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET), *([helper.make_opsetid(DOMAIN, 1)] if own else [])],
            functions=fixed_point_functions() if own else [],
            ir_version=_IR_VERSION,
        )

    def _output(self, number: int, position: int) -> onnx.ValueInfoProto:
        """An output of the model; one that is a constant, an input or an output before has another name."""
        tensor = self.content.tensors[number]
        known = number in self.content.inputs or number in self.content.outputs[:position]
        if tensor.value is not None or known:
            name = self.fresh(f"{tensor.name}/output")
            self.nodes.append(helper.make_node("Identity", [tensor.name], [name], name=name))
            return helper.make_tensor_value_info(name, _element_type(tensor), None)
        return helper.make_tensor_value_info(tensor.name, _element_type(tensor), None)


def _element_type(tensor: Tensor) -> int:
    return _STORED.get(tensor.type) or int(helper.np_dtype_to_tensor_dtype(tensor.dtype))


def require_declared_shapes(content: TfliteContent, proto: onnx.ModelProto) -> None:
    """Raises ModelError where an operator's result has another shape than the file says, before anything is computed.

    Interfaces and buffers of other programs have the shape that the file says, and a small file may state a large one.
    """
    try:
        inferred = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"{content.path} contradicts itself ({reason}): convert the model again") from None
    outputs = {value.name for value in inferred.graph.output}
    found = {value.name: value.type.tensor_type for value in (*inferred.graph.value_info, *inferred.graph.output)}
    for operator, tensor in ((one, content.tensors[number]) for one in content.operators for number in one.outputs):
        computed = found.get(tensor.name)
        if computed is None or not computed.HasField("shape"):
            if tensor.name in outputs:
                raise ModelError(
                    f"{content.path} contradicts itself: operator {operator.index} ({operator.name}), which makes "
                    f"{tensor.name!r}, or one before it cannot have its operands; convert the model again"
                )
            continue
        if -1 in tensor.signature[1:] or not tensor.shape:
            continue
        extents = [int(one.dim_value) if one.HasField("dim_value") else -1 for one in computed.shape.dim]
        fits = len(extents) == len(tensor.shape)
        if not fits or any(-1 != e != s for e, s in zip(extents, tensor.shape, strict=True)):
            raise ModelError(
                f"{content.path} gives tensor {tensor.name!r} the shape {list(tensor.shape)}, and its operator makes "
                f"{extents}: convert the model again"
            )
