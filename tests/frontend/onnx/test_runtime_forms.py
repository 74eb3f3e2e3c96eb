"""A model is written out in operators of ONNX as it is read: what stays, what is said, and what it is compared with."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import edgetune
from edgetune.errors import EdgetuneError, UnsupportedOperator, UsageError
from edgetune.frontend.onnx import reference
from edgetune.frontend.onnx.decompositions.onnx_runtime import OF_ONNX_RUNTIME
from edgetune.frontend.onnx.format import FORMAT
from edgetune.frontend.onnx.importer import import_onnx, kept_weights
from edgetune.frontend.onnx.perturbed import rounded
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model

_X = np.linspace(-2, 3, 12, dtype="float32").reshape(3, 4)


def _model(text: str) -> OnnxModel:
    head = '<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]> m (float[3, 4] x) => (float[3, 4] y)'
    return model_from_proto(onnx.parser.parse_model(head + text), "0" * 64, "m", None, "m.onnx")


def _operators(model: OnnxModel) -> set[str]:
    return {f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in model.proto.graph.node}


def test_a_model_of_onnx_alone_stays_as_it_is() -> None:
    model = _model("{ y = Relu(x) }")
    assert model.read is None
    assert [node.op_type for node in model.proto.graph.node] == ["Relu"]


def test_only_operators_of_onnx_runtime_change() -> None:
    model = _model("{ t = Relu(x) n = com.microsoft.QuickGelu(t) y = Neg(n) }")
    assert model.read is not None
    assert {node.op_type for node in model.read.proto.graph.node} == {"Relu", "QuickGelu", "Neg"}
    assert [node.op_type for node in model.proto.graph.node] == ["Relu", "Mul", "Sigmoid", "Mul", "Identity", "Neg"]


def test_onnx_runtime_runs_the_model_as_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model("{ y = com.microsoft.FastGelu(x) }")
    seen: list[set[str]] = []
    with_exact_sigmoid = reference._with_exact_sigmoid

    def recorded(proto: onnx.ModelProto) -> onnx.ModelProto:
        seen.append({node.op_type for node in proto.graph.node})
        return with_exact_sigmoid(proto)

    monkeypatch.setattr(reference, "_with_exact_sigmoid", recorded)
    evaluate_model(model, [{"x": _X}], "onnxruntime")
    moved = rounded(model, 0)
    assert moved is not None
    evaluate_model(moved, [{"x": _X}], "onnxruntime")
    assert seen[0] == {"FastGelu"}
    assert {"Tanh", "RandomUniformLike"} <= seen[1]


def test_without_onnx_runtime_the_written_model_is_the_reference(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "m.onnx"
    source = _model("{ y = com.microsoft.Gelu(x) }").read
    assert source is not None
    onnx.save(source.proto, path)
    loaded = FORMAT.read(path).with_shapes({})
    (right,), evaluator = loaded.reference_outputs([{"x": _X}], _no_program, lambda _: None)
    assert evaluator == "onnxruntime"
    monkeypatch.setattr(reference, "is_installed", lambda: False)
    (found,), evaluator = loaded.reference_outputs([{"x": _X}], _no_program, lambda _: None)
    assert evaluator == "onnx.reference"
    np.testing.assert_allclose(found["y"], right["y"], rtol=1e-5, atol=1e-6)
    doubles = loaded.outputs_in_double([{"x": _X}])
    assert doubles is not None
    assert doubles[0]["y"].dtype == np.float64


def _no_program() -> Any:
    raise AssertionError("no program is needed")


def test_in_a_branch_and_in_a_function_it_is_written_out_as_well() -> None:
    branch = """{
        c = Constant <value = bool {1}> ()
        y = If (c) <then_branch = yes () => (float[3, 4] a) { a = com.microsoft.QuickGelu(x) },
                    else_branch = no () => (float[3, 4] a) { a = com.microsoft.Gelu(x) }>
    }"""
    model = _model(branch)
    inner = [graph.g for node in model.proto.graph.node for graph in node.attribute if graph.HasField("g")]
    assert {node.op_type for graph in inner for node in graph.node} >= {"Sigmoid", "Erf"}
    expected = evaluate_model(model, [{"x": _X}], "onnxruntime")[0]["y"]
    np.testing.assert_allclose(evaluate_model(model, [{"x": _X}], "onnx.reference")[0]["y"], expected, rtol=1e-5)
    text = """<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1, "own" : 1]>
        m (float[3, 4] x) => (float[3, 4] y) { y = own.twice(x) }
        <domain: "own", opset_import: ["" : 17, "com.microsoft" : 1]>
        twice (a) => (b) { t = com.microsoft.Gelu(a) b = com.microsoft.Gelu(t) }"""
    model = model_from_proto(onnx.parser.parse_model(text), "0" * 64, "m", None, "m.onnx")
    assert "Erf" in _operators(model)
    import_onnx(model)


def test_quantised_weights_reach_the_graph_as_integers() -> None:
    weights = np.arange(-8, 8, dtype="int8").reshape(4, 4)
    model = _of_node("DynamicQuantizeMatMul", {"w": weights, "s": np.float32(0.1)})
    (name,) = kept_weights(model.proto, model.weights)
    assert np.array_equal(kept_weights(model.proto, model.weights)[name], weights)
    packed = np.arange(4 * 8, dtype="uint8").reshape(4, 1, 8)
    scales = np.ones((4, 1), "float32")
    model = _of_node("MatMulNBits", {"w": packed, "s": scales}, K=4, N=4, bits=4, block_size=16)
    (kept,) = kept_weights(model.proto, model.weights).values()
    assert kept.dtype == np.int8
    assert kept.shape == (4, 16)
    assert kept[0, :3].tolist() == [-8, -8, -7]
    assert {node.name for node in model.proto.graph.node} == {"product"}


def _of_node(operator: str, constants: dict[str, Any], **attributes: Any) -> OnnxModel:
    node = helper.make_node(operator, ["x", *constants], ["y"], name="product", domain="com.microsoft", **attributes)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in "xy"]
    tensors = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph([node], "g", values[:1], values[1:], tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return model_from_proto(helper.make_model(graph, opset_imports=opsets), "0" * 64, "m", None, "m.onnx")


_PACKED = {"w": np.zeros((4, 1, 8), "uint8"), "s": np.ones((4, 1), "float32")}
_MATRIX = {"w": np.zeros((4, 4), "int8")}
_BLOCKS = {"K": 4, "N": 4, "bits": 4, "block_size": 16}


@pytest.mark.parametrize(
    ("operator", "constants", "attributes", "said"),
    [
        ("MatMulNBits", _PACKED, {"K": 4, "N": 4, "bits": 3, "block_size": 16}, "has weights of 3 bits"),
        ("MatMulNBits", _PACKED, {**_BLOCKS, "K": 40}, "of another size than K, N and block_size say"),
        ("MatMulNBits", _PACKED, {"K": 4, "bits": 4, "block_size": 16}, "lacks the attribute N"),
        ("MatMulNBits", _PACKED, {**_BLOCKS, "N": 4.5}, "an attribute N that is no whole number"),
        ("MatMulNBits", _PACKED, {**_BLOCKS, "N": "four"}, "has no number as attribute N"),
        ("FusedGemm", {"w": np.ones((4, 4), "float32")}, {"activation": "Sine"}, "does not know activation 'Sine'"),
        ("DynamicQuantizeMatMul", _MATRIX | {"s": np.ones(3, "float32")}, {}, r"shapes \(4, 4\) and \(3,\)"),
        (
            "DynamicQuantizeMatMul",
            _MATRIX | {"s": np.ones(4, "float32"), "z": np.ones(3, "int8")},
            {},
            r"shapes \(4,\) and \(3,\), which do not fit",
        ),
        ("MoE", {}, {}, "is not supported"),
    ],
)
def test_a_form_that_is_not_known_is_refused_by_name(
    operator: str, constants: dict[str, Any], attributes: dict[str, Any], said: str
) -> None:
    model = _of_node(operator, constants, **attributes)
    with pytest.raises(UnsupportedOperator, match=said) as error:
        import_onnx(model)
    assert "product" in error.value.message
    assert operator in error.value.message


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ("y = com.microsoft.SkipLayerNormalization (x, x)", "lacks an input that it must have: .* no Scale"),
        ("y = com.microsoft.FusedConv (x)", "lacks an input that it must have: .* no W"),
        ("y, z = com.microsoft.QuickGelu (x)", "has an output number 2, 'z', which is not supported"),
    ],
)
def test_a_node_without_its_inputs_or_with_more_outputs_is_refused_by_name(node: str, said: str) -> None:
    model = _model(f"{{ [product] {node} }}")
    with pytest.raises(UnsupportedOperator, match=said) as error:
        import_onnx(model)
    assert "product" in error.value.message


def test_more_heads_than_elements_are_refused() -> None:
    text = """<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>
        m (float[1, 3, 4] x, float[4, 6] w) => (float[1, 3, 2] y)
        { y = com.microsoft.Attention <num_heads = 5> (x, w) }"""
    model = model_from_proto(onnx.parser.parse_model(text), "0" * 64, "m", None, "m.onnx")
    with pytest.raises(UnsupportedOperator, match="operator Attention has sizes that do not fit one another"):
        import_onnx(model)


@pytest.mark.parametrize("operator", sorted(OF_ONNX_RUNTIME))
@settings(max_examples=3, deadline=None, derandomize=True)
@given(st.data())
def test_no_shape_or_attribute_of_it_ends_in_another_exception(operator: str, data: st.DataObject) -> None:
    """ONNX's checker takes any of them, since it does not know the operators."""
    kinds = st.sampled_from(["float32", "uint8", "int8", "int32", "int64"])
    shapes = st.lists(st.integers(0, 4), max_size=4)
    operands = {f"w{n}": np.zeros(data.draw(shapes), data.draw(kinds)) for n in range(data.draw(st.integers(0, 12)))}
    names = ["num_heads", "kv_num_heads", "axis", "bits", "block_size", "K", "N", "hidden_size", "channels_last"]
    attributes = {name: data.draw(st.integers(-1, 4)) for name in names if data.draw(st.booleans())}
    model = _of_node(operator, operands, **attributes)
    with contextlib.suppress(EdgetuneError):
        import_onnx(model)


