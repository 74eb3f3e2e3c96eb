"""What integers of inputs and outputs stand for: said by those who read and make them, unless they contradict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.interface_quantisation import interface_quantisation
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.graph.program import LinearQuantisation


def known(nodes: Sequence[onnx.NodeProto], kind: int = TensorProto.UINT8) -> dict[str, LinearQuantisation]:
    """Of a model whose input `x` is (2, 3), whose output is `y`, and whose scales are `a` and `b`, zero point `z`."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", kind, (2, 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.float32(0.5), "a"),
            numpy_helper.from_array(np.float32(0.25), "b"),
            numpy_helper.from_array(np.uint8(7), "z"),
            numpy_helper.from_array(np.array([6], np.int64), "flat"),
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return dict(interface_quantisation(model_from_proto(proto, "", "g", {}, "g")))


def read(name: str, scale: str, made: str) -> onnx.NodeProto:
    return helper.make_node("DequantizeLinear", [name, scale, "z"], [made])


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ([read("x", "a", "y")], True),
        ([read("x", "a", "p"), read("x", "a", "q"), helper.make_node("Add", ["p", "q"], ["y"])], True),
        ([read("x", "a", "p"), read("x", "b", "q"), helper.make_node("Add", ["p", "q"], ["y"])], False),
        ([helper.make_node("Reshape", ["x", "flat"], ["r"]), read("r", "a", "y")], True),
        (
            [
                *(helper.make_node("Identity", ["x"], [name]) for name in ("p", "q")),
                *(read(name, scale, f"{name}f") for name, scale in (("p", "a"), ("q", "b"))),
                helper.make_node("Add", ["pf", "qf"], ["y"]),
            ],
            False,
        ),
        ([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], False),
    ],
    ids=[
        "one reader",
        "two that agree",
        "two that contradict",
        "behind a view",
        "two views that contradict",
        "no reader that says it",
    ],
)
def test_the_input_of_integers(nodes: Sequence[onnx.NodeProto], found: bool) -> None:
    assert known(nodes) == ({"x": LinearQuantisation(0.5, 7)} if found else {})


def test_floats_have_none_in_the_header() -> None:
    made = helper.make_node("QuantizeLinear", ["x", "a", "z"], ["q"])
    assert known([made, read("q", "a", "y")], TensorProto.FLOAT) == {}
