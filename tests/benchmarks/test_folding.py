"""Folding before the LiteRT model is written: BatchNorm goes into weights, activations into their operators."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.sides.folding import folded_steps


def graph(*nodes: onnx.NodeProto, **constants: np.ndarray) -> onnx.GraphProto:
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    kind = onnx.TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("x", kind, [1, 2])]
    return helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", kind, [1, 3])], tensors)


def test_a_norm_and_an_activation_go_into_the_gemm_before_them() -> None:
    random = np.random.default_rng(3)
    constants = {"w": random.standard_normal((3, 2), np.float32), "b": random.standard_normal(3, np.float32)}
    constants |= {name: random.uniform(0.5, 2, 3).astype(np.float32) for name in ("s", "t", "m", "v")}
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["a"], transB=1),
        helper.make_node("BatchNormalization", ["a", "s", "t", "m", "v"], ["n"], epsilon=1e-3),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    (step,) = folded_steps(graph(*nodes, **constants))
    assert (step.kind, step.output, step.activation) == ("Gemm", "y", "relu")
    x = random.standard_normal(2)
    linear = constants["w"] @ x + constants["b"]
    wanted = (linear - constants["m"]) / np.sqrt(constants["v"] + 1e-3) * constants["s"] + constants["t"]
    np.testing.assert_allclose(step.constants[0] @ x + step.constants[1], wanted, rtol=1e-5)


def test_what_others_read_too_stays() -> None:
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Add", ["a", "r"], ["s"]),
        helper.make_node("Clip", ["s", "low", "high"], ["y"]),
    ]
    steps = folded_steps(graph(*nodes, low=np.array(0, np.float32), high=np.array(6, np.float32)))
    assert [(step.kind, step.activation) for step in steps] == [("Add", ""), ("Relu", ""), ("Add", "relu6")]