def test_the_layout_of_one_processor_is_refused_with_the_line_that_leaves_it_out() -> None:
    graph = helper.make_graph(
        [helper.make_node("ReorderInput", ["x"], ["y"], name="to_blocks", domain="com.microsoft.nchwc")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 4, 4])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft.nchwc", 1)]
    model = model_from_proto(helper.make_model(graph, opset_imports=opsets), "0" * 64, "m", None, "m.onnx")
    with pytest.raises(UnsupportedOperator) as error:
        import_onnx(model)
    assert "operator com.microsoft.nchwc::ReorderInput (node 'to_blocks' of m)" in error.value.message
    assert (
        "`options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED`"
        in error.value.message
    )


def test_an_output_has_the_shape_that_it_is_computed_in() -> None:
    text = """<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>
        m (float[3, 4] x) => (float[1, n] y) { y = com.microsoft.Gelu(x) }"""
    model = model_from_proto(onnx.parser.parse_model(text), "0" * 64, "m", None, "m.onnx")
    assert [d.dim_value for d in model.proto.graph.output[0].type.tensor_type.shape.dim] == [3, 4]


def test_messages_name_the_node_that_was_written_out() -> None:
    model = _model("{ t = com.microsoft.Gelu(x) y = Identity(t) }")
    assert {entry.value for node in model.proto.graph.node for entry in node.metadata_props} == {
        "t",
        "com.microsoft::Gelu",
    }


def test_an_operator_that_is_known_cannot_be_registered() -> None:
    with pytest.raises(UsageError, match="operator QGemm exists already"):
        edgetune.register_operator("QGemm", lambda x: x)
