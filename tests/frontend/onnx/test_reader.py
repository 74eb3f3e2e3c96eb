"""Reading models: shapes fixed from file or flag, and every unreadable file told in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from edgetune.errors import DynamicShape, ModelError, UnsupportedOperator
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto, read_onnx
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.frontend.onnx.sample_inputs import sample_inputs

DS_CNN = Path(__file__).parents[3] / "examples/models/ds_cnn.onnx"


def relu_model(shape: list[int | str] | None, operator: str = "Relu") -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], name="only")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def checked(proto: onnx.ModelProto, shapes: dict[str, tuple[int, ...]] | None = None) -> OnnxModel:
    return model_from_proto(proto, "0" * 64, "relu", shapes, "relu.onnx")


def test_the_example_reads() -> None:
    model = read_onnx(DS_CNN)
    assert model.name == "ds_cnn"
    assert model.opset == 17
    assert len(model.sha256) == 64


@given(st.integers(0, 4000))
def test_a_truncated_file_is_refused_in_one_sentence(length: int) -> None:
    import tempfile

    data = DS_CNN.read_bytes()[:length]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cut.onnx")
        path.write_bytes(data)
        with pytest.raises(ModelError) as raised:
            read_onnx(path)
    assert "cut.onnx" in raised.value.message
    assert "\n" not in raised.value.message


@given(st.binary(min_size=1, max_size=300))
def test_random_bytes_are_no_model(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "noise.onnx")
        path.write_bytes(data)
        with pytest.raises(ModelError):
            read_onnx(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.onnx"):
        read_onnx(tmp_path / "nowhere.onnx")


def test_an_unknown_extent_asks_for_shape() -> None:
    with pytest.raises(DynamicShape, match="--shape x=1,3"):
        checked(relu_model(["rows", 3]))


def test_shape_fixes_an_unknown_extent() -> None:
    model = checked(relu_model(["batch", 3]), {"x": (2, 3)})
    assert import_onnx(model).inputs[0].shape == (2, 3)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"x": (2, 4)}, "contradicts"),
        ({"z": (2, 3)}, "names 'z'"),
        ({"x": (-1, 3)}, "negative extent"),
        ({"x": (3,)}, "contra"),
    ],
)
def test_a_wrong_shape_flag_is_refused(shapes: dict[str, tuple[int, ...]], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        checked(relu_model(["batch", 3]), shapes)


def test_an_unsupported_operator_is_named_with_its_node() -> None:
    proto = relu_model([2, 3])
    proto.graph.node[0].op_type = "StringNormalizer"
    proto.graph.node[0].name = "the_node"
    model = OnnxModel(proto, 17, "0" * 64, "relu")
    with pytest.raises(UnsupportedOperator, match=r"StringNormalizer.*the_node"):
        import_onnx(model)


def test_sample_inputs_stay_within_tables_and_differ() -> None:
    table = helper.make_tensor("table", TensorProto.FLOAT, [3, 2], np.arange(6, dtype="f4"))
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "index"], ["y"])],
        "g",
        [helper.make_tensor_value_info("index", TensorProto.INT64, [50])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [50, 2])],
        [table],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = model_from_proto(proto, "0" * 64, "gather", None, "gather.onnx")
    feeds = sample_inputs(model, import_onnx(model).inputs, 3, seed=1)
    assert all(feed["index"].min() >= 0 and feed["index"].max() < 3 for feed in feeds)
    assert not np.array_equal(feeds[0]["index"], feeds[1]["index"])


def test_both_evaluators_agree() -> None:
    model = checked(relu_model([4, 5], "Sigmoid"))
    feeds = sample_inputs(model, import_onnx(model).inputs, 2, seed=3)
    for ours, theirs in zip(
        evaluate_model(model, feeds, "onnx.reference"), evaluate_model(model, feeds, "onnxruntime"), strict=True
    ):
        np.testing.assert_allclose(ours["y"], theirs["y"], rtol=1e-6)
