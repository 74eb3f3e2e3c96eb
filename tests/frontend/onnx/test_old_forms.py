"""Forms of operators before opset 7: the values that ONNX's text of that time defines, written in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import NodeProto, TensorProto, helper, numpy_helper

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.double import evaluate_in_double
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.old_forms import with_current_forms
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.partition import to_program
from tests.interpreter import run_program

Arrays = Mapping[str, np.ndarray]
node = helper.make_node
_draw = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return _draw.standard_normal(shape).astype("float32")


X, S, B, M, V = normal(2, 3, 4, 5), normal(3), normal(3), normal(3), np.abs(normal(3)) + np.float32(0.1)
ROWS, WIDE, ROW = normal(4, 6), normal(6, 7), normal(7)
EACH = [np.abs(normal(3, 4, 5)) + np.float32(0.1) for _ in range(4)]


def by_channel(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, 1, 1)


def model_of(opset: int, nodes: list[NodeProto], feed: Arrays, weights: Arrays) -> onnx.ModelProto:
    """A model of the first files: weights are inputs as well, and no shape is known of its output y."""
    values = {**feed, **weights}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in values.items()
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    initial = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)


@dataclass
class Case:
    """A model of operators in their old form, and what it computes from `x`."""

    opset: int
    nodes: list[NodeProto]
    wanted: np.ndarray
    weights: Arrays = field(default_factory=dict)
    x: np.ndarray = field(default_factory=lambda: X)


STATISTICS = (X - by_channel(M)) / np.sqrt(by_channel(V) + np.float32(1e-5)) * by_channel(S) + by_channel(B)
CHANNELS = {"s": S, "b": B, "m": M, "v": V}
ELEMENTS = dict(zip("sbmv", EACH, strict=True))
PER_ELEMENT = (X - EACH[2]) / np.sqrt(EACH[3] + np.float32(0.5)) * EACH[0] + EACH[1]
BN = ["x", "s", "b", "m", "v"]
CASES = {
    "axis": Case(6, [node("Add", ["x", "b"], ["y"], axis=1, broadcast=1)], X + by_channel(B), {"b": B}),
    "axis of two": Case(
        5, [node("Sub", ["x", "w"], ["y"], axis=1, broadcast=1, consumed_inputs=[0, 0])], X - X[0, :, :, :1],
        {"w": X[0, :, :, 0].copy()},
    ),
    "last axes": Case(6, [node("Mul", ["x", "w"], ["y"], broadcast=1)], X * X[0, 0], {"w": X[0, 0].copy()}),
    "one element": Case(6, [node("Div", ["x", "w"], ["y"], axis=1, broadcast=1)], X / V[:1], {"w": V[:1].copy()}),
    "power": Case(
        1, [node("Abs", ["x"], ["a"], consumed_inputs=[0]), node("Pow", ["a", "v"], ["y"], axis=1, broadcast=1)],
        np.abs(X) ** by_channel(V), {"v": V},
    ),
    "comparison": Case(
        5, [node("Less", ["x", "b"], ["z"], axis=1, broadcast=1), node("Cast", ["z"], ["y"], to="FLOAT")],
        (by_channel(B) > X).astype("float32"), {"b": B},
    ),
    "behind a convolution": Case(
        6, [node("Conv", ["x", "w"], ["c"]), node("Mul", ["c", "s"], ["d"], axis=1, broadcast=1),
            node("Add", ["d", "b"], ["y"], axis=1, broadcast=1)],
        np.einsum("ncij,oc->noij", X, ROWS[:3, :3]) * by_channel(S) + by_channel(B),
        {"w": ROWS[:3, :3].reshape(3, 3, 1, 1).copy(), "s": S, "b": B},
    ),
    "slope of channels": Case(6, [node("PRelu", ["x", "s"], ["y"])], np.where(X > 0, X, X * by_channel(S)), {"s": S}),
    "slope of all": Case(
        1, [node("PRelu", ["x", "s"], ["y"], consumed_inputs=[0, 0])], np.where(X > 0, X, X * S[0]), {"s": S[:1].copy()}
    ),
    "test mode": Case(6, [node("BatchNormalization", BN, ["y"], is_test=1)], STATISTICS, CHANNELS),
    "one output": Case(
        1, [node("BatchNormalization", BN, ["y"], consumed_inputs=[0, 0, 0, 1, 1])], STATISTICS, CHANNELS
    ),
    "statistics of elements": Case(
        6, [node("BatchNormalization", BN, ["y"], is_test=1, spatial=0, epsilon=0.5)], PER_ELEMENT, ELEMENTS
    ),
    "statistics of elements, opset 8": Case(
        8, [node("BatchNormalization", BN, ["y"], spatial=0, epsilon=0.5)], PER_ELEMENT, ELEMENTS
    ),
    "slopes of the last axis beside it": Case(
        8, [node("BatchNormalization", BN, ["z"], spatial=0, epsilon=0.5), node("PRelu", ["z", "p"], ["y"])],
        np.where(PER_ELEMENT > 0, PER_ELEMENT, PER_ELEMENT * ROW[:5]), {**ELEMENTS, "p": ROW[:5].copy()},
    ),
    "Gemm of a row": Case(
        6, [node("Gemm", ["x", "w", "r"], ["y"], broadcast=1, beta=2.0)], ROWS @ WIDE + 2 * ROW, {"w": WIDE, "r": ROW},
        ROWS,
    ),
    "Dropout": Case(1, [node("Dropout", ["x"], ["y"], is_test=1, ratio=0.5, consumed_inputs=[0])], X),
    "shape": Case(1, [node("Reshape", ["x"], ["y"], shape=[0, -1])], X.reshape(2, -1)),
    "default axis": Case(1, [node("Concat", ["x", "x"], ["y"])], np.concatenate([X, X], 1)),
    "paddings": Case(
        1, [node("Pad", ["x"], ["y"], paddings=[0, 0, 1, 2, 0, 0, 0, 1])], np.pad(X, [(0, 0), (0, 0), (1, 0), (2, 1)])
    ),
    "sizes": Case(
        1, [node("Split", ["x", "n"], ["z", "y"], axis=1)], X[:, 1:], {"n": np.array([1, 2], "float32")}
    ),
    "tiles": Case(
        1, [node("Tile", ["x", "n", "a"], ["y"])], np.tile(X, [1, 1, 3, 1]),
        {"n": np.array([3], "float32"), "a": np.array([2], "float32")},
    ),
    "coarse constants": Case(
        1, [node("Selu", ["x"], ["y"])], 1.0507 * np.where(X > 0, X, 1.6732 * np.expm1(np.minimum(X, 0)))
    ),
    "norm": Case(
        1, [node("LpPool", ["x"], ["y"], p=2.0, kernel_shape=[1, 2])], np.sqrt(X[..., 1:] ** 2 + X[..., :-1] ** 2)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_old_form_computes_what_it_did(name: str) -> None:
    """In the import, the reference and the double-precision reference; ONNX Runtime refuses most of them itself."""
    case = CASES[name]
    proto = model_of(case.opset, case.nodes, {"x": case.x}, case.weights)
    model = model_from_proto(proto, "0" * 64, "m", None, "m.onnx")
    feed = {"x": case.x}
    found = run_program(to_program(import_onnx(model)), feed)["y"]
    for value in (found, evaluate_model(model, [feed])[0]["y"], evaluate_in_double(model, [feed])[0]["y"]):
        np.testing.assert_allclose(value, case.wanted, rtol=1e-5, atol=1e-5)


@given(
    shape=st.lists(st.integers(1, 3), min_size=1, max_size=5),
    first=st.integers(0, 4),
    axes=st.integers(0, 5),
    negative=st.booleans(),
)
def test_the_second_input_meets_the_axes_that_axis_names(
    shape: list[int], first: int, axes: int, negative: bool
) -> None:
    """Of all axes and numbers of axes, equal extents among them, which hide an axis at a wrong place."""
    first = min(first, len(shape) - 1)
    last = min(first + axes, len(shape))
    second = np.arange(np.prod(shape[first:last], dtype=int), dtype="float32").reshape(shape[first:last])
    x = np.zeros(shape, "float32")
    axis = first - len(shape) if negative else first
    proto = model_of(6, [node("Add", ["x", "w"], ["y"], axis=axis, broadcast=1)], {"x": x}, {"w": second})
    converted = with_current_forms(proto, "m.onnx")
    (found,) = onnx.reference.ReferenceEvaluator(converted).run(None, {"x": x, "w": second})
    behind = len(shape) - last if second.ndim else 0
    np.testing.assert_array_equal(found, x + second.reshape([*second.shape, *[1] * behind]))


@pytest.mark.parametrize("taken", ["converted0_", "converted_0_0_"])
def test_names_of_a_model_are_not_those_of_its_conversion(taken: str) -> None:
    nodes = [node("Add", ["x", "w"], [taken], axis=1, broadcast=1), node("Relu", [taken], ["y"])]
    model = model_from_proto(model_of(6, nodes, {"x": X}, {"w": B}), "0" * 64, "m", None, "m.onnx")
    np.testing.assert_array_equal(evaluate_model(model, [{"x": X}])[0]["y"], np.maximum(X + by_channel(B), 0))


def test_branches_have_old_forms_too() -> None:
    """Each with the axes of its own values and of those around it."""
    branches = {}
    for name, operator in (("then_branch", "Add"), ("else_branch", "Sub")):
        inner = [node("Relu", ["x"], ["r"]), node(operator, ["r", "b"], ["o"], axis=1, broadcast=1)]
        output = helper.make_tensor_value_info("o", TensorProto.FLOAT, X.shape)
        branches[name] = helper.make_graph(inner, name, [], [output])
    nodes = [
        node("Greater", ["s", "k"], ["c"]),
        node("If", ["c"], ["y"], **branches),
    ]
    given_ = {"s": np.zeros(1, "float32")}
    proto = model_of(6, nodes, {"x": X, **given_}, {"b": B, "k": np.ones(1, "float32")})
    model = model_from_proto(proto, "0" * 64, "m", None, "m.onnx")
    np.testing.assert_allclose(
        evaluate_model(model, [{"x": X, **given_}])[0]["y"], np.maximum(X, 0) - by_channel(B), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([node("LpPool", ["x"], ["y"], name="n", p=1.5, kernel_shape=[2, 2])], r"exponent 1\.5"),
        ([node("Tile", ["x", "x", "x"], ["y"], name="n")], "computes its repeats at run time"),
        ([node("Cast", ["x"], ["y"], name="n", to="FLOAT99")], "casts to 'FLOAT99', which is no type of ONNX"),
    ],
)
def test_a_form_without_a_later_one_is_refused_by_node(nodes: list[NodeProto], why: str) -> None:
    proto = model_of(1, nodes, {"x": X}, {})
    with pytest.raises(UnsupportedOperator, match=rf"node 'n' of m\.onnx.*{why}.*opset 7 or later"):
        model_from_proto(proto, "0" * 64, "m", None, "m.onnx")


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
def test_normalisation_with_one_output_takes_no_statistics_of_the_batch(opset: int) -> None:
    """The evaluator of ONNX takes them: a reference in double must not."""
    proto = model_of(opset, [node("BatchNormalization", BN, ["y"])], {"x": X}, CHANNELS)
    model = model_from_proto(proto, "0" * 64, "m", None, "m.onnx")
    np.testing.assert_allclose(evaluate_in_double(model, [{"x": X}])[0]["y"], STATISTICS, rtol=1e-5, atol=1e-5)
    found = evaluate_model(model, [{"x": X}], "onnx.reference")[0]["y"]
    np.testing.assert_allclose(found, STATISTICS, rtol=1e-5, atol=1e-5)
