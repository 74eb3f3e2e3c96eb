"""Products read and write transposed tensors in place; what cannot be read in place is copied as before."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.graph.test_program import assert_same, model_of, random

_HEADS = [0, 2, 1, 3]


def _attention() -> tuple[list[onnx.NodeProto], dict[str, list[int]]]:
    nodes = [
        helper.make_node("Transpose", ["q"], ["qt"], perm=_HEADS),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 3, 1]),
        helper.make_node("Transpose", ["v"], ["vt"], perm=_HEADS),
        helper.make_node("MatMul", ["qt", "kt"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"]),
        helper.make_node("MatMul", ["weights", "vt"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["y"], perm=_HEADS),
    ]
    return nodes, {name: [1, 6, 3, 8] for name in "qkv"}


def test_heads_of_attention_are_read_and_written_where_they_lie() -> None:
    nodes, inputs = _attention()
    program = assert_same(model_of(nodes, inputs, ["y", "weights"], {}))  # which keeps the products apart
    assert [kernel.sources for kernel in program.kernels] == [("transpose",), ("matmul",), ("softmax",), ("matmul",)]


def test_a_product_that_others_read_is_not_written_transposed_alone() -> None:
    nodes, inputs = _attention()
    program = assert_same(model_of(nodes, inputs, ["y", "mixed"], {}))
    assert sum(kernel.name.startswith("transpose") for kernel in program.kernels) == 2


@pytest.mark.parametrize("shape", [[2, 6, 1, 8], [1, 6, 3, 8]])
def test_batches_of_one_broadcast(shape: list[int]) -> None:
    nodes = [
        helper.make_node("Transpose", ["a"], ["at"], perm=_HEADS),
        helper.make_node("MatMul", ["at", "b"], ["y"]),
    ]
    program = assert_same(model_of(nodes, {"a": shape, "b": [2, 3, 8, 5]}, ["y"], {}))
    assert [kernel.name for kernel in program.kernels] == ["matmul"]


def test_products_with_constants_stay_what_they_are() -> None:
    weights = {"w": random(np.random.default_rng(1), 3, 8, 5)}
    nodes = [
        helper.make_node("Transpose", ["a"], ["at"], perm=[1, 0, 2]),
        helper.make_node("MatMul", ["at", "w"], ["y"]),
    ]
    program = assert_same(model_of(nodes, {"a": [6, 3, 8]}, ["y"], weights))
    assert [kernel.name for kernel in program.kernels] == ["transpose", "matmul"]
