"""RoiAlign in both modes, with every attribute that changes what it computes, against both evaluators."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph.partition import to_program
from tests.interpreter import run_program

# Inside, between pixels, over each border, smaller than a pixel, turned round, empty.
_REGIONS = [[0, 0, 5, 4], [1.3, 2.1, 7.7, 6.2], [-3, -2, 4, 3], [4, 3, 20, 15], [3, 3, 3.2, 3.1], [5, 5, 2, 2], [2] * 4]
_FEED = {
    "x": np.random.default_rng(0).standard_normal((2, 3, 7, 9)).astype("float32"),
    "regions": np.array(_REGIONS, "float32"),
    "images": np.array([0, 1, 0, 1, 1, 0, 1]),
}


def _proto(opset: int, element: int = TensorProto.FLOAT, **attributes: Any) -> onnx.ModelProto:
    types = (element, element, TensorProto.INT64)
    inputs = [
        helper.make_tensor_value_info(name, one, array.shape)
        for (name, array), one in zip(_FEED.items(), types, strict=True)
    ]
    node = helper.make_node("RoiAlign", list(_FEED), ["y"], output_height=3, output_width=2, **attributes)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", element, [7, 3, 3, 2])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def _ours(proto: onnx.ModelProto, feed: dict[str, np.ndarray]) -> np.ndarray:
    model = model_from_proto(proto, "0" * 64, "model", None, "model.onnx")
    return run_program(to_program(import_onnx(model)), feed)["y"]


@pytest.mark.long
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("spatial_scale", [1.0, 0.5])
@pytest.mark.parametrize("coordinates", [None, "half_pixel", "output_half_pixel"])
def test_regions_are_sampled_as_both_evaluators_sample_them(
    mode: str, spatial_scale: float, coordinates: str | None
) -> None:
    named: dict[str, Any] = {"coordinate_transformation_mode": coordinates} if coordinates else {}
    ratio = 1 if coordinates is None else 2
    proto = _proto(16, mode=mode, spatial_scale=spatial_scale, sampling_ratio=ratio, **named)
    expected = ReferenceEvaluator(proto).run(None, _FEED)[0]
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, _FEED)[0], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(_ours(proto, _FEED), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_before_opset_16_coordinates_are_not_shifted(mode: str) -> None:
    """ONNX 16 calls output_half_pixel what was before; the reference evaluator shifts in opset 10 too, by mistake."""
    old = _proto(10, mode=mode, sampling_ratio=2)
    same = _proto(16, mode=mode, sampling_ratio=2, coordinate_transformation_mode="output_half_pixel")
    session = onnxruntime.InferenceSession(old.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = ReferenceEvaluator(same).run(None, _FEED)[0]
    np.testing.assert_allclose(session.run(None, _FEED)[0], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(_ours(old, _FEED), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_half_floats_are_sampled_in_float32(mode: str) -> None:
    attributes: dict[str, Any] = {"mode": mode, "sampling_ratio": 2, "spatial_scale": 0.5}
    feed = {name: array.astype("float16") if array.dtype.kind == "f" else array for name, array in _FEED.items()}
    wide = {name: array.astype("float32") if array.dtype.kind == "f" else array for name, array in feed.items()}
    found = _ours(_proto(22, TensorProto.FLOAT16, **attributes), feed)
    expected = ReferenceEvaluator(_proto(22, **attributes)).run(None, wide)[0]
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype("float32"), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_an_image_beyond_the_batch_is_the_nearest_one(mode: str) -> None:
    proto = _proto(16, mode=mode, sampling_ratio=2)
    wild = _FEED | {"images": np.array([-9, 1 << 40, 0, 5, 1, -1, 2])}
    near = _FEED | {"images": np.array([0, 1, 0, 1, 1, 0, 1])}
    np.testing.assert_array_equal(_ours(proto, wild), _ours(proto, near))


def test_as_many_samples_as_a_region_needs_are_refused() -> None:
    with pytest.raises(UnsupportedOperator, match=r"sampling_ratio 0.*such as 2"):
        _ours(_proto(16, mode="max"), _FEED)
