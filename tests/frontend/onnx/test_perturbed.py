"""Perturbed models: by how much, where, and in which types tensors move; and what precedes an output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import TensorProto, helper, numpy_helper, shape_inference

from edgetune.frontend.onnx.perturbed import ends, moved_elements, rounded, stepped
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.onnx.reference import Evaluator, evaluate_model

EVALUATORS: tuple[Evaluator, ...] = ("onnxruntime", "onnx.reference")


def model(
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int],
    constants: dict[str, Any],
    outputs: Sequence[str] = ("y",),
    kind: int = TensorProto.FLOAT,
    opset: int = 17,
) -> OnnxModel:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return OnnxModel(shape_inference.infer_shapes(proto), opset, "0" * 64, "m")


def units(moved: np.ndarray, before: np.ndarray) -> set[int]:
    """Distances in units of the last place, up positive, of numbers above zero."""
    bits = f"i{before.dtype.itemsize}"
    return set(np.unique(moved.view(bits).astype(np.int64) - before.view(bits)).tolist())


@pytest.mark.parametrize("evaluator", EVALUATORS)
@pytest.mark.parametrize(
    ("kind", "opset"),
    [(TensorProto.FLOAT, 17), (TensorProto.FLOAT, 9), (TensorProto.DOUBLE, 17), (TensorProto.FLOAT16, 17)],
)
def test_each_element_moves_by_one_unit_up_or_down(evaluator: Evaluator, kind: int, opset: int) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    given = model(
        [helper.make_node("Mul", ["x", "one"], ["y"])], [400], {"one": np.ones(400, dtype)}, kind=kind, opset=opset
    )
    x = np.exp2(np.linspace(-3, 3, 401)[:-1]).astype(dtype)
    x = np.where(np.log2(x) % 1 == 0, np.nextafter(x, dtype.type(9)), x)  # half of a unit below a power of two
    copies = [rounded(given, run) for run in range(2)]
    moved = [evaluate_model(copy, [{"x": x}], evaluator)[0]["y"] for copy in copies if copy is not None]
    assert [units(each, x) for each in moved] == [{-1, 1}, {-1, 1}]
    assert np.any(moved[0] != moved[1])


@settings(max_examples=10, deadline=None)
@given(arrays.arrays(np.float32, 16, elements=st.floats(2.0**-100, 2.0**126, width=32)))
def test_numbers_of_every_size_move_by_one_unit(x: np.ndarray) -> None:
    given = model([helper.make_node("Mul", ["x", "one"], ["y"])], [16], {"one": np.ones(16, np.float32)})
    copy = rounded(given, 0)
    assert copy is not None
    (found,) = evaluate_model(copy, [{"x": x}], "onnx.reference")
    assert units(found["y"], x) <= {-1, 1} | ({-2} if np.any(np.frexp(x)[0] == 0.5) else set())


def test_what_is_only_moved_selected_or_constant_stays() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"]),
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "f"], ["squares"]),
        helper.make_node("Concat", ["t", "t"], ["y"], axis=0),
    ]
    given = model(nodes, [2, 3], {}, ("y", "squares"))
    assert rounded(given, 0) is None
    assert moved_elements(given) == 0
    assert stepped(given, ["x"], 0) is None


def test_what_is_between_rounded_operators_is_counted_once() -> None:
    nodes = [helper.make_node("Sin", ["x"], ["s"]), helper.make_node("Relu", ["s"], ["r"])]
    assert moved_elements(model([*nodes, helper.make_node("Exp", ["r"], ["y"])], [4, 5], {})) == 40


def test_an_operand_that_moves_is_counted_with_the_sum() -> None:
    weights = {"w": np.ones((5, 3), np.float32)}
    assert moved_elements(model([helper.make_node("MatMul", ["x", "w"], ["y"])], [4, 5], weights)) == 20 + 12


def test_nested_graphs_move_too() -> None:
    body = helper.make_graph(
        [helper.make_node("Sqrt", ["v_in"], ["v_out"]), helper.make_node("Identity", ["c_in"], ["c_out"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c_in", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v_in", TensorProto.FLOAT, [64]),
        ],
        [
            helper.make_tensor_value_info("c_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v_out", TensorProto.FLOAT, [64]),
        ],
    )
    given = model(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], [64], {"n": np.int64(1), "yes": np.array(True)}
    )
    copy = rounded(given, 0)
    assert copy is not None
    assert moved_elements(given) == 64
    x = np.linspace(1.1, 1.9, 64).astype(np.float32)
    before, after = (evaluate_model(each, [{"x": x}], "onnxruntime")[0]["y"] for each in (given, copy))
    assert units(after, before) == {-1, 1}


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_quantised_tensors_move_by_one_step_within_their_type(evaluator: Evaluator) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    given = model(nodes, [300], {"s": np.float32(1.0), "z": np.uint8(0)})
    copy = stepped(given, ["q"], 0)
    assert copy is not None
    x = np.linspace(-10, 290, 300).round().astype(np.float32)
    (found,) = evaluate_model(copy, [{"x": x}], evaluator)
    inner = (x > 0) & (x < 255)
    assert set(np.unique(found["y"] - x)[np.isin(np.unique(found["y"] - x), (-1, 1))].tolist()) == {-1.0, 1.0}
    assert set((found["y"] - x)[inner].tolist()) == {-1.0, 1.0}
    assert found["y"].min() == 0.0
    assert found["y"].max() == 255.0


def test_the_last_quantised_tensors_before_an_output_are_found_and_its_range() -> None:
    constants = {"s": np.float32(0.1), "z": np.int8(0), "w": np.eye(4, dtype=np.float32), "shape": np.array([2, 8])}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q1"]),
        helper.make_node("DequantizeLinear", ["q1", "s", "z"], ["d1"]),
        helper.make_node("MatMul", ["d1", "w"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "s", "z"], ["q2"]),
        helper.make_node("DequantizeLinear", ["q2", "s", "z"], ["d2"]),
        helper.make_node("MatMul", ["d2", "w"], ["tail"]),
        helper.make_node("Sigmoid", ["tail"], ["p"]),
        helper.make_node("Softmax", ["d1"], ["other"]),
        helper.make_node("Mul", ["p", "other"], ["product"]),
        helper.make_node("Reshape", ["product", "shape"], ["y"]),
        helper.make_node("QuantizeLinear", ["w", "s", "z"], ["constant"]),
        helper.make_node("Exp", ["x"], ["floats"]),
    ]
    found = ends(model(nodes, [4, 4], constants, ("tail", "y", "floats", "constant")))
    assert found["tail"].quantised == ("q2",)
    assert sorted(found["y"].quantised) == ["q1", "q2"]
    assert [found[name].quantised for name in ("floats", "constant")] == [(), ()]
    assert {name: end.magnitude for name, end in found.items() if end.magnitude} == {"y": 1.0}


def test_the_range_of_an_output_is_found_behind_many_squares_and_moves() -> None:
    squares = [helper.make_node("Mul", [f"t{i}", f"t{i}"], [f"t{i + 1}"]) for i in range(64)]
    moves = [helper.make_node("Identity", [f"t{i}"], [f"t{i + 1}"]) for i in range(64, 1264)]
    last = helper.make_node("Identity", ["t1264"], ["y"])
    found = ends(model([helper.make_node("Sigmoid", ["x"], ["t0"]), *squares, *moves, last], [4], {}))
    assert found["y"].magnitude == 1.0


def test_the_places_of_maxima_have_no_range() -> None:
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"]),
        helper.make_node("MaxPool", ["t"], ["y", "places"], kernel_shape=[2]),
        helper.make_node("Split", ["t", "sizes"], ["first", "second"], axis=2),
    ]
    found = ends(model(nodes, [1, 1, 8], {"sizes": np.array([4, 4])}, ("y", "places", "first", "second")))
    assert [name for name, end in found.items() if end.magnitude] == ["y", "first", "second"]


@pytest.mark.parametrize("reader", ["MatMul", "Relu"])
def test_what_an_operator_adds_moves_and_what_others_read_does_not(reader: str) -> None:
    """Terms of 1 cancel: the rounding of each is what right sums differ by, and not a unit of their result."""
    nodes = [
        helper.make_node("Reshape", ["x", "rows"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]) if reader == "MatMul" else helper.make_node("Relu", ["r"], ["y"]),
        helper.make_node("Exp", ["r"], ["e"]),
    ]
    signs = np.resize(np.array([1, -1], np.float32), (64, 1))
    given = model(nodes, [64], {"rows": np.array([1, 64]), "w": signs}, ("y", "e"))
    feed = {"x": np.ones(64, np.float32)}
    copy = rounded(given, 0)
    assert copy is not None
    before, moved = (evaluate_model(each, [feed], "onnxruntime")[0] for each in (given, copy))
    assert (moved["y"] != before["y"]).any() == (reader == "MatMul")
    assert np.abs(moved["y"] - before["y"]).max() < 64 * 2.0**-23
    assert (moved["e"] != before["e"]).all()


def test_tensors_of_unknown_shape_move_too() -> None:
    given = model([helper.make_node("Sin", ["x"], ["s"]), helper.make_node("Mul", ["s", "s"], ["y"])], [8], {})
    for value in (*given.proto.graph.value_info, *given.proto.graph.output):
        value.type.tensor_type.ClearField("shape")
    copy = rounded(given, 0)
    assert copy is not None
    assert sum(node.op_type == "RandomUniformLike" for node in copy.proto.graph.node) == 2


def test_recurrent_layers_without_their_first_output_move_one_by_one() -> None:
    random = np.random.default_rng(0)
    shapes = {"w": (1, 12, 3), "v": (1, 12, 3), "r": (1, 12, 4)}
    weights = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("GRU", ["x", "w", "r"], ["", "h"], hidden_size=4),
        helper.make_node("GRU", ["x", "v", "r"], ["", "y"], hidden_size=4),
    ]
    copy = rounded(model(nodes, [5, 1, 3], weights, ("h", "y")), 0)
    assert copy is not None
    made = [name for node in copy.proto.graph.node for name in node.output if name]
    assert len(set(made)) == len(made)
    found = evaluate_model(copy, [{"x": np.ones((5, 1, 3), np.float32)}], "onnxruntime")[0]
    assert found["h"].shape == found["y"].shape == (1, 1, 4)
