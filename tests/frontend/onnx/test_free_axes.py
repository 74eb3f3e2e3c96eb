"""What a model leaves free, and the `--shape` that is proposed for it: never an image of one pixel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import DynamicShape
from edgetune.frontend.onnx.reader import read_onnx

Dim = int | str | None


def weight(name: str, *dims: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.full(dims, 0.01, np.float32), name)


def save(
    path: Path,
    inputs: dict[str, Sequence[Dim] | None],
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto] = (),
    kind: int = TensorProto.FLOAT,
) -> Path:
    values = [helper.make_tensor_value_info(name, kind, dims) for name, dims in inputs.items()]
    output = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph(list(nodes), "g", values, [output], list(weights))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def conv(channels: int, group: int = 1) -> tuple[onnx.NodeProto, onnx.TensorProto]:
    node = helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1], group=group)
    return node, weight("k", 8, channels // group, 3, 3)


def pooled_classifier(size: int) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    node, kernel = conv(3)
    flat = helper.make_node("Flatten", ["c"], ["f"])
    dense = helper.make_node("Gemm", ["f", "w"], ["y"], transB=1)
    return [node, flat, dense], [kernel, weight("w", 10, 8 * size * size)]


IMAGE = helper.make_node("Relu", ["x"], ["y"])


@pytest.mark.parametrize(
    ("dims", "nodes", "weights", "axes", "flags"),
    [
        pytest.param(
            ["batch", 3, "h", "w"], [IMAGE], [], "axes 0 (batch), 2 (h) and 3 (w)", "--shape x=1,3,224,224", id="nchw"
        ),
        pytest.param([None, None, None, 3], [IMAGE], [], "axes 0, 1 and 2", "--shape x=1,224,224,3", id="nhwc"),
        pytest.param(["n", "c", "h", "w"], [IMAGE], [], "axes 0 (n)", "--shape x=1,3,224,224", id="all free"),
        pytest.param([None, 1, 32, None], [IMAGE], [], "axes 0 and 3", "--shape x=1,1,32,32", id="the other side"),
        pytest.param(
            [None] * 4, [conv(16, 16)[0]], [conv(16, 16)[1]], "axes 0, 1, 2", "--shape x=1,16,224,224", id="depthwise"
        ),
        pytest.param(
            ["n", 3, None, None], *pooled_classifier(32), "axes 0 (n), 2 and 3", "--shape x=1,3,32,32", id="classifier"
        ),
        pytest.param(None, [conv(3)[0]], [conv(3)[1]], "has no shape", "--shape x=1,3,224,224", id="no rank"),
        pytest.param([None, 3, 224], [IMAGE], [], "axis 0 free", "--shape x=1,3,224", id="signal"),
        pytest.param([3, None, None], [IMAGE], [], "axes 1 and 2", "--shape x=3,224,224", id="no batch"),
        pytest.param(["n", "t", 40], [IMAGE], [], "axes 0 (n) and 1 (t)", "--shape x=1,128,40", id="frames"),
        pytest.param(
            ["n", None],
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            [weight("w", 12, 3)],
            "axes 0 (n) and 1",
            "--shape x=1,12",
            id="features",
        ),
        pytest.param(
            [None, 3, None, None, None], [IMAGE], [], "axes 0, 2, 3 and 4", "--shape x=1,3,16,224,224", id="film"
        ),
        pytest.param(["n"], [IMAGE], [], "axis 0 (n)", "--shape x=1", id="vector"),
    ],
)
def test_what_is_proposed(
    tmp_path: Path,
    dims: Sequence[Dim] | None,
    nodes: list[onnx.NodeProto],
    weights: list[onnx.TensorProto],
    axes: str,
    flags: str,
) -> None:
    path = save(tmp_path / "m.onnx", {"x": dims}, nodes, weights)
    with pytest.raises(DynamicShape) as refusal:
        read_onnx(path)
    sentence = refusal.value.message
    assert axes in sentence
    assert f"{flags} (an example" in sentence
    sizes = tuple(int(size) for size in flags.partition("=")[2].split(","))
    assert read_onnx(path, {"x": sizes}).proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value == sizes[0]


def test_inputs_that_share_a_symbol_are_proposed_alike_and_all_at_once(tmp_path: Path) -> None:
    both: dict[str, Sequence[Dim] | None] = {
        "the words": ["batch", "tokens"],
        "mask": ["batch", "tokens"],
        "fixed": [1, 4],
    }
    nodes = [helper.make_node("Add", ["the words", "mask"], ["s"]), helper.make_node("Identity", ["fixed"], ["y"])]
    path = save(tmp_path / "m.onnx", both, nodes)
    with pytest.raises(DynamicShape) as refusal:
        read_onnx(path)
    sentence = refusal.value.message
    assert "input 'the words' leaves axes 0 (batch) and 1 (tokens) free and input 'mask' leaves" in sentence
    assert "--shape 'the words=1,128' --shape mask=1,128" in sentence
    assert "fixed" not in sentence
    with pytest.raises(DynamicShape, match="input 'mask' leaves axes") as second:
        read_onnx(path, {"the words": (1, 7)})
    assert "the words" not in second.value.message
