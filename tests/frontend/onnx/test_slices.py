"""Slices with any bounds, also such that end before they begin, are what ONNX says, and invalid ones are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.decompositions import DECOMPOSITIONS
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.inline import Evaluator
from edgetune.frontend.onnx.node_values import constant_value
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph.partition import to_program
from tests.interpreter import run_program

LENGTH = 5
FAR = 2**63 - 1
_BOUNDS = st.integers(-LENGTH - 3, LENGTH + 3) | st.sampled_from([-FAR - 1, FAR])


def x() -> np.ndarray:
    return np.arange(2 * LENGTH, dtype="float32").reshape(2, LENGTH)


def model_of(opset: int, domain: str = "", **bounds: Any) -> ModelProto:
    """A slice of x before x, along axis 1; `bounds` are arrays, attributes before opset 10."""
    floats = TensorProto.FLOAT
    if opset < 10:
        sliced = helper.make_node("Slice", ["x"], ["part"], **bounds)
        constants = []
    else:
        constants = [numpy_helper.from_array(np.asarray(bound), name) for name, bound in bounds.items()]
        names = [name if name in bounds else "" for name in ("starts", "ends", "axes", "steps")]
        sliced = helper.make_node("Slice", ["x", *names], ["part"])
    graph = helper.make_graph(
        [sliced, helper.make_node("Concat", ["part", "x"], ["y"], axis=1)],
        "g",
        [helper.make_tensor_value_info("x", floats, x().shape)],
        [helper.make_tensor_value_info("y", floats, [2, None])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)], ir_version=8)


def built(proto: ModelProto) -> np.ndarray:
    model = model_from_proto(proto, "0" * 64, "model", None, "model.onnx")
    return np.asarray(run_program(to_program(import_onnx(model)), {"x": x()})["y"])


def expected(proto: ModelProto) -> np.ndarray:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x()})[0])


@pytest.mark.long
@given(start=_BOUNDS, end=_BOUNDS, step=st.sampled_from([1, 2, -1, -2]))
def test_a_slice_is_that_of_onnx(start: int, end: int, step: int) -> None:
    if step < 0 and end == FAR:
        return  # ONNX Runtime takes it for the beginning, ONNX for the end
    proto = model_of(17, starts=[start], ends=[end], axes=[1], steps=[step])
    np.testing.assert_array_equal(built(proto), expected(proto))


@pytest.mark.parametrize(("start", "end"), [(4, 2), (2, 2), (1, 3), (-9, 2), (-1, -FAR)])
def test_a_slice_by_attributes_too(start: int, end: int) -> None:
    proto = model_of(9, starts=[start], ends=[end], axes=[-1])
    np.testing.assert_array_equal(built(proto), expected(proto))


def test_the_other_name_of_the_default_domain_means_the_same() -> None:
    bounds = {"starts": [4], "ends": [2], "axes": [1]}
    np.testing.assert_array_equal(built(model_of(17, "ai.onnx", **bounds)), x())


@pytest.mark.parametrize(
    "bounds",
    [
        {"starts": 4, "ends": 2},
        {"starts": [[4]], "ends": [[2]]},
        {"starts": [4], "ends": [2], "axes": [1], "steps": 1},
        {"starts": [4], "ends": [2], "axes": [1], "steps": [0]},
        {"starts": [4], "ends": [2], "axes": [3]},
        {"starts": [4], "ends": [2], "axes": [-3]},
        {"starts": [4, 4], "ends": [2, 2], "axes": [1, 1]},
        {"starts": [4, 4, 4], "ends": [2, 2, 2]},
        {"starts": [4, 4], "ends": [2]},
        {"starts": np.array([4], "float32"), "ends": np.array([2], "float32")},
    ],
)
def test_invalid_bounds_are_refused_by_name(bounds: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedOperator, match=r"operator Slice \(node 'part' of model\)"):
        built(model_of(17, **bounds))


def test_what_tvm_refuses_behind_its_importer_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(DECOMPOSITIONS, "Slice")
    monkeypatch.setattr(Evaluator, "_is_empty", lambda *_: False)  # what has no elements never reaches TVM
    with pytest.raises(
        UnsupportedOperator,
        match=r"^TVM refuses operator Slice \(node 'part' of model\) \(.*Begin=4, End=2.*\); replace [^\n]*$",
    ):
        built(model_of(17, starts=[4], ends=[2], axes=[1]))


def test_an_average_of_nothing_is_no_constant() -> None:
    node = helper.make_node("GlobalAveragePool", ["part"], ["mean"])
    nothing = np.zeros((1, 0, 5, 5), "float32")
    types = {"part": helper.make_tensor_type_proto(TensorProto.FLOAT, nothing.shape)}
    assert constant_value(node, {"part": nothing}, types, model_of(17, starts=[1], ends=[1])) is None


@pytest.mark.parametrize(
    ("axis", "condition"), [(0, [1, 0, 1, 1]), (-1, [0, 1]), (None, [0, 1, 0, 0, 1]), (0, [0, 0]), (1, [1, 1, 1])]
)
def test_a_constant_condition_of_compress_takes_known_places(axis: int | None, condition: list[int]) -> None:
    """Its result had a shape that depends on data."""
    attributes = {} if axis is None else {"axis": axis}
    shown = [None] if axis is None else [None, 3] if axis == 0 else [4, None]
    graph = helper.make_graph(
        [helper.make_node("Compress", ["x", "c"], ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shown)],
        [numpy_helper.from_array(np.array(condition, bool), "c")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    values = np.arange(12, dtype="float32").reshape(4, 3)
    model = model_from_proto(proto, "0" * 64, "model", None, "model.onnx")
    found = run_program(to_program(import_onnx(model)), {"x": values})["y"]
    np.testing.assert_array_equal(found, np.compress(np.array(condition, bool), values, axis))
