"""A graph of ONNX operators under construction, whose tensors have the names and shapes of an expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.search.expression import Expression

OPSET = 20
_IR_VERSION = 9
RESULT = "result"
"""The name of the output."""

Operand = str | float | Sequence[int] | np.ndarray
"""The name of a tensor, or a constant: floats are float32, sequences of integers int64."""


class Graph:
    """`graph("Add", "x", 1.0, ...)` adds a node, and returns the name of its result."""

    def __init__(self, case: Expression) -> None:
        self.case = case
        self.nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def __call__(self, operator: str, *operands: Operand, **attributes: Any) -> str:
        """Add a node, and return the name of its one result."""
        return self.several(operator, 1, *operands, **attributes)[0]

    def several(self, operator: str, count: int, *operands: Operand, **attributes: Any) -> list[str]:
        """The names of the `count` results of a node."""
        names = [f"{operator.lower()}_{len(self.nodes)}_{number}" for number in range(count)]
        own = {} if "domain" not in attributes else {"domain": attributes.pop("domain")}
        inputs = [one if isinstance(one, str) else self._constant(one) for one in operands]
        self.nodes.append(helper.make_node(operator, inputs, names, **own, **attributes))
        return names

    def weights(self, name: str) -> np.ndarray:
        """The values of a constant of the expression."""
        return self.case.values(self.case.constants)[name]

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an input of the expression."""
        return tuple(self.case.inputs[name])

    def model(self, result: str, *, weights: bool = False, domain: str = "") -> onnx.ModelProto:
        """The model whose output is `result`; `weights` adds all constants of the expression by their names.

        `domain` is one beside ONNX's own.
        """
        for node in self.nodes:
            node.output[:] = [RESULT if name == result else name for name in node.output]
            node.input[:] = [RESULT if name == result else name for name in node.input]
        inputs = [
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
            for name, shape in self.case.inputs.items()
        ]
        output = helper.make_tensor_value_info(RESULT, onnx.TensorProto.FLOAT, self.case.output)
        known = self.case.values(self.case.constants) if weights else {}
        constants = [*self._constants, *(numpy_helper.from_array(array, name) for name, array in known.items())]
        graph = helper.make_graph(self.nodes, self.case.name, inputs, [output], constants)
        opsets = [helper.make_opsetid("", OPSET), *([helper.make_opsetid(domain, 1)] if domain else [])]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="edgetune")

    def _constant(self, value: float | Sequence[int] | np.ndarray) -> str:
        if isinstance(value, np.ndarray):
            array = value
        elif isinstance(value, Sequence):
            array = np.array(value, np.int64)
        else:
            array = np.array(value, np.float32)
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(array, name))
        return name


Build = Callable[[Graph], str]
"""Adds the nodes of a graph, and returns the name of the output."""
