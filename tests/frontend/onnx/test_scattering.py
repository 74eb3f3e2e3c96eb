"""Scatter: one step an update, in their order; what no update meets stays as it is, infinities too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetune.codegen import emit_kernel
from edgetune.frontend.onnx.converters.scattering import merged_axes
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.kernels import FREE_LAYOUTS
from edgetune.graph.partition import to_program
from edgetune.schedule.sketches.spaces import untouched
from tests.codegen_run import run_kernel, wide_target
from tests.interpreter import run_program
from tests.loop_steps import counted, stores_to

INDICES = {"ScatterElements": np.array([[0, 2, 2, 0]]), "ScatterND": np.array([[1]])}


@pytest.mark.parametrize("operator", INDICES)
@pytest.mark.parametrize(("reduction", "start"), [("max", -np.inf), ("min", np.inf)])
def test_a_maximum_or_minimum_from_infinity_stays_infinite_where_no_update_is(
    operator: str, reduction: str, start: float
) -> None:
    indices = INDICES[operator]
    feed = {
        "data": np.full((3, 4), start, "float32"),
        "indices": indices.astype("int64"),
        "updates": np.array([[1, -2, start, 4]], "float32"),
    }
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feed.items()
    ]
    node = helper.make_node(operator, list(feed), ["y"], reduction=reduction)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    model = model_from_proto(proto, "0" * 64, "model", None, "model.onnx")
    expected = evaluate_model(model, [feed])[0]["y"]
    assert np.isinf(expected).sum() == 9  # eight that no update meets, and one whose update is infinite
    np.testing.assert_array_equal(run_program(to_program(import_onnx(model)), feed)["y"], expected)


def model_of(node: onnx.NodeProto, feed: Mapping[str, np.ndarray], *outputs: tuple[str, list[int], int]) -> OnnxModel:
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feed.items()
    ]
    found = [helper.make_tensor_value_info(name, kind, shape) for name, shape, kind in outputs]
    proto = helper.make_model(
        helper.make_graph([node], "g", inputs, found), opset_imports=[helper.make_opsetid("", 18)], ir_version=8
    )
    return model_from_proto(proto, "0" * 64, "model", None, "model.onnx")


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "side"), [(2, 2, 0, 10), (3, 2, 1, 11), (3, 1, 1, 11), (2, 3, 0, 11)]
)
def test_maxima_go_back_to_where_they_were_found(kernel: int, stride: int, pad: int, side: int) -> None:
    image = np.random.default_rng(0).permutation(6 * side**2).reshape(2, 3, side, side).astype(np.float32) - 6 * side**2
    size = (side + 2 * pad - kernel) // stride + 1
    window: dict[str, list[int]] = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    pooling = helper.make_node("MaxPool", ["x"], ["m", "i"], **window)
    shape = [2, 3, size, size]
    pool = model_of(pooling, {"x": image}, ("m", shape, TensorProto.FLOAT), ("i", shape, TensorProto.INT64))
    feed = evaluate_model(pool, [{"x": image}])[0]
    unpooling = helper.make_node("MaxUnpool", ["m", "i"], ["y"], **window)
    model = model_of(unpooling, feed, ("y", list(image.shape), TensorProto.FLOAT))
    expected = evaluate_model(model, [feed])[0]["y"]
    assert (expected < 0).any()
    np.testing.assert_array_equal(run_program(to_program(import_onnx(model)), feed)["y"], expected)


def test_a_maximum_of_minus_infinity_goes_back_as_it_is() -> None:
    """It became zero, as did the lowest number: both stood for no maximum at all."""
    lowest = np.finfo(np.float32).min
    feed: dict[str, np.ndarray] = {
        "m": np.array([[[[-np.inf, lowest], [0, np.nan]]]], np.float32),
        "i": np.array([[[[0, 3], [9, 15]]]], np.int64),
    }
    node = helper.make_node("MaxUnpool", ["m", "i"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    model = model_of(node, feed, ("y", [1, 1, 4, 4], TensorProto.FLOAT))
    expected = np.zeros(16, np.float32)
    expected[[0, 3, 9, 15]] = -np.inf, lowest, 0, np.nan
    found = run_program(to_program(import_onnx(model)), feed)["y"]
    np.testing.assert_array_equal(found.reshape(-1), expected)


def test_of_maxima_with_one_index_the_last_window_is_kept() -> None:
    """As an assignment of one after the other leaves it; a decoder may unpool other features than were pooled."""
    rng = np.random.default_rng(0)
    node = helper.make_node("MaxUnpool", ["m", "i"], ["y"], kernel_shape=[3, 3], strides=[1, 2])
    maxima = rng.standard_normal((1, 2, 4, 3)).astype(np.float32)
    rows, columns = np.meshgrid(np.arange(4), np.arange(3), indexing="ij")
    places = np.stack([42 * channel + (rows // 2 * 2 + 1) * 7 + 2 * columns + 1 for channel in range(2)])
    feed: dict[str, np.ndarray] = {"m": maxima, "i": places[np.newaxis].astype(np.int64)}
    model = model_of(node, feed, ("y", [1, 2, 6, 7], TensorProto.FLOAT))
    expected = np.zeros(2 * 42, np.float32)
    for place, maximum in zip(feed["i"].reshape(-1), maxima.reshape(-1), strict=True):
        expected[place] = maximum
    assert (expected != 0).sum() < maxima.size
    np.testing.assert_array_equal(run_program(to_program(import_onnx(model)), feed)["y"].reshape(-1), expected)


def scatter(
    operator: str, feed: Mapping[str, np.ndarray], constants: Mapping[str, np.ndarray], **how: int | str
) -> OnnxModel:
    """A scatter of the tensors in `feed` and `constants`: data, indices, updates."""
    names = ["data", "indices", "updates"]
    node = helper.make_node(operator, names, ["y"], **how)
    data = feed["data"]
    kind = helper.np_dtype_to_tensor_dtype(data.dtype)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feed.items()
    ]
    result = helper.make_tensor_value_info("y", kind, data.shape)
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "g", inputs, [result], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return model_from_proto(proto, "0" * 64, "model", None, "model.onnx")


def one_by_one(operator: str, feed: Mapping[str, np.ndarray], axis: int, reduction: str) -> np.ndarray:
    """Updates in their order, as ONNX writes them; one whose index is out of range changes nothing."""
    result, indices, updates = feed["data"].copy(), feed["indices"], feed["updates"]
    apply: dict[str, Callable[[Any, Any], Any]] = {
        "none": lambda _, new: new,
        "add": np.add,
        "mul": np.multiply,
        "max": np.maximum,
        "min": np.minimum,
    }
    whole = operator == "ScatterElements"
    for at in np.ndindex(*(indices.shape if whole else indices.shape[:-1])):
        found = (*at[:axis], indices[at], *at[axis + 1 :]) if whole else tuple(indices[at])
        if all(-extent <= place < extent for place, extent in zip(found, result.shape, strict=False)):
            result[found] = apply[reduction](result[found], updates[at])
    return result


def operands(operator: str, axis: int, numbers: np.random.Generator, *, hostile: bool) -> dict[str, np.ndarray]:
    """Data of 4 x 5 x 6, and indices with many duplicates, negative ones, and where `hostile` some out of range."""
    data = numbers.integers(-9, 9, (4, 5, 6))
    if operator == "ScatterElements":
        shape = tuple(9 if number == axis else int(numbers.choice([2, data.shape[number]])) for number in range(3))
        limits = np.array(data.shape[axis])
        updates = shape
    else:
        shape, limits = (3, 4, axis + 1), np.array(data.shape[: axis + 1])
        updates = (3, 4, *data.shape[axis + 1 :])
    indices = numbers.integers(-limits, limits, shape)
    if hostile:
        wrong = numbers.choice([4, 5, 6, -7, 1 << 20, -(1 << 20), 1 << 33, -(1 << 33), 2**63 - 1, -(2**63)], shape)
        indices = np.where(numbers.random(shape) < 0.5, wrong, indices)
    return {"data": data, "indices": indices, "updates": numbers.integers(-9, 9, updates)}


@pytest.mark.long
@pytest.mark.parametrize("hostile", [False, True])
@pytest.mark.parametrize("operator", ["ScatterElements", "ScatterND"])
def test_updates_of_one_place_follow_one_another_and_one_out_of_range_is_left_out(
    operator: str,
    hostile: bool,
) -> None:
    for number, reduction in enumerate(["none", "add", "none", "mul", "max", "min"]):
        axis, numbers = number % 3, np.random.default_rng(number)
        dtype = ("float32", "int64", "float16", "int8")[number % 4]
        feed = operands(operator, axis, numbers, hostile=hostile)
        feed = {n: a if n == "indices" else a.astype(dtype) for n, a in feed.items()}
        how: dict[str, int | str] = {"reduction": reduction}
        if operator == "ScatterElements" and number > 2:  # axes of one element on each side of the axis
            feed = {n: np.expand_dims(a, (0, 2, 4, 6)) for n, a in feed.items()}
            axis = 2 * axis + 1
        how |= {"axis": axis - feed["data"].ndim} if operator == "ScatterElements" else {}
        program = to_program(import_onnx(scatter(operator, feed, {}, **how)))
        wanted = one_by_one(operator, feed, axis, reduction)
        np.testing.assert_array_equal(run_program(program, feed)["y"], wanted)


@pytest.mark.parametrize("operator", ["ScatterElements", "ScatterND"])
@pytest.mark.parametrize("reduction", ["max", "min"])
def test_of_a_number_and_nan_the_update_is_kept(operator: str, reduction: str, tmp_path: Path) -> None:
    """As ONNX Runtime does. NaN in data stayed, and NaN in updates was lost."""
    nan = np.nan
    feed: dict[str, np.ndarray] = {
        "data": np.array([nan, 1, nan, 2, 5, nan], np.float32),
        "indices": np.array([0, 1, 2, 3, 4, 5, 4, 5]).reshape((8,) if operator == "ScatterElements" else (8, 1)),
        "updates": np.array([1, nan, nan, 3, nan, 7, 6, 8], np.float32),  # the last two follow others
    }
    model = scatter(operator, feed, {}, reduction=reduction)
    wanted = evaluate_model(model, [feed], "onnxruntime")[0]["y"]
    assert np.isnan(wanted).tolist() == [False, True, True, False, False, False]
    program = to_program(import_onnx(model))
    np.testing.assert_array_equal(run_program(program, feed)["y"], wanted)
    (kernel,) = program.kernels
    board = wide_target()
    text = emit_kernel(untouched(kernel.function).mod, board, "kernel")
    found = run_kernel(text, board, [*feed.values(), np.zeros(6, np.float32)], tmp_path)
    np.testing.assert_array_equal(found[-1], wanted)


def test_indices_of_int32_and_constant_ones() -> None:
    numbers = np.random.default_rng(0)
    feed = operands("ScatterElements", 1, numbers, hostile=False)
    feed["indices"] = feed["indices"].astype(np.int32)
    rest = {name: feed[name] for name in ("data", "updates")}
    model = scatter("ScatterElements", rest, {"indices": feed["indices"]}, axis=1)
    wanted = one_by_one("ScatterElements", feed, 1, "none")
    np.testing.assert_array_equal(run_program(to_program(import_onnx(model)), rest)["y"], wanted)


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=5), st.integers(-5, 4))
def test_axes_of_one_element_leave_the_scattered_axis_alone(axes: list[tuple[int, bool]], axis: int) -> None:
    """An axis behind one of a single element became a part of the scattered axis."""
    shape = [extent for extent, _ in axes]
    extents = [extent if is_whole else 1 for extent, is_whole in axes]
    axis %= len(shape)
    numbers = np.random.default_rng(0)
    data, updates = np.zeros(shape), np.arange(1.0, np.prod(extents) + 1).reshape(extents)
    operands = {"data": data, "indices": numbers.integers(0, shape[axis], extents), "updates": updates}
    wanted = one_by_one("ScatterElements", operands, axis, "none")
    merged, indexed, place = merged_axes(shape, extents, axis)
    assert merged[place] == shape[axis]
    fewer = {name: array.reshape(merged if name == "data" else indexed) for name, array in operands.items()}
    np.testing.assert_array_equal(one_by_one("ScatterElements", fewer, place, "none").reshape(shape), wanted)


@pytest.mark.parametrize(
    ("shape", "extents", "axis"),
    [((4, 1, 5), (4, 1, 5), 0), ((2, 4, 1, 5), (2, 4, 1, 5), 1), ((1, 4, 1, 5), (1, 2, 1, 5), -3)],
)
def test_an_axis_behind_one_of_a_single_element_stays(
    shape: tuple[int, ...], extents: tuple[int, ...], axis: int
) -> None:
    numbers = np.random.default_rng(0)
    operands: dict[str, np.ndarray] = {
        "data": numbers.random(shape, np.float32),
        "indices": numbers.integers(0, shape[axis], extents),
        "updates": numbers.random(extents, np.float32),
    }
    found = run_program(to_program(import_onnx(scatter("ScatterElements", operands, {}, axis=axis))), operands)["y"]
    np.testing.assert_array_equal(found, one_by_one("ScatterElements", operands, axis % len(shape), "none"))


@pytest.mark.parametrize("operator", ["ScatterElements", "ScatterND"])
def test_n_updates_into_m_places_take_n_and_m_steps(operator: str) -> None:
    """Each place looked at all updates."""
    places, updates = 20_000, 7_000
    numbers = np.random.default_rng(0)
    shape = (updates,) if operator == "ScatterElements" else (updates, 1)
    feed: dict[str, np.ndarray] = {
        "data": numbers.random(places, np.float32),
        "indices": numbers.integers(0, places, shape),
        "updates": numbers.random(updates, np.float32),
    }
    (kernel,) = to_program(import_onnx(scatter(operator, feed, {}))).kernels
    stores = counted(kernel.function, stores_to("output"), list(feed.values()))
    assert stores == places + updates


def test_constant_indices_of_different_places_are_shared_by_threads() -> None:
    places = np.random.default_rng(0).permutation(64)[:40].reshape(40, 1)
    feed = {"data": np.zeros(64, np.float32), "updates": np.ones(40, np.float32)}
    for indices, shared in ((places, 4), (places % 8, 3), (places - 64, 3)):
        (kernel,) = to_program(import_onnx(scatter("ScatterND", feed, {"indices": indices}))).kernels
        assert str(kernel.function).count("T.parallel(") == shared
        assert not kernel.function.attrs[FREE_LAYOUTS]  # threads read indices where they lie
