"""A block of a transformer encoder, small: every kind of kernel that large ones have."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_HEADS_OUTSIDE = [0, 2, 1, 3]


@dataclass
class EncoderBlock:
    """Attention with a mask given at run time, then two products with GELU between; a normalisation behind each.

    Inputs: x of (1, positions, heads * head), mask of (1, 1, 1, positions), added to the scores. Output: y, as x.
    (A. Vaswani et al., Attention Is All You Need, 2017; J. Devlin et al., BERT, 2018.)
    """

    positions: int = 12
    heads: int = 2
    head: int = 16
    hidden: int = 64
    _nodes: list[onnx.NodeProto] = field(default_factory=list)
    _weights: list[onnx.TensorProto] = field(default_factory=list)
    _random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def model(self) -> onnx.ModelProto:
        """The whole block as a model, weights seeded; call it once."""
        wide = self.heads * self.head
        q, k, v = (self._split(self._product("x", wide, wide), axes) for axes in self._axes())
        scores = self._node("MatMul", q, k)
        scores = self._node("Div", scores, self._constant(np.sqrt(np.float32(self.head))))
        shares = self._node("Softmax", self._node("Add", scores, "mask"))
        mixed = self._node("Transpose", self._node("MatMul", shares, v), perm=_HEADS_OUTSIDE)
        mixed = self._node("Reshape", mixed, self._constant(np.array([1, self.positions, wide])))
        x = self._normal(self._node("Add", "x", self._product(mixed, wide, wide)), wide)
        up = self._product(x, wide, self.hidden)
        bell = self._node("Erf", self._node("Div", up, self._constant(np.sqrt(np.float32(2)))))
        bell = self._node("Add", bell, self._constant(np.float32(1)))
        gelu = self._node("Mul", self._node("Mul", up, bell), self._constant(np.float32(0.5)))
        y = self._normal(self._node("Add", x, self._product(gelu, self.hidden, wide)), wide)
        self._nodes.append(helper.make_node("Identity", [y], ["y"]))
        ends = {"x": [1, self.positions, wide], "mask": [1, 1, 1, self.positions], "y": [1, self.positions, wide]}
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends.items()]
        graph = helper.make_graph(self._nodes, "encoder_block", infos[:2], infos[2:], self._weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    @staticmethod
    def _axes() -> tuple[list[int], list[int], list[int]]:
        return _HEADS_OUTSIDE, [0, 2, 3, 1], _HEADS_OUTSIDE

    def _split(self, tensor: str, axes: list[int]) -> str:
        shape = self._constant(np.array([1, self.positions, self.heads, self.head]))
        return self._node("Transpose", self._node("Reshape", tensor, shape), perm=axes)

    def _product(self, tensor: str, depth: int, columns: int) -> str:
        weight = self._random.standard_normal((depth, columns)) / np.sqrt(depth)
        bias = self._random.standard_normal(columns) * 0.1
        product = self._node("MatMul", tensor, self._constant(weight.astype("float32")))
        return self._node("Add", product, self._constant(bias.astype("float32")))

    def _normal(self, tensor: str, wide: int) -> str:
        scale, shift = self._random.uniform(0.5, 1.5, wide), self._random.standard_normal(wide) * 0.1
        constants = [self._constant(values.astype("float32")) for values in (scale, shift)]
        return self._node("LayerNormalization", tensor, *constants, axis=-1)

    def _constant(self, values: np.ndarray | np.generic) -> str:
        name = f"c{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def _node(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name
