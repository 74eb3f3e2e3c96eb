"""Slices with any bounds, also such that end before they begin, are what NumPy makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from edgetune.errors import UnsupportedOperator
from edgetune.graph.partition import to_program
from edgetune.models.decompositions import DECOMPOSITIONS
from edgetune.models.importer import import_onnx
from edgetune.models.onnx_file import model_from_proto
from tests.interpreter import run_program

LENGTH = 5
_BOUNDS = st.integers(-LENGTH - 2, LENGTH + 2)


def sliced(opset: int, start: int, end: int, step: int | None) -> np.ndarray:
    """`x[:, start:end:step]` before x, in a package's program."""
    floats = TensorProto.FLOAT
    if opset < 10:
        nodes = [helper.make_node("Slice", ["x"], ["part"], starts=[start], ends=[end], axes=[1])]
    else:
        bounds = {"starts": start, "ends": end, "axes": 1} | ({} if step is None else {"steps": step})
        nodes = [
            helper.make_node("Constant", [], [name], value=helper.make_tensor(name, TensorProto.INT64, [1], [value]))
            for name, value in bounds.items()
        ]
        nodes.append(helper.make_node("Slice", ["x", *bounds], ["part"]))
    nodes.append(helper.make_node("Concat", ["part", "x"], ["y"], axis=1))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", floats, [1, LENGTH])],
        [helper.make_tensor_value_info("y", floats, None)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    model = model_from_proto(proto, "0" * 64, "model", None, "model.onnx")
    return np.asarray(run_program(to_program(import_onnx(model)), {"x": x()})["y"])


def x() -> np.ndarray:
    return np.arange(LENGTH, dtype="float32")[None]


@settings(max_examples=25, deadline=None)
@given(start=_BOUNDS, end=_BOUNDS, step=st.sampled_from([None, 1, 2, -1, -2]))
def test_a_slice_is_that_of_numpy(start: int, end: int, step: int | None) -> None:
    expected = np.concatenate([x()[:, slice(start, end, step)], x()], axis=1)
    np.testing.assert_array_equal(sliced(17, start, end, step), expected)


@pytest.mark.parametrize(("start", "end"), [(4, 2), (2, 2), (1, 3)])
def test_a_slice_by_attributes_too(start: int, end: int) -> None:
    np.testing.assert_array_equal(sliced(9, start, end, None), np.concatenate([x()[:, start:end], x()], axis=1))


def test_what_tvm_refuses_behind_its_importer_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(DECOMPOSITIONS, "Slice")
    with pytest.raises(UnsupportedOperator, match=r"^an operator of the model .*Begin=4, End=2.*; find it by [^\n]*$"):
        sliced(17, 4, 2, None)
