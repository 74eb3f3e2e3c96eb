"""Nodes that cannot be imported: one sentence names all of them, whichever stage of the import refuses each."""

from __future__ import annotations

import re
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from tvm.relax.frontend.onnx import onnx_frontend

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.importer import import_onnx, import_supported
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto


def model_of(nodes: list[onnx.NodeProto], *domains: str) -> OnnxModel:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 18), *(helper.make_opsetid(domain, 1) for domain in domains)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return model_from_proto(proto, "0" * 64, "m", None, "m.onnx")


def chain(*steps: tuple[str, str, dict[str, Any]], domain: str = "") -> list[onnx.NodeProto]:
    """Nodes in a row from x to y, called by what each step says first."""
    ends = ["x", *(f"t{number}" for number in range(1, len(steps))), "y"]
    return [
        helper.make_node(operator, [ends[number]], [ends[number + 1]], name=name, domain=domain, **attributes)
        for number, (name, operator, attributes) in enumerate(steps)
    ]


def test_operators_of_a_domain_that_nobody_knows_are_named_all() -> None:
    steps: list[tuple[str, str, dict[str, Any]]] = [
        (f"n{number}", "Odd" if number % 2 else "Even", {}) for number in range(6)
    ]
    model = model_of(chain(*steps, domain="com.example"), "com.example")
    with pytest.raises(UnsupportedOperator) as refusal:
        import_onnx(model)
    sentence = refusal.value.message
    assert re.findall(r"node '(n\d)' of m", sentence) == [f"n{number}" for number in range(6)]
    assert sentence.startswith(
        "operator com.example::Even (node 'n0' of m), operator com.example::Odd (node 'n1' of m)"
    )
    assert "(node 'n5' of m) are not supported; replace them in the model, or give them tensor expressions" in sentence


def test_one_is_told_as_ever() -> None:
    model = model_of([helper.make_node("Odd", ["x"], ["y"], name="n", domain="com.example")], "com.example")
    with pytest.raises(UnsupportedOperator) as refusal:
        import_onnx(model)
    assert refusal.value.message == (
        "operator com.example::Odd (node 'n' of m) is not supported; replace it in the model, or give it a tensor "
        "expression in Python (see docs/operators.md)"
    )


def test_nodes_that_different_stages_refuse_are_named_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def throw(*_: object) -> None:
        raise ValueError("no such luck")

    monkeypatch.setattr(onnx_frontend.Tanh, "_impl_v7", throw)
    monkeypatch.setattr(onnx_frontend.Softsign, "_impl_v1", throw)
    recurrent = helper.make_node(
        "GRU", ["g0", "w", "w"], ["", "g1"], name="form", hidden_size=4, activations=["Mish", "Tanh"]
    )
    nodes = chain(("first", "Tanh", {}), ("fine", "Relu", {}), ("second", "Softsign", {}), ("third", "Tanh", {}))
    weights = helper.make_tensor("w", TensorProto.FLOAT, [1, 12, 4], [0.0] * 48)
    model = model_of(nodes)
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [0])
    model.proto.graph.initializer.extend([weights, axes])
    model.proto.graph.node.insert(1, helper.make_node("Unsqueeze", ["t1", "axes"], ["g0"]))
    model.proto.graph.node.insert(2, recurrent)
    imported, refused = import_supported(model)
    assert [one.name for one in refused] == ["first", "form", "second", "third"]
    assert imported is not None
    assert len(imported.module["main"].params) == 3  # x, and the results that others read or the model returns
    with pytest.raises(UnsupportedOperator) as refusal:
        import_onnx(model)
    assert refusal.value.message.count("cannot be imported (no such luck)") == 3
    assert "node 'form': operator GRU does not know activation 'Mish'" in refusal.value.message


def test_a_node_in_an_unrolled_loop_is_named_once() -> None:
    text = """
    <ir_version: 9, opset_import: ["" : 18, "com.example" : 1]>
    g (float[2, 4] x) => (float[2, 4] y)
    <int64 count = {3}, bool go = {1}>
    {
        y = Loop (count, go, x) <body = b (int64 i, bool c, float[2, 4] s) => (bool d, float[2, 4] t) {
            d = Identity (c)
            t = com.example.Odd (s)
        }>
    }
    """
    model = model_from_proto(onnx.parser.parse_model(text), "0" * 64, "m", None, "m.onnx")
    assert len(import_supported(model)[1]) == 1
