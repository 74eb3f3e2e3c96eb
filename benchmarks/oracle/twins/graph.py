"""The graph of an expression: its inputs have the names and shapes of the expression's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from benchmarks.oracle.onnx_graph import OnnxGraph
from benchmarks.search.expression import Expression

RESULT = "result"
"""The name of the output."""


class Graph(OnnxGraph):
    """An ONNX graph under construction that computes the expression `case`."""

    def __init__(self, case: Expression) -> None:
        super().__init__(case.name, case.inputs)
        self.case = case

    def weights(self, name: str) -> np.ndarray:
        """The values of a constant of the expression."""
        return self.case.values(self.case.constants)[name]

    def result(self, tensor: str, domain: str = "") -> onnx.ModelProto:
        """The model whose output is `tensor`; `domain` is as in `OnnxGraph.model`."""
        model = self.model({RESULT: tensor}, domain)
        output = helper.make_tensor_value_info(RESULT, onnx.TensorProto.FLOAT, self.case.output)
        model.graph.output[0].CopyFrom(output)
        return model


Build = Callable[[Graph], str]
"""Adds the nodes of a graph, and returns the name of the output."""
