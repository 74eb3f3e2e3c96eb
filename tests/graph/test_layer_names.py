"""Layers carry the names that the engineer gave her nodes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import read_onnx
from edgetune.graph.kernel_names import LONGEST, kernel_names, operators, summary
from edgetune.graph.layer_names import layer_label
from edgetune.graph.partition import to_program

MODELS = Path(__file__).parents[2] / "examples/models"


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


@pytest.mark.long
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


OPERATORS = ("add", "multiply", "cast", "tanh", "conv2d", "integer_conv2d", "avg_pool2d", "strided_slice", "scale_add")


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(OPERATORS), min_size=1, max_size=60),
            st.lists(st.integers(1, 4096), max_size=5),
        ),
        max_size=12,
    )
)
def test_names_of_kernels_differ_and_are_made_of_whole_operators(
    kernels: list[tuple[list[str], list[int]]],
) -> None:
    names = kernel_names(kernels)
    assert len(set(names)) == len(names)
    assert names == kernel_names(kernels)
    for name, (sources, _) in zip(names, kernels, strict=True):
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        stem = summary(sources)
        assert name.startswith(stem)
        assert len(stem) <= LONGEST
        words = re.sub(r"_and_\d+_more$", "", stem)
        words = re.sub(r"_x\d+(?=_|$)", "", words)
        assert set(_split(words)) <= set(sources)
        assert not re.search(r"(add|multiply|cast|tanh|conv2d|slice|pool2d)(_\1){2}", name)


def _split(words: str) -> list[str]:
    found = re.findall("|".join(sorted(OPERATORS, key=len, reverse=True)), words)
    assert "_".join(found) == words
    return found


def test_long_names_keep_what_tells_most_and_count_the_rest() -> None:
    assert summary(["conv2d", "add", "add", "relu"]) == "conv2d_add_add_relu"
    assert summary(["add"] * 40) == "add_x40"
    assert summary(["multiply", "add"] * 20 + ["tanh"]) == "multiply_add_tanh_and_38_more"
    many = [f"operator_number_{letter}" for letter in "abcdefgh"]
    assert summary(many) == "operator_number_a_operator_number_b_and_6_more"


def test_the_same_operators_are_told_apart_by_shape_and_then_by_number() -> None:
    kernels = [(["conv2d"], [1, 8, 8, 4]), (["conv2d"], [1, 4, 4, 8]), (["conv2d"], [1, 8, 8, 4]), (["add"], [1, 1])]
    assert kernel_names(kernels) == ["conv2d_8x8x4", "conv2d_4x4x8", "conv2d_8x8x4_2", "add"]
    assert kernel_names([(["add"], []), (["add"], [1])]) == ["add_scalar", "add_1"]


def test_operators_are_named_as_the_field_names_them() -> None:
    assert operators(["conv2d12", "add3", "tir_round1", "tir_clip"]) == ("conv2d", "add", "round", "clip")
    steps = ["divide", "tir_round", "add1", "maximum2", "minimum2", "cast4"]
    assert operators(["transpose1", *steps]) == ("transpose", "quantize")


def test_a_chain_of_forty_sums_and_one_of_rounding_have_names_for_people(tmp_path: Path) -> None:
    shape = [2, 12]
    nodes = [helper.make_node("Add", [f"t{i}", "b"], [f"t{i + 1}"], name=f"sum{i}") for i in range(40)]
    nodes += [helper.make_node("Floor", ["t40"], ["f"], name="down"), helper.make_node("Round", ["f"], ["y"])]
    long = "/encoder" * 40 + "/Exp"
    nodes += [helper.make_node("Softmax", ["t0"], ["s"], name=long), helper.make_node("Round", ["s"], ["z"])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "chain",
        [value("t0", TensorProto.FLOAT, shape), value("b", TensorProto.FLOAT, shape)],
        [value("y", TensorProto.FLOAT, shape), value("z", TensorProto.FLOAT, shape)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    program = to_program(import_onnx(read_onnx(tmp_path / "m.onnx", {})))
    names = [kernel.name for kernel in program.kernels]
    assert sorted(names) == ["add_x40_floor_round", "softmax_round"]
    assert [call.label for call in program.calls if call.label.endswith("Exp (softmax_round)")] == [
        f"{long} (softmax_round)"
    ]
    assert not [text for text in (*names, *(c.label for c in program.calls)) if "tir" in text]
    assert any(kernel.sources == (*["add"] * 40, "floor", "round") for kernel in program.kernels)
