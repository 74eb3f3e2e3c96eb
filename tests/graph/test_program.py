"""Graph passes keep what a model means, and leave what they promise: folded, fused, channels last, merged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto, read_onnx
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.frontend.onnx.sample_inputs import sample_inputs
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from tests.examples import costly
from tests.interpreter import run_program

MODELS = Path(__file__).parents[2] / "examples/models"


def model_of(
    nodes: list[onnx.NodeProto], inputs: dict[str, list[int]], outputs: list[str], constants: dict[str, np.ndarray]
) -> OnnxModel:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model_from_proto(proto, "0" * 64, "model", None, "model.onnx")


def assert_same(model: OnnxModel, tolerance: float = 1e-5) -> Program:
    program = to_program(import_onnx(model))
    feed = sample_inputs(model, program.inputs, 1, seed=5)[0]
    expected = evaluate_model(model, [feed])[0]
    actual = run_program(program, feed)
    for name, value in expected.items():
        largest = max(float(np.abs(value).max()), 1e-6)
        assert np.abs(actual[name].astype("f8") - value).max() <= tolerance * largest, name
    return program


def test_doubles_stay_doubles_where_scales_are_folded() -> None:
    generator = np.random.default_rng(2)
    shapes = {"w": [8, 4], "scale": [4], "shift": [4]}
    constants = {name: random(generator, *shape).astype("float64") for name, shape in shapes.items()}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Mul", ["a", "scale"], ["b"]),
        helper.make_node("Add", ["b", "shift"], ["c"]),
        helper.make_node("Mul", ["c", "scale"], ["y"]),
    ]
    model = model_of(nodes, {"x": [3, 8]}, ["y"], constants)
    for end in (*model.proto.graph.input, *model.proto.graph.output):
        end.type.tensor_type.elem_type = TensorProto.DOUBLE
    del model.proto.graph.value_info[:]  # inferred from floats
    assert [spec.dtype for spec in assert_same(model).outputs] == ["float64"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["ds_cnn", "ad_ae"])
def test_example_models_keep_their_meaning(name: str) -> None:
    assert_same(read_onnx(MODELS / f"{name}.onnx"))


def test_ds_cnn_is_six_kernels_with_batchnorm_and_transposes_gone() -> None:
    program = to_program(import_onnx(read_onnx(MODELS / "ds_cnn.onnx")))
    assert [k.name for k in program.kernels] == [
        *("conv2d_add_relu_25x5x64", "conv2d_add_relu_25x5x64_2", "conv2d_add_relu_25x5x64_3"),
        *("avg_pool2d", "matmul_add", "softmax"),
    ]
    assert [k.weight for k in program.kernels] == [1, 4, 4, 1, 1, 1]
    assert sum(k.macs * k.weight for k in program.kernels) == 2_656_768


@pytest.mark.long
def test_a_program_is_the_same_in_every_import() -> None:
    first, second = (to_program(import_onnx(read_onnx(MODELS / "resnet8.onnx"))) for _ in range(2))
    assert [k.workload for k in first.kernels] == [k.workload for k in second.kernels]
    assert first.buffers == second.buffers
    assert first.calls == second.calls


def random(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return np.asarray(generator.standard_normal(shape) * 0.5).astype("f4")


@pytest.mark.long
@costly(12)
@given(
    channels=st.sampled_from([1, 3, 8]),
    grouped=st.booleans(),
    stride=st.integers(1, 2),
    bias=st.booleans(),
    activation=st.sampled_from(["Relu", "Clip", "Sigmoid", None]),
    seed=st.integers(0, 99),
)
def test_convolution_with_batchnorm_folds_into_one_kernel(
    channels: int, grouped: bool, stride: int, bias: bool, activation: str | None, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    outputs = channels if grouped else 4
    constants = {
        "w": random(generator, outputs, 1 if grouped else channels, 3, 3),
        "b": random(generator, outputs),
        "scale": generator.uniform(0.5, 2, outputs).astype("f4"),
        "shift": random(generator, outputs),
        "mean": random(generator, outputs),
        "var": generator.uniform(0.1, 2, outputs).astype("f4"),
        "low": np.array(-0.5, "f4"),
        "high": np.array(0.75, "f4"),
    }
    nodes = [
        helper.make_node(
            "Conv",
            ["x", "w", "b"] if bias else ["x", "w"],
            ["c"],
            group=channels if grouped else 1,
            pads=[1, 1, 1, 1],
            strides=[stride, stride],
        ),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
    ]
    last = "n"
    if activation:
        nodes.append(helper.make_node(activation, ["n", "low", "high"] if activation == "Clip" else ["n"], ["y"]))
        last = "y"
    program = assert_same(model_of(nodes, {"x": [1, channels, 7, 6]}, [last], constants))
    convolutions = [k for k in program.kernels if k.macs]
    assert len(convolutions) == 1
    assert "multiply" not in convolutions[0].sources


def test_batchnorm_before_the_activation_of_two_readers_is_not_folded_away() -> None:
    generator = np.random.default_rng(0)
    constants = {
        "w": random(generator, 4, 3, 1, 1),
        "scale": random(generator, 4),
        "shift": random(generator, 4),
        "mean": random(generator, 4),
        "var": np.ones(4, "f4"),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
        helper.make_node("Add", ["c", "n"], ["y"]),
    ]
    assert_same(model_of(nodes, {"x": [1, 3, 5, 5]}, ["y"], constants))


def test_outputs_that_are_inputs_constants_or_named_twice_get_buffers_of_their_own() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Identity", ["y"], ["again"]),
        helper.make_node("Reshape", ["y", "shape"], ["flat"]),
        helper.make_node("Identity", ["c"], ["fixed"]),
    ]
    constants = {"shape": np.array([6], "i8"), "c": np.ones((2, 2), "f4")}
    program = assert_same(model_of(nodes, {"x": [2, 3]}, ["y", "same", "again", "flat", "fixed"], constants))
    ids = [b.id for b in program.output_buffers()]
    assert len(set(ids)) == 5
    written = Counter(a for call in program.calls for a in call.arguments[-1:])
    assert all(written[i] == 1 for i in ids)
