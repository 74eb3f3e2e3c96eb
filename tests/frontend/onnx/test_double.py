"""A model in double: what its operators say without the roundings of float32, and where that cannot be had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from edgetune.errors import ModelError
from edgetune.frontend.onnx.double import evaluate_exactly, evaluate_in_double
from edgetune.frontend.onnx.large_tensors import stand_in
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.graph.layout.axis_order import exchanged, given_back
from edgetune.package.golden import Golden, OutputTolerance
from edgetune.package.reference_error import judge_by_double


def model(
    nodes: Sequence[onnx.NodeProto], shape: Sequence[int], constants: dict[str, np.ndarray], opset: int = 19
) -> OnnxModel:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return OnnxModel(helper.make_model(graph, opset_imports=opsets, ir_version=9), opset, "0" * 64, "m")


def in_double(given: OnnxModel, x: np.ndarray) -> np.ndarray:
    found = evaluate_in_double(given, [{"x": x}])[0]["y"]
    assert found.dtype == np.float64
    return found


@pytest.mark.parametrize(
    ("spatial", "window", "attributes"),
    [
        ((9,), (3,), {}),
        ((9, 8), (3, 2), {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]}),
        ((9, 8), (3, 3), {"group": 4}),
        ((9, 8), (3, 3), {"group": 2, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ((9, 8), (4, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 3]}),
        ((9, 8), (3, 3), {"auto_pad": "VALID"}),
        ((5, 4, 6), (2, 2, 3), {"strides": [1, 2, 2]}),
    ],
)
def test_convolutions_are_those_of_the_evaluator(
    spatial: tuple[int, ...], window: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 4, *spatial)).astype(np.float32)
    weight = random.standard_normal((8, 4 // attributes.get("group", 1), *window)).astype(np.float32)
    bias = random.standard_normal(8).astype(np.float32)
    given = model([helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)], x.shape, {"w": weight, "b": bias})
    expected = ReferenceEvaluator(given.proto).run(None, {"x": x})[0]
    np.testing.assert_allclose(in_double(given, x), expected, rtol=1e-4, atol=1e-5)


def test_weights_that_are_kept_apart_are_doubles() -> None:
    weight = np.random.default_rng(2).standard_normal((128, 128)).astype(np.float32)
    given = model([helper.make_node("MatMul", ["x", "w"], ["y"])], (4, 128), {})
    given.proto.graph.initializer.append(stand_in("w", weight))
    x = np.random.default_rng(3).standard_normal((4, 128)).astype(np.float32)
    np.testing.assert_array_equal(
        in_double(replace(given, weights={"w": weight}), x), x.astype("f8") @ weight.astype("f8")
    )


def test_weights_constants_casts_and_branches_are_doubles() -> None:
    inner = helper.make_graph(
        [
            helper.make_node("Constant", [], ["third"], value_float=1 / 3),
            helper.make_node("ConstantOfShape", ["three"], ["zeros"]),
            helper.make_node("Add", ["sum", "third"], ["more"]),
            helper.make_node("Add", ["more", "zeros"], ["b"]),
        ],
        "branch",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, [3])],
    )
    nodes = [
        helper.make_node("Cast", ["x"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["c", "w"], ["sum"]),
        helper.make_node("If", ["yes"], ["y"], then_branch=inner, else_branch=inner),
    ]
    constants = {"w": np.full(3, 1e-9, np.float32), "yes": np.array(True), "three": np.array([3])}
    found = in_double(model(nodes, [3], constants), np.ones(3, np.float32))
    assert np.all(found == 1.0 + np.float64(np.float32(1e-9)) + np.float64(np.float32(1 / 3)))


def test_a_cast_to_half_still_rounds() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["h"], ["y"], to=TensorProto.FLOAT),
    ]
    assert np.all(in_double(model(nodes, [2], {}), np.full(2, 0.1, np.float32)) == np.float64(np.float16(0.1)))


def test_what_the_evaluator_does_not_know_is_said() -> None:
    given = model([helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft")], [2], {})
    with pytest.raises(ModelError, match=r"m cannot be evaluated in double \(.*QuickGelu"):
        evaluate_in_double(given, [{"x": np.ones(2, np.float32)}])


def test_what_is_only_known_in_single_precision_is_said() -> None:
    counted = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0}
    grams = {"ngram_counts": [0], "ngram_indexes": [0, 1], "pool_int64s": [2, 3]}
    nodes = [
        helper.make_node("Cast", ["x"], ["words"], to=TensorProto.INT64),
        helper.make_node("TfIdfVectorizer", ["words"], ["y"], **counted, **grams),
    ]
    with pytest.raises(ModelError, match="value 'y' is only known in float32"):
        evaluate_in_double(model(nodes, [4], {}), [{"x": np.arange(4, dtype=np.float32)}])


def test_only_outputs_whose_reference_is_off_are_judged_by_double() -> None:
    near, off = np.array([1.0, 2.0], np.float32), np.array([1.0, 2.1], np.float32)
    overflown, place = np.array([np.inf, 1.0], np.float32), np.array([3])
    case = Golden({}, {"near": near, "off": off, "overflown": overflown, "place": place})
    double = {"near": np.array([1.0, 2.0]), "off": np.array([1.0, 2.0]), "overflown": np.array([1e38, 1.0])}
    judged = judge_by_double([case, case], [{**double, "place": np.array([4])}] * 2, {"near": OutputTolerance(1e-4)})
    assert judged.errors == {"off": pytest.approx(0.05)}
    assert judged.tolerances["near"] == OutputTolerance(1e-4)
    assert judged.tolerances["off"].relative == pytest.approx(0.075)
    outputs = judged.cases[1].outputs
    assert outputs["off"].dtype == np.float32
    assert outputs["off"].tolist() == [1.0, 2.0]
    assert all(outputs[name] is case.outputs[name] for name in ("near", "overflown", "place"))


def test_an_output_judged_by_double_before_stays_so() -> None:
    case = Golden({}, {"y": np.array([1.0, 2.0001], np.float32)})
    judged = judge_by_double([case], [{"y": np.array([1.0, 2.0])}], {"y": OutputTolerance().by_double("float32", 0.01)})
    assert judged.errors == {"y": 0.01}
    assert judged.cases[0].outputs["y"].tolist() == [1.0, 2.0]


def test_arrays_of_the_interface_are_given_back_as_the_model_has_them() -> None:
    arrays = {"image": np.arange(24).reshape(1, 2, 3, 4), "plain": np.arange(6).reshape(2, 3)}
    back = given_back(exchanged(arrays, {"image": "channels_last"}), {"image": "channels_last"})
    assert all(np.array_equal(back[name], array) for name, array in arrays.items())


def test_rounding_that_is_known_judges_where_the_reference_is_off_by_everything() -> None:
    case = Golden({}, {"y": np.array([0.0, 0.0], np.float32)})
    double = [{"y": np.array([1e-9, 2e-9])}]
    assert judge_by_double([case], double, {"y": OutputTolerance(1e-4)}).chaos == {"y": 1.0}
    judged = judge_by_double([case], double, {"y": OutputTolerance.rounded("float32", 1e-3, 1.0)})
    assert judged.chaos == {}
    assert judged.tolerances["y"].relative == 4e-3
    assert judged.cases[0].outputs["y"].tolist() == np.array([1e-9, 2e-9], np.float32).tolist()


def test_quantised_layers_are_exact_integers() -> None:
    random = np.random.default_rng(4)
    x = random.integers(0, 256, (1, 3, 9)).astype(np.uint8)
    w = random.integers(-128, 128, (4, 3, 3)).astype(np.int8)
    bias, zeros = random.integers(-5000, 5000, 4).astype(np.int32), random.integers(-3, 4, 4).astype(np.int8)
    scales = random.uniform(0.001, 0.002, 4).astype(np.float32)
    constants = {"xs": np.float32(0.1), "xz": np.uint8(120), "w": w, "ws": scales, "wz": zeros, "b": bias}
    constants |= {"ys": np.float32(0.03), "yz": np.uint8(100)}
    node = helper.make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"], pads=[1, 1])
    given = model([node], x.shape, {name: np.asarray(value) for name, value in constants.items()})
    found = evaluate_exactly(given, [{"x": x}])[0]["y"]
    padded = np.pad(x.astype(np.int64) - 120, [(0, 0), (0, 0), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=2)[0]
    sums = np.einsum("cpk,ock->op", windows, w.astype(np.int64) - zeros.reshape(-1, 1, 1)) + bias.reshape(-1, 1)
    scale = np.float64(np.float32(0.1)) * scales.astype(np.float64).reshape(-1, 1) / np.float64(np.float32(0.03))
    np.testing.assert_array_equal(found[0], np.clip(np.rint(sums * scale) + 100, 0, 255))
