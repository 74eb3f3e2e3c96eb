"""Layers carry the names that the engineer gave her nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.graph.layer_names import layer_label
from edgetune.graph.partition import to_program
from edgetune.models.importer import import_onnx
from edgetune.models.onnx_file import read_onnx

MODELS = Path(__file__).parents[1] / "examples/models"


def labels(path: Path) -> list[str]:
    return [call.label for call in to_program(import_onnx(read_onnx(path, {}))).calls]


def test_a_residual_network_is_recognised() -> None:
    assert labels(MODELS / "resnet8.onnx") == [
        "/f/f.0/f.0.0/c/Conv (conv2d_add_relu)",
        "/f/f.1/a/a.0/c/Conv (conv2d_add_relu)",
        "/f/f.1/b/b.0/c/Conv (conv2d_add_add_relu)",
        "/f/f.2/a/a.0/c/Conv (conv2d_add_relu)",
        "/f/f.2/d/Conv (conv2d_add)",  # the short cut is computed before the sum that it enters
        "/f/f.2/b/b.0/c/Conv (conv2d_add_add_relu)",
        "/f/f.3/a/a.0/c/Conv (conv2d_add_relu)",
        "/f/f.3/d/Conv (conv2d_add)",
        "/f/f.3/b/b.0/c/Conv (conv2d_add_add_relu)",
        "/f/f.4/AveragePool (avg_pool2d)",
        "/fc/Gemm (matmul_add)",
        "/Softmax (softmax)",
    ]


@pytest.mark.parametrize("model", ["ds_cnn", "vww", "ad_ae"])
def test_every_convolution_and_product_is_known_by_its_node(model: str) -> None:
    nodes = [n.name for n in onnx.load(MODELS / f"{model}.onnx").graph.node if n.op_type in {"Conv", "Gemm", "MatMul"}]
    known = [label.split(" (")[0] for label in labels(MODELS / f"{model}.onnx")]
    assert [name for name in known if name in nodes] == nodes


def test_equal_branches_keep_their_names_apart(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    weights = [random.standard_normal((8, 8, 3, 3)).astype(np.float32) for _ in range(3)]
    shape = [1, 8, 9, 9]
    nodes = [
        helper.make_node("Conv", ["x", f"w{i}"], [f"c{i}"], name=name, pads=[1, 1, 1, 1])
        for i, name in enumerate(("left", "*/ right", ""))
    ]
    nodes += [
        helper.make_node("Concat", ["c0", "c1", "c2"], ["t"], axis=1, name="joined"),
        helper.make_node("Tanh", ["t"], ["y"], name="squashed"),
    ]
    graph = helper.make_graph(
        nodes,
        "branches",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 24, 9, 9])],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    program = to_program(import_onnx(read_onnx(tmp_path / "m.onnx", {})))
    found = {call.label.split(" (")[0]: call for call in program.calls if "conv" in call.label}
    for name, weight in zip(("left", "*/ right"), weights, strict=False):
        constants = [program.constants[a] for a in found[name].arguments if a in program.constants]
        assert any(np.array_equal(np.sort(c.ravel()), np.sort(weight.ravel())) for c in constants)


def test_what_only_scales_integers_does_not_name_a_layer() -> None:
    named = [("b_scaled", "DequantizeLinear"), ("conv", "Conv"), ("", "Relu")]
    assert layer_label(named, [0, 1, 2], "conv2d_relu") == "conv (conv2d_relu)"
    assert layer_label(named, [0, 2], "quantize") == "b_scaled (quantize)"
    assert layer_label(named, [2], "relu") == "relu"
    assert layer_label(named, [], "relu") == "relu"
