"""A graph of ONNX operators under construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

OPSET = 20
_IR_VERSION = 9

Operand = str | float | Sequence[int] | np.ndarray
"""The name of a tensor, or a constant: floats are float32, sequences of integers int64."""


class OnnxGraph:
    """`graph("Add", "x", 1.0, ...)` adds a node, and returns the name of its result.

    `inputs` are the shapes of inputs by name; all are float32.
    """

    def __init__(self, name: str, inputs: Mapping[str, tuple[int, ...]]) -> None:
        self.name = name
        self.inputs = inputs
        self.nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def __call__(self, operator: str, *operands: Operand, **attributes: Any) -> str:
        """Add a node, and return the name of its one result."""
        return self.several(operator, 1, *operands, **attributes)[0]

    def several(self, operator: str, count: int, *operands: Operand, **attributes: Any) -> list[str]:
        """The names of the `count` results of a node."""
        names = [f"{operator.lower()}_{len(self.nodes)}_{number}" for number in range(count)]
        own = {} if "domain" not in attributes else {"domain": attributes.pop("domain")}
        inputs = [one if isinstance(one, str) else self.constant(one) for one in operands]
        self.nodes.append(helper.make_node(operator, inputs, names, **own, **attributes))
        return names

    def constant(self, value: float | Sequence[int] | np.ndarray, name: str = "") -> str:
        """The name of a tensor with this value: `name`, or a number."""
        if isinstance(value, np.ndarray):
            array = value
        elif isinstance(value, Sequence):
            array = np.array(value, np.int64)
        else:
            array = np.array(value, np.float32)
        name = name or f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(array, name))
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an input."""
        return tuple(self.inputs[name])

    def model(self, results: Mapping[str, str], domain: str = "") -> onnx.ModelProto:
        """The model with these outputs: tensors of the graph by the names that they get.

        Shapes are inferred as far as ONNX knows the operators. `domain` is one beside ONNX's own.
        """
        renamed = {tensor: name for name, tensor in results.items()}
        for node in self.nodes:
            node.output[:] = [renamed.get(name, name) for name in node.output]
            node.input[:] = [renamed.get(name, name) for name in node.input]
        floats = onnx.TensorProto.FLOAT
        inputs = [helper.make_tensor_value_info(name, floats, shape) for name, shape in self.inputs.items()]
        outputs = [helper.make_tensor_value_info(name, floats, None) for name in results]
        graph = helper.make_graph(self.nodes, self.name, inputs, outputs, self._constants)
        opsets = [helper.make_opsetid("", OPSET), *([helper.make_opsetid(domain, 1)] if domain else [])]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="edgetune")
        return shape_inference.infer_shapes(model, strict_mode=not domain)
