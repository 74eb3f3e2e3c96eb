"""Integer operators: which operands of products stay integers, and that the results are those of the definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import te, tirx

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto, read_onnx
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.fixed_point import fixed_point_scale
from edgetune.graph.kernels import SCALES_SHIFT, SCALES_SHIFT_LITTLE, SYMMETRIC_BYTES, with_scales_of
from edgetune.graph.partition import to_program
from edgetune.pipeline.model_formats import read_model
from tests.frontend.tflite.writer import Quantised, Writer


def trained_with_quantisation(path: Path) -> Path:
    """Weights are floats that the graph quantises and clips; scales are Constant nodes; a Gemm reads a flat tensor."""
    random = np.random.default_rng(0)
    weights = {
        "w": random.normal(0, 0.2, (4, 3, 3, 3)),
        "v": random.normal(0, 0.1, (5, 64)),
        "b": random.normal(size=5),
    }
    numbers = {"s": np.float32(0.02), "ws": np.float32(0.004), "z": np.int8(0), "lo": np.int8(-127), "hi": np.int8(127)}
    nodes = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value), name))
        for name, value in numbers.items()
    ]

    def quantised(x: str, scale: str) -> str:
        nodes.append(helper.make_node("QuantizeLinear", [x, scale, "z"], [f"{x}q"]))
        nodes.append(helper.make_node("Clip", [f"{x}q", "lo", "hi"], [f"{x}k"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{x}k", scale, "z"], [f"{x}d"]))
        return f"{x}d"

    nodes.append(helper.make_node("Conv", [quantised("x", "s"), quantised("w", "ws")], ["c"]))
    nodes.append(helper.make_node("Flatten", [quantised("c", "s")], ["f"]))
    nodes.append(helper.make_node("Gemm", ["f", quantised("v", "ws"), "b"], ["y"], transB=1))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 3, 6, 6]), ("y", [1, 5]))]
    stored = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "trained", ends[:1], ends[1:], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.long
def test_weights_that_the_graph_quantises_are_stored_as_integers(tmp_path: Path) -> None:
    model = read_onnx(trained_with_quantisation(tmp_path / "m.onnx"))
    program = to_program(import_onnx(model))
    stored = sorted(
        (param.shape, param.dtype) for k in program.kernels for param in k.params if param.role == "constant"
    )
    assert stored == [((4, 3, 3, 3), "int8"), ((5,), "float32"), ((64, 5), "int8")]
    feed = {"x": np.random.default_rng(1).standard_normal((1, 3, 6, 6)).astype(np.float32)}
    (found,), (wanted,) = evaluate_program(program, [feed]), evaluate_model(model, [feed])
    # A sum near the middle between two integers may round to either; each is 0.02 times a weight of at most 0.4.
    np.testing.assert_allclose(found["y"], wanted["y"], atol=0.02)


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23, 25])
def test_products_are_of_integers_in_every_opset(opset: int) -> None:
    stored = {"w": np.ones((8, 8), "int8"), "s": np.float32(0.02), "z": np.int8(3), "wz": np.int8(0)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "s", "wz"], ["wd"]),
        helper.make_node("MatMul", ["d", "wd"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in "xy"]
    initializers = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    graph = helper.make_graph(nodes, "opset", ends[:1], ends[1:], initializers)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    program = to_program(import_onnx(model_from_proto(proto, "0" * 64, "model", None, "model.onnx")))
    assert any("integer_matmul" in kernel.name for kernel in program.kernels)


def test_readers_of_a_transpose_share_it() -> None:
    """Two products and a softmax read the transposed integers; another softmax reads them as they were."""
    random = np.random.default_rng(0)
    stored = {f"w{n}": random.integers(-100, 100, (64, 48)).astype("int8") for n in range(2)}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]),
        helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0]),
        helper.make_node("Softmax", ["t"], ["turned"]),
        helper.make_node("Softmax", ["d"], ["plain"]),
    ]
    for name in stored:
        nodes.append(helper.make_node("DequantizeLinear", [name, "s", "z"], [f"{name}d"]))
        nodes.append(helper.make_node("MatMul", ["t", f"{name}d"], [f"{name}y"]))
    results = ["turned", "plain", *(f"{name}y" for name in stored)]
    graph = helper.make_graph(
        nodes,
        "shared",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [64, 32])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
        [
            numpy_helper.from_array(np.asarray(value), name)
            for name, value in {**stored, "s": np.float32(0.02), "z": np.int8(3)}.items()
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = model_from_proto(proto, "0" * 64, "model", None, "model.onnx")
    program = to_program(import_onnx(model))
    called = [program.kernels[call.kernel].name for call in program.calls]
    assert sum("transpose" in name for name in called) == 1
    assert sum("integer_matmul" in name for name in called) == 2
    feed = {"x": random.integers(-128, 128, (64, 32)).astype("int8")}
    (found,), (wanted,) = evaluate_program(program, [feed]), evaluate_model(model, [feed])
    for name in results:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-4)


def test_a_zero_point_and_the_bias_behind_a_sum_are_one_constant() -> None:
    draw = np.random.default_rng(5)
    stored = {
        "w": draw.integers(-127, 128, (6, 4, 3, 3), "int8"),
        "b": draw.integers(-(1 << 31), 1 << 31, 6, "int64").astype("int32"),
        "z": np.int8(-7),
    }
    nodes = [
        helper.make_node("Transpose", ["x"], ["first"], perm=[0, 3, 1, 2]),
        helper.make_node("ConvInteger", ["first", "w", "z"], ["sums"], pads=[1, 1, 1, 1]),
        helper.make_node("Transpose", ["sums"], ["last"], perm=[0, 2, 3, 1]),
        helper.make_node("Add", ["last", "b"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.INT8, [1, 5, 5, 4]),
        helper.make_tensor_value_info("y", TensorProto.INT32, [1, 5, 5, 6]),
    ]
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    graph = helper.make_graph(nodes, "offsets", ends[:1], ends[1:], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model = model_from_proto(proto, "0" * 64, "model", None, "model.onnx")
    program = to_program(import_onnx(model))
    (kernel,) = program.kernels
    assert sorted(param.shape for param in kernel.params if param.role == "constant") == [(1, 1, 1, 6), (6, 3, 3, 4)]
    feed = {"x": draw.integers(-128, 128, (1, 5, 5, 4), "int8")}
    (found,), (wanted,) = evaluate_program(program, [feed]), evaluate_model(model, [feed])
    np.testing.assert_array_equal(found["y"], wanted["y"])


@pytest.mark.parametrize(("least", "symmetric"), [(-127, True), (-128, False)])
def test_a_kernel_says_whether_its_weights_are_symmetric(least: int, symmetric: bool) -> None:
    weights = np.full((8, 16), 127, "int8")
    weights[3, 5] = least
    ends = [
        helper.make_tensor_value_info("x", TensorProto.INT8, [4, 8]),
        helper.make_tensor_value_info("y", TensorProto.INT32, None),
    ]
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        "product",
        ends[:1],
        ends[1:],
        [numpy_helper.from_array(weights, "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (kernel,) = to_program(import_onnx(model_from_proto(proto, "0" * 64, "model", None, "model.onnx"))).kernels
    assert (SYMMETRIC_BYTES in kernel.function.attrs) == symmetric


def test_constants_along_different_axes_stay_apart() -> None:
    draw = np.random.default_rng(2)
    stored = {
        "w": draw.integers(-127, 128, (6, 4, 1, 1), "int8"),
        "b": draw.integers(-999, 999, (1, 1, 9, 9), "int32"),
        "z": np.int8(-7),
    }
    nodes = [helper.make_node("ConvInteger", ["x", "w", "z"], ["sums"]), helper.make_node("Add", ["sums", "b"], ["y"])]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.INT8, [1, 4, 9, 9]),
        helper.make_tensor_value_info("y", TensorProto.INT32, None),
    ]
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    graph = helper.make_graph(nodes, "offsets", ends[:1], ends[1:], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    program = to_program(import_onnx(model_from_proto(proto, "0" * 64, "model", None, "model.onnx")))
    assert program.constant_bytes < 4 * 6 * 81  # of a bias for each channel of each pixel


def test_equal_layers_are_one_kernel_whatever_their_scales(tmp_path: Path) -> None:
    """What a core may know of constant scales is what holds for all layers, and splits no workload."""
    writer = Writer()
    options = {"Padding": 1, "StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
    x = writer.input((1, 4, 4, 8), "INT8", Quantised([0.1], [-3]))
    draw = np.random.default_rng(0)
    for scale in (0.01, 0.00001):
        given = writer.tensors[x].quantised
        scales, integers = [scale * (1 + n / 16) for n in range(8)], draw.integers(-127, 128, (8, 1, 1, 8), "int8")
        steps = Quantised([0.1 * one for one in scales], [0] * 8)
        weights = writer.constant(integers, "INT8", Quantised(scales, [0] * 8))
        bias = writer.constant(draw.integers(-99, 99, 8, "int32"), "INT32", steps)
        y = writer.tensor((1, 4, 4, 8), "INT8", given)
        writer.operator("CONV_2D", [x, weights, bias], [y], kind="Conv2DOptions", **options)
        x = y
    writer.outputs.append(x)
    (tmp_path / "two.tflite").write_bytes(writer.content())
    (kernel,) = read_model(tmp_path / "two.tflite").program().kernels
    numbers = [number for number, param in enumerate(kernel.params) if param.dtype == "uint32"]
    assert kernel.weight == 2
    assert list(kernel.function.attrs[SCALES_SHIFT]) == numbers
    assert SCALES_SHIFT_LITTLE not in kernel.function.attrs


def test_a_part_of_a_function_names_its_own_scales() -> None:
    x, rough, fine = (te.placeholder((4,), kind, name=kind) for kind in ("int32", "uint32", "uint32"))
    y = te.compute((4,), lambda i: fixed_point_scale(fixed_point_scale(x[i], rough[i]), fine[i]), name="y")
    function = te.create_prim_func([x, rough, fine, y]).with_attr(SCALES_SHIFT, [2]).with_attr(SCALES_SHIFT_LITTLE, [1])
    part = tirx.PrimFunc([function.params[2], function.params[3]], function.body, function.ret_type, function.attrs)
    found = with_scales_of(function, part)
    assert list(found.attrs[SCALES_SHIFT]) == [0]
    assert SCALES_SHIFT_LITTLE not in found.attrs
