"""Translation of a `.tflite` file to an ONNX model of the same arithmetic, operator by operator.

A quantised tensor stays an integer tensor of the same name. An operator that computes reads it through a
DequantizeLinear and its result goes through a QuantizeLinear, which is what the quantisation of TensorFlow Lite means
("Quantization specification", version of 2018-12, and Jacob et al. 2017, section 2.1). LiteRT's kernels approximate
that in fixed point, so that a result may be one step away.

Operators that only move elements move the integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import ModelError
from edgetune.frontend.onnx.fixed_point import DOMAIN, fixed_point_functions
from edgetune.frontend.tflite.content import DTYPES, Quantisation, Tensor, TfliteContent
from edgetune.frontend.tflite.variables import FirstValue, Key, Variables

OPSET = 21
"""The first opset whose QuantizeLinear has 16 and 4 bits."""

_IR_VERSION = 10
_STORED = {"INT4": TensorProto.INT8}


class MisfitError(Exception):
    """An operator of the file that is not translated; the text says why, without its name and place."""


class Translation:
    """Nodes and constants of the ONNX model. Values are names; every method that makes one returns its name.

    `first_values` gives what a subgraph of the file, by number, assigns to variables; it raises MisfitError.
    """

    def __init__(self, content: TfliteContent, first_values: Callable[[int], Mapping[Key, FirstValue]]) -> None:
        self.content = content
        self.variables = Variables()
        self.first_values = first_values
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self._real: dict[int, str] = {}
        self._taken = {tensor.name for tensor in content.tensors if tensor.type in DTYPES}  # no handle is in the model
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
        """The model whose inputs have `shapes`, by name; inputs and outputs of states follow those of the file."""
        tensors = [self.content.tensors[number] for number in self.content.inputs]
        inputs = [_value_info(one.name, one.type, shapes[one.name]) for one in tensors]
        outputs = [self._output(number, position) for position, number in enumerate(self.content.outputs)]
        self.constants |= self.variables.constants()
        for state, value in self.variables.states():
            shape, kind = state.first.elements.shape, state.first.type
            inputs.append(_value_info(state.name_in, kind, shape))
            self.nodes.append(helper.make_node("Identity", [value], [state.name_out], name=state.name_out))
            outputs.append(_value_info(state.name_out, kind, shape))
        return self._proto(inputs, outputs)

    def model_of(self, names: Sequence[str]) -> onnx.ModelProto:
        """A model without inputs that computes those tensors of the file."""
        tensors = {tensor.name: tensor for tensor in self.content.tensors}
        return self._proto([], [_value_info(name, tensors[name].type, None) for name in names])

    def _proto(self, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto]) -> onnx.ModelProto:
        used = {name for node in self.nodes for name in node.input}
        weights = [numpy_helper.from_array(array, name) for name, array in self.constants.items() if name in used]
        own = any(node.domain == DOMAIN for node in self.nodes)
        return helper.make_model(
            helper.make_graph(self.nodes, self.content.path.stem, inputs, outputs, weights),
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
            return _value_info(name, tensor.type, None)
        return _value_info(tensor.name, tensor.type, None)


def _value_info(name: str, kind: str, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
    """An input or output of a type of the file."""
    stored = _STORED.get(kind) or int(helper.np_dtype_to_tensor_dtype(DTYPES[kind]))
    return helper.make_tensor_value_info(name, stored, shape)


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
