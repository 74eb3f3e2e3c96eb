"""Which tensors are exchanged channels last: images by what the operators say, and what the user names."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import helper

from edgetune.errors import ModelError
from edgetune.frontend.onnx.interface_layout import channels_last_tensors, image_tensors, import_channels_last
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.graph.partition import to_program
from edgetune.target.preferences import Layout
from tests.graph.test_program import model_of

_IMAGE = [1, 3, 8, 8]
_WEIGHTS = {"w": np.ones((4, 3, 3, 3), np.float32), "w1": np.ones((4, 3, 3), np.float32)}


def _node(operator: str, inputs: list[str], output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, [output], **attributes)


def _segmentation() -> OnnxModel:
    """An image and a vector go in; a mask, a vector and the image with its axes turned come out."""
    nodes = [
        _node("Div", ["image", "scale"], "scaled"),
        _node("Conv", ["scaled", "w"], "features"),
        _node("Softmax", ["features"], "mask", axis=1),
        _node("Flatten", ["features"], "flat"),
        _node("Transpose", ["image"], "turned", perm=[0, 2, 3, 1]),
        _node("Relu", ["vector"], "positive"),
    ]
    constants = {**_WEIGHTS, "scale": np.full((1, 3, 1, 1), 2, np.float32)}
    inputs = {"image": _IMAGE, "vector": [1, 3, 5]}
    return model_of(nodes, inputs, ["mask", "flat", "turned", "positive"], constants)


@pytest.mark.parametrize(
    ("nodes", "shape", "images"),
    [
        ([_node("MaxPool", ["x"], "y", kernel_shape=[2, 2])], _IMAGE, {"x", "y"}),
        ([_node("Conv", ["x", "w1"], "y")], [1, 3, 9], {"x", "y"}),
        ([_node("Resize", ["x", "", "twice"], "y")], _IMAGE, {"x", "y"}),
        ([_node("Resize", ["x", "", "twice_last"], "y")], [1, 8, 8, 3], set()),
        ([_node("Sub", ["x", "x"], "z"), _node("GlobalAveragePool", ["z"], "y")], _IMAGE, {"x", "y"}),
        ([_node("Transpose", ["x"], "z", perm=[0, 3, 1, 2]), _node("Conv", ["z", "w"], "y")], [1, 8, 8, 3], {"y"}),
        ([_node("Flatten", ["x"], "y")], _IMAGE, set()),
        ([_node("MatMul", ["x", "x"], "y")], _IMAGE, set()),
        ([_node("Conv", ["w_image", "x"], "y")], [4, 3, 3, 3], {"y"}),
    ],
)
def test_images_are_known_by_the_operators_around_them(
    nodes: list[onnx.NodeProto], shape: list[int], images: set[str]
) -> None:
    constants = {
        **_WEIGHTS,
        "w_image": np.ones((1, 3, 8, 8), np.float32),
        "twice": np.array([1, 1, 2, 2], np.float32),
        "twice_last": np.array([1, 2, 2, 1], np.float32),
    }
    assert image_tensors(model_of(nodes, {"x": shape}, ["y"], constants)) == images


@pytest.mark.parametrize(
    ("layout", "layouts", "chosen"),
    [
        ("model", {}, set()),
        ("channels_last", {}, {"image", "mask"}),
        ("channels_last", {"mask": "model"}, {"image"}),
        ("model", {"mask": "channels_last", "vector": "channels_last"}, {"mask", "vector"}),
    ],
)
def test_a_name_wins_over_what_holds_for_all(layout: Layout, layouts: dict[str, Layout], chosen: set[str]) -> None:
    assert channels_last_tensors(_segmentation(), layout, layouts) == chosen


@pytest.mark.parametrize(
    ("layouts", "sentence"),
    [
        (
            {"imag": "channels_last"},
            "a layout is given for 'imag', which is not an input or output of model: did you mean",
        ),
        ({"features": "model"}, "which is not an input or output of model"),
        ({"w": "channels_last"}, "which is not an input or output of model: valid are flat, image, mask"),
        ({"flat": "channels_last"}, "'flat' of model cannot have its channels last, because it has 2 axes"),
    ],
)
def test_what_cannot_be_meant_is_refused(layouts: dict[str, Layout], sentence: str) -> None:
    with pytest.raises(ModelError, match=re.escape(sentence)):
        channels_last_tensors(_segmentation(), "model", layouts)


def test_the_import_has_the_model_s_names_and_the_interface_s_shapes() -> None:
    model = _segmentation()
    imported = import_channels_last(model, {"image", "mask"})
    assert [(t.name, t.shape, t.layout) for t in imported.inputs] == [
        ("image", (1, 8, 8, 3), "channels_last"),
        ("vector", (1, 3, 5), "model"),
    ]
    assert imported.inputs[0].of_model().shape == (1, 3, 8, 8)
    assert imported.outputs == ("mask", "flat", "turned", "positive")
    assert [name for name, _ in imported.nodes] == [""] * 6  # none of them stands for an order of axes


@pytest.mark.parametrize(
    ("names", "inputs", "outputs"),
    [
        ((), {"image": True, "vector": False}, {"mask": True, "flat": False, "turned": False, "positive": False}),
        (
            ("vector", "mask"),
            {"image": True, "vector": True},
            {"mask": True, "flat": False, "turned": False, "positive": False},
        ),
    ],
)
def test_a_program_knows_whose_axes_are_batch_channels_and_pixels(
    names: tuple[str, ...], inputs: dict[str, bool], outputs: dict[str, bool]
) -> None:
    program = to_program(import_channels_last(_segmentation(), frozenset(names)))
    assert {spec.name: spec.image for spec in program.inputs} == inputs
    assert {spec.name: spec.image for spec in program.outputs} == outputs
