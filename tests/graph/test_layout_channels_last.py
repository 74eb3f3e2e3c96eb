"""A channels-last interface means the same, leaves no transpose at the border, and other kernels as they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.interface_layout import channels_last_tensors, import_channels_last
from edgetune.frontend.onnx.reader import OnnxModel, read_onnx
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.frontend.onnx.sample_inputs import sample_inputs
from edgetune.graph.layout.axis_order import exchanged
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from tests.examples import costly
from tests.graph.test_program import assert_same, model_of, random
from tests.interpreter import run_program

_MODELS = Path(__file__).parents[2] / "examples/models"


def _exchanged_program(model: OnnxModel, names: frozenset[str] | None = None) -> Program:
    """The program with its images channels last, after its answers have been compared with the reference."""
    chosen = channels_last_tensors(model, "channels_last", {}) if names is None else names
    program = to_program(import_channels_last(model, chosen))
    layouts = {tensor.name: tensor.layout for tensor in (*program.inputs, *program.outputs)}
    feed = sample_inputs(model, [tensor.of_model() for tensor in program.inputs], 1, seed=5)[0]
    expected = exchanged(evaluate_model(model, [feed])[0], layouts)
    actual = run_program(program, exchanged(feed, layouts))
    for name, value in expected.items():
        assert actual[name].shape == value.shape
        assert np.abs(actual[name].astype("f8") - value).max() <= 1e-5 * max(float(np.abs(value).max()), 1e-6), name
    return program


def _kernels(program: Program) -> list[str]:
    return ["_".join(program.kernels[call.kernel].sources) for call in program.calls]


def _conv(data: str, output: str, weights: str = "w") -> onnx.NodeProto:
    return helper.make_node("Conv", [data, weights], [output])


_BEFORE: Mapping[str, tuple[list[onnx.NodeProto], list[str]]] = {
    "pooled": ([helper.make_node("MaxPool", ["x"], ["z"], kernel_shape=[2, 2])], ["max_pool2d", "conv2d"]),
    "resized": ([helper.make_node("Resize", ["x", "", "twice"], ["z"])], ["resize2d", "conv2d"]),
    "scaled": ([helper.make_node("Sub", ["x", "mean"], ["z"])], ["subtract", "conv2d"]),
    "sliced": ([helper.make_node("Slice", ["x", "first", "last", "axes"], ["z"])], ["conv2d"]),
    "as it is": ([helper.make_node("Identity", ["x"], ["z"])], ["conv2d"]),
}


@pytest.mark.parametrize("name", _BEFORE)
def test_no_transpose_is_left_before_the_first_convolution(name: str) -> None:
    nodes, kernels = _BEFORE[name]
    generator = np.random.default_rng(3)
    constants = {
        "w": random(generator, 4, 3, 3, 3),
        "mean": random(generator, 1, 3, 1, 1),
        "twice": np.array([1, 1, 2, 2], np.float32),
        **{key: np.array(value) for key, value in {"first": [1, 0], "last": [7, 7], "axes": [2, 3]}.items()},
    }
    assert _kernels(_exchanged_program(model_of([*nodes, _conv("z", "y")], {"x": [1, 3, 8, 8]}, ["y"], constants))) == (
        kernels
    )


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "float64", "float16", "bool"])
def test_images_of_any_type(dtype: str) -> None:
    nodes = [helper.make_node("Cast", ["x"], ["z"], to=onnx.TensorProto.FLOAT), _conv("z", "y")]
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = model_of(nodes, {"x": [1, 3, 8, 8]}, ["y"], {"w": random(np.random.default_rng(9), 4, 3, 3, 3)})
    model.proto.graph.input[0].type.tensor_type.elem_type = element
    program = _exchanged_program(model)
    assert program.inputs[0].shape == (1, 8, 8, 3)
    assert program.inputs[0].dtype == dtype


@pytest.mark.parametrize(
    ("operator", "attributes", "kernels"),
    [
        ("Relu", {}, ["conv2d_relu"]),
        ("LeakyRelu", {"alpha": 0.1}, ["conv2d_leaky_relu"]),
        ("HardSigmoid", {}, ["conv2d_add_clip"]),
        ("Softmax", {"axis": 1}, ["conv2d", "softmax"]),
        ("DepthToSpace", {"blocksize": 2}, ["conv2d", "transpose"]),
        ("GlobalAveragePool", {}, ["conv2d", "mean"]),
    ],
)
def test_no_transpose_is_left_after_the_last_convolution(
    operator: str, attributes: dict[str, Any], kernels: list[str]
) -> None:
    nodes = [_conv("x", "z"), helper.make_node(operator, ["z"], ["y"], **attributes)]
    model = model_of(nodes, {"x": [1, 3, 8, 8]}, ["y"], {"w": random(np.random.default_rng(4), 4, 3, 3, 3)})
    assert _kernels(_exchanged_program(model)) == kernels


@pytest.mark.parametrize(
    ("node", "kernels"),
    [
        (helper.make_node("Pad", ["x", "pads"], ["z"]), ["transpose_pad_transpose"]),
        (helper.make_node("Where", ["mask", "x", "zero"], ["z"]), ["transpose_where_transpose"]),
        (helper.make_node("LogSoftmax", ["x"], ["z"], axis=1), ["transpose", "log_softmax", "transpose"]),
    ],
)
def test_what_the_documentation_names_stays_between_transposes(node: onnx.NodeProto, kernels: list[str]) -> None:
    constants = {
        "w": random(np.random.default_rng(4), 4, 3, 3, 3),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "mask": np.arange(64).reshape(1, 1, 8, 8) % 2 == 0,
        "zero": np.zeros(1, np.float32),
    }
    program = _exchanged_program(model_of([node, _conv("z", "y")], {"x": [1, 3, 8, 8]}, ["y"], constants))
    assert _kernels(program) == [*kernels, "conv2d"]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_signals_images_and_volumes(axes: int) -> None:
    weights = random(np.random.default_rng(5), 4, 3, *[3] * axes)
    nodes = [_conv("x", "z"), helper.make_node("Relu", ["z"], ["y"])]
    program = _exchanged_program(model_of(nodes, {"x": [2, 3, *[6] * axes]}, ["y"], {"w": weights}))
    assert program.inputs[0].shape == (2, *[6] * axes, 3)
    assert _kernels(program) == [f"conv{axes}d_relu"]


def test_pixels_that_are_made_of_channels_take_one_transpose_in_the_model_s_order_too() -> None:
    nodes = [_conv("x", "z"), helper.make_node("DepthToSpace", ["z"], ["y"], blocksize=2)]
    model = model_of(nodes, {"x": [1, 3, 8, 8]}, ["y"], {"w": random(np.random.default_rng(4), 8, 3, 3, 3)})
    assert _kernels(assert_same(model)) == ["conv2d", "transpose"]


@pytest.mark.parametrize("operator", ["LeakyRelu", "HardSwish", "HardSigmoid"])
def test_activations_between_convolutions_are_part_of_the_first(operator: str) -> None:
    generator = np.random.default_rng(6)
    nodes = [_conv("x", "z"), helper.make_node(operator, ["z"], ["a"]), _conv("a", "y", "v")]
    constants = {"w": random(generator, 4, 3, 3, 3), "v": random(generator, 4, 4, 3, 3)}
    names = _kernels(assert_same(model_of(nodes, {"x": [1, 3, 8, 8]}, ["y"], constants)))
    assert len(names) == 3
    assert [name for name in names if "transpose" in name] == names[2:]


@pytest.mark.long
@pytest.mark.parametrize(("axes", "groups"), [(1, 2), (2, 1), (3, 1)])
def test_transposed_convolutions_after_convolutions(axes: int, groups: int) -> None:
    generator = np.random.default_rng(7)
    up = helper.make_node("ConvTranspose", ["z", "v"], ["y"], strides=[2] * axes, group=groups)
    constants = {"w": random(generator, 4, 3, *[3] * axes), "v": random(generator, 4, 2, *[2] * axes)}
    model = model_of([_conv("x", "z"), up], {"x": [1, 3, *[5] * axes]}, ["y"], constants)
    assert_same(model)
    _exchanged_program(model)


@pytest.mark.long
def test_kernels_away_from_the_border_stay_what_they_are() -> None:
    model = read_onnx(_MODELS / "ds_cnn.onnx")
    before = to_program(import_onnx(model))
    after = to_program(import_channels_last(model, channels_last_tensors(model, "channels_last", {})))
    assert [call.label for call in before.calls] == [call.label for call in after.calls]
    # The image has one channel, so that not even the first convolution is another one.
    assert [kernel.workload for kernel in before.kernels] == [kernel.workload for kernel in after.kernels]


def test_numbers_of_nodes_in_workloads_are_the_model_s() -> None:
    # A mean is named after its node, so a node more at the border would make it another task.
    nodes = [
        _conv("x", "a"),
        helper.make_node("ReduceMean", ["a"], ["b"], axes=[2, 3], keepdims=1),
        helper.make_node("Conv", ["b", "v"], ["y"]),
    ]
    generator = np.random.default_rng(8)
    constants = {"w": random(generator, 4, 3, 3, 3), "v": random(generator, 4, 4, 1, 1)}
    model = model_of(nodes, {"x": [1, 3, 8, 8]}, ["y"], constants)
    means = [
        {kernel.workload for kernel in program.kernels if kernel.name.startswith("mean")}
        for program in (to_program(import_onnx(model)), _exchanged_program(model))
    ]
    assert means[0] == means[1] != set()


@pytest.mark.long
@costly(15)
@given(st.data())
def test_any_choice_of_tensors_keeps_the_meaning(data: st.DataObject) -> None:
    rank = data.draw(st.integers(3, 5))
    extents = st.integers(1, 4)
    batch, channels = data.draw(extents), data.draw(extents)
    shape = [batch, channels, *data.draw(st.lists(extents, min_size=rank - 2, max_size=rank - 2))]
    unary = st.sampled_from(["Relu", "LeakyRelu", "Sigmoid", "Neg", "HardSigmoid"])
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    constants = {
        "w": random(generator, data.draw(extents), channels, *[1] * (rank - 2)),
        "shift": random(generator, channels, *[1] * (rank - 2)),
    }
    nodes = [
        helper.make_node("Add", ["x", "shift"], ["a"]),
        helper.make_node(data.draw(unary), ["a"], ["b"]),
        helper.make_node("Mul", ["b", "other"], ["c"]),
        helper.make_node(data.draw(unary), ["c"], ["inner"]),
        helper.make_node("Conv", ["inner", "w"], ["d"]),
        helper.make_node(data.draw(unary), ["d"], ["y"]),
        helper.make_node("Flatten", ["d"], ["flat"]),
    ]
    model = model_of(nodes, {"x": shape, "other": shape}, ["y", "inner", "flat"], constants)
    _exchanged_program(model, frozenset(data.draw(st.sets(st.sampled_from(["x", "other", "y", "inner"])))))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_scale_and_shift_of_a_normalisation_follow_its_axes(axis: int) -> None:
    """TVM's layout pass turned the data, but not the scale."""
    generator = np.random.default_rng(1)
    shape = (2, 4, 3, 5)
    weights = {"w": random(generator, 4, 3, 1, 1)}
    weights |= {name: random(generator, *shape[axis % 4 :]) for name in ("scale", "shift")}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("LayerNormalization", ["c", "scale", "shift"], ["y"], axis=axis),
    ]
    assert_same(model_of(nodes, {"x": [2, 3, 3, 5]}, ["y"], weights))
