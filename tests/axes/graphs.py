"""A graph under construction: its nodes have names, and the shapes of its values are known."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

Shape = tuple[int, ...]


class UnfitError(Exception):
    """The drawn operator cannot follow the drawn graph; another draw may fit."""


class Graph:
    """A graph of nodes that begins with the float32 input `x`; `draw` makes all random choices."""

    def __init__(self, draw: random.Random, opset: int, shape: Shape) -> None:
        self.draw = draw
        self.opset = opset
        self.input = shape
        self.nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._values = np.random.default_rng(draw.randrange(1 << 30))

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Append a node; returns the name of its first output."""
        return self.add_all(operator, *inputs, outputs=outputs, **attributes)[0]

    def add_all(self, operator: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Append a node; returns the names of its outputs."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        names = [f"{name}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, name=name, **attributes))
        return names

    def constant(self, value: np.ndarray) -> str:
        """Name of an initializer."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def ints(self, *values: int) -> str:
        """Name of an initializer, a vector of int64."""
        return self.constant(np.array(values, "int64"))

    def floats(self, *shape: int) -> str:
        """Name of an initializer with random values around 0."""
        return self.constant(np.asarray(self._values.standard_normal(shape) * 0.5, "float32"))

    def positive(self, *shape: int) -> str:
        """Name of an initializer with random values from 0.5 to 2."""
        return self.constant(np.asarray(self._values.uniform(0.5, 2, shape), "float32"))

    def has(self, operator: str, attribute: str) -> bool:
        """Whether `attribute` is one of `operator` in this opset; it may be an input instead."""
        try:
            schema = onnx.defs.get_schema(operator, self.opset)
        except onnx.defs.SchemaError:
            raise UnfitError(f"{operator} is not in opset {self.opset}") from None
        if schema.deprecated:
            raise UnfitError(f"{operator} is deprecated in opset {self.opset}")
        return attribute in schema.attributes

    def shape(self, value: str) -> Shape:
        """Shape of a value; an extent that depends on data is -1."""
        if value == "x":
            return self.input
        dims = self._type(value).type.tensor_type.shape.dim
        return tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in dims)

    def is_float(self, value: str) -> bool:
        """Whether a value is of float32."""
        return bool(self._type(value).type.tensor_type.elem_type == TensorProto.FLOAT)

    def _type(self, value: str) -> onnx.ValueInfoProto:
        inferred = shape_inference.infer_shapes(self.model([])).graph.value_info
        found = next((info for info in inferred if info.name == value), None)
        if found is None:
            raise UnfitError(f"the type of {value} depends on data")
        return found

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        """The model that returns `outputs`."""
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.input)],
            [self._type(name) for name in outputs],
            self._constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
