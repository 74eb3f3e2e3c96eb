"""Facts of ONNX models: what the file says of versions, tensors, operators, weights and states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edgetune.errors import ModelError, UnsupportedOperator
from edgetune.frontend.model_facts import InterfaceTensor, ModelFacts, TensorQuantisation, state_pairs
from edgetune.frontend.tensor_expression.format import TensorExpression
from edgetune.pipeline.model_formats import read_stored


def facts(
    folder: Path, text: str, weights: dict[str, np.ndarray] | None = None, **stated: dict[str, object]
) -> ModelFacts:
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in (weights or {}).items())
    onnx.save(proto, folder / "m.onnx")
    return read_stored(folder / "m.onnx").facts(stated.get("shapes", {}), stated.get("sizes", {}))  # type: ignore[arg-type]


QUANTISED = """
<ir_version: 9, opset_import: ["" : 18, "com.example" : 3], producer_name: "maker", producer_version: "1.2">
g (float[batch, 4] x, float[2, 3] state) => (float[batch, 2] y, float[2, 3] stateN)
<float s = {0.5}, int8 z = {-3}, float t = {0.25}, int8 o = {7}>
{
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, s, z)
    wd = DequantizeLinear (w, s, o)
    p = MatMul (d, wd)
    r = QuantizeLinear (p, t, o)
    y = DequantizeLinear (r, t, o)
    stateN = Relu (state)
}
"""


def test_all_facts_of_a_model(tmp_path: Path) -> None:
    found = facts(tmp_path, QUANTISED, {"w": np.ones((4, 2), np.int8)})
    assert (found.format, found.version, found.producer) == ("ONNX", "opset 18, IR version 9", "maker 1.2")
    assert found.inputs == (
        InterfaceTensor("x", (1, 4), "float32", TensorQuantisation((0.5,), (-3,))),
        InterfaceTensor("state", (2, 3), "float32"),
    )
    assert found.outputs[0] == InterfaceTensor("y", (1, 2), "float32", TensorQuantisation((0.25,), (7,)))
    assert found.operators == {"DequantizeLinear": 3, "QuantizeLinear": 2, "MatMul": 1, "Relu": 1}
    assert found.weights == {"int8": 10, "float32": 8}
    assert (found.macs, found.unsupported, found.states) == (8, (), (("state", "stateN"),))
    (remark,) = found.remarks
    assert remark.startswith("axis 0 (batch) of input 'x' becomes 1")


def test_sizes_are_those_that_are_stated(tmp_path: Path) -> None:
    found = facts(tmp_path, QUANTISED, {"w": np.ones((4, 2), np.int8)}, sizes={"batch": 3})
    assert (found.inputs[0].shape, found.macs, found.remarks) == ((3, 4), 24, ())
    with pytest.raises(ModelError, match="--dim names 'time'"):
        facts(tmp_path, QUANTISED, {"w": np.ones((4, 2), np.int8)}, sizes={"time": 3})


def test_open_axes_are_a_fact(tmp_path: Path) -> None:
    text = '<ir_version: 9, opset_import: ["" : 18]> g (float[batch, time, 4] x) => (float[a, b, 4] y) { y = Relu (x) }'
    found = facts(tmp_path, text)
    assert [one.shape for one in (*found.inputs, *found.outputs)] == [("batch", "time", 4), ("a", "b", 4)]
    assert (found.macs, found.ram_bytes, found.operators) == (None, None, {"Relu": 1})
    (remark,) = found.remarks
    assert "leaves axes 0 (batch) and 1 (time) free" in remark
    assert "--dim time=" in remark


def test_six_unsupported_nodes_are_all_named_and_the_rest_is_counted(tmp_path: Path) -> None:
    nodes = "".join(f"[n{n}] u{n} = com.example.Odd{n % 4} (p)\n" for n in range(6))
    text = f"""
    <ir_version: 9, opset_import: ["" : 18, "com.example" : 3]>
    g (float[1, 4] x) => (float[1, 2] p, float[1, 2] u0, float[1, 2] u1, float[1, 2] u2, float[1, 2] u3,
                          float[1, 2] u4, float[1, 2] u5)
    {{ p = MatMul (x, w) {nodes} }}
    """
    found = facts(tmp_path, text, {"w": np.ones((4, 2), np.float32)})
    assert [(one.operator, one.node) for one in found.unsupported] == [
        (f"com.example::Odd{n % 4}", f"n{n}") for n in range(6)
    ]
    assert all("not supported; replace it in the model" in one.reason for one in found.unsupported)
    assert found.version == "opset 18, com.example 3, IR version 9"
    assert found.macs == 8


def test_weights_in_other_places_count(tmp_path: Path) -> None:
    text = """
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[2] x) => (float[2] y) {
        c = Constant <value = float[2] {1.0, 2.0}> ()
        go = Constant <value = bool {1}> ()
        y = If (go) <then_branch = t () => (float[2] a) { b = Constant <value = float[2] {3.0, 4.0}> ()
                                                          a = Add (b, x) },
                     else_branch = e () => (float[2] f) { f = Identity (c) }>
    }
    """
    found = facts(tmp_path, text, {"big": np.ones(30000, np.float16)})
    assert found.weights == {"float16": 60000, "float32": 16, "bool": 1}
    assert found.operators == {"Constant": 3, "If": 1, "Add": 1, "Identity": 1}


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("state", "stateN"),
        ("h", "hn"),
        ("h0", "hn"),
        ("h_0", "h_n"),
        ("cache_in", "cache_out"),
        ("hidden", "new_hidden"),
        ("past.0.key", "present.0.key"),
        ("past_key_values.3.value", "present.3.value"),
        ("lstm/c_prev", "lstm/c_next"),
    ],
)
def test_states_are_paired_by_name(given: str, made: str) -> None:
    inputs = [InterfaceTensor("input", (1, 4), "float32"), InterfaceTensor(given, (1, 4), "float32")]
    outputs = [InterfaceTensor("output", (1, 4), "float32"), InterfaceTensor(made, (1, 4), "float32")]
    assert state_pairs(inputs, outputs) == ((given, made),)
    assert state_pairs(inputs, [InterfaceTensor(made, (2, 4), "float32")]) == ()
    assert state_pairs(inputs, [InterfaceTensor(made, (1, 4), "int8")]) == ()


@pytest.mark.parametrize(
    ("given", "made"), [("x", "y"), ("past.0.key", "present.1.key"), ("past.0.key", "present.0.value"), ("h", "c")]
)
def test_other_names_are_no_states(given: str, made: str) -> None:
    assert state_pairs([InterfaceTensor(given, (4,), "int8")], [InterfaceTensor(made, (4,), "int8")]) == ()


def test_a_format_without_facts_of_its_own_has_those_of_its_program() -> None:
    from tvm import te

    def product(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 4), "k")
        return te.compute((3,), lambda i: te.sum(x[k] * w[k, i], axis=k))

    source = TensorExpression(product, {"x": ([4], "float32")}, {"w": np.ones((4, 3), np.float32)}, "product")
    found = read_stored(source).facts({}, {})
    assert (found.macs, found.weights, found.ram_bytes, found.ram_source) == (12, {"float32": 48}, 0, "memory plan")
    assert [one.shape for one in (*found.inputs, *found.outputs)] == [(4,), (3,)]
    assert sum(found.operators.values()) == 1


def test_the_graph_passes_have_the_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise UnsupportedOperator("no kernel yet")

    monkeypatch.setattr("edgetune.graph.module_costs.costs_of", refuse)
    found = facts(tmp_path, QUANTISED, {"w": np.ones((4, 2), np.int8)})
    assert (found.unsupported, found.macs, found.ram_source) == ((), 8, "memory plan")
    monkeypatch.setattr("edgetune.graph.partition.to_program", refuse)
    found = facts(tmp_path, QUANTISED, {"w": np.ones((4, 2), np.int8)})
    assert [one.reason for one in found.unsupported] == ["no kernel yet"]
    assert (found.macs, found.ram_bytes) == (None, None)


def test_a_shape_that_the_file_does_not_state_is_no_scalar(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 18, "com.example" : 1]> g (float[1, 4] x, float state)
              => (float y, float stateN) { y = com.example.Odd (x) stateN = Relu (state) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(proto, tmp_path / "m.onnx")
    found = read_stored(tmp_path / "m.onnx").facts({}, {})
    assert [one.shape for one in (*found.inputs, *found.outputs)] == [None, (), (), ()]


def test_a_node_that_no_schema_allows_is_named(tmp_path: Path) -> None:
    """Scales along an axis that the value does not have: ONNX's checker looks at neither."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[64] x, float[64] s) => (float[64] y)
              { q = Cast <to = 22> (x) [node] y = DequantizeLinear (q, s) }"""
    (one,) = facts(tmp_path, text).unsupported
    assert (one.operator, one.node) == ("DequantizeLinear", "node")
    assert "has inputs or attributes that do not fit one another" in one.reason
