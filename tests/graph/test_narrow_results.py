"""Narrow results: which tensors between kernels lie in memory as integers, and that outputs are the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.partition import to_program

_RANDOM = np.random.default_rng(0)
_SCALES = {"s": np.float32(0.0213), "z": np.uint8(117), "ws": np.float32(0.01), "wz": np.int8(0)}


def _node(operator: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(","), [output], **attributes)


def _there_and_back(name: str) -> list[onnx.NodeProto]:
    """Nodes that quantise a value and dequantise it again, as `named`."""
    return [
        _node("QuantizeLinear", f"{name},s,z", f"{name}q"),
        _node("DequantizeLinear", f"{name}q,s,z", f"{name}d"),
    ]


_UPSAMPLED = {"up": np.array([1, 1, 2, 2], np.float32)}
_CASES: dict[str, tuple[Sequence[onnx.NodeProto], tuple[int, ...]]] = {
    "max pooling": ([_node("MaxPool", "ad", "y", kernel_shape=[2, 2], strides=[2, 2])], (1, 8, 4, 4)),
    "resizing": ([_node("Resize", "ad,,up", "y", mode="linear")], (1, 8, 16, 16)),
    "reductions": (
        [_node("ReduceMean", "ad", "m", axes=[1]), _node("ReduceMax", "ad", "n", axes=[1]), _node("Sub", "n,m", "y")],
        (1, 1, 8, 8),
    ),
    "a reshape before a softmax": (
        [_node("Reshape", "ad,flat", "r"), _node("Softmax", "r", "y", axis=1)],
        (8, 64),
    ),
    "two readers": (
        [
            *(_node("MaxPool", "ad", "p", kernel_shape=[3, 3], pads=[1] * 4),),
            *(_node("AveragePool", "ad", "g", kernel_shape=[3, 3], pads=[1] * 4), _node("Add", "p,g", "y")),
        ],
        (1, 8, 8, 8),
    ),
}


def _model(nodes: Sequence[onnx.NodeProto], result: tuple[int, ...]) -> onnx.ModelProto:
    """A convolution of int8 operands, quantised and dequantised, and then `nodes`."""
    weights = {"w": _RANDOM.integers(-100, 100, (8, 4, 3, 3)).astype("int8"), "flat": np.array([8, 64])}
    before = [
        *_there_and_back("x"),
        _node("DequantizeLinear", "w,ws,wz", "wd"),
        _node("Conv", "xd,wd", "a", pads=[1] * 4),
        *_there_and_back("a"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (1, 4, 8, 8)), ("y", result))]
    stored = [numpy_helper.from_array(np.asarray(v), n) for n, v in {**weights, **_SCALES, **_UPSAMPLED}.items()]
    graph = helper.make_graph([*before, *nodes], "g", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.long
@pytest.mark.parametrize("name", _CASES)
def test_no_dequantised_tensor_lies_between_kernels(name: str) -> None:
    model = model_from_proto(_model(*_CASES[name]), "0" * 64, "model", None, "model.onnx")
    program = to_program(import_onnx(model))
    (product,) = (call for call in program.calls if "integer_conv2d" in program.kernels[call.kernel].name)
    made = program.buffers[product.arguments[-1]]
    assert (made.dtype, made.kind) == ("uint8", "intermediate")
    readers = [call for call in program.calls if made.id in call.arguments and call is not product]
    assert readers
    feed = {"x": _RANDOM.standard_normal((1, 4, 8, 8)).astype(np.float32)}
    (found,), (wanted,) = evaluate_program(program, [feed]), evaluate_model(model, [feed])
    # A sum near the middle between two integers may round to either. A mean of at least four has a share of the step.
    np.testing.assert_allclose(found["y"], wanted["y"], atol=1.26 * 0.0213)


def test_a_product_of_floats_reads_numbers() -> None:
    """It would widen each of them once for each column."""
    nodes = [_node("Reshape", "ad,flat", "r"), _node("MatMul", "r,m", "y")]
    proto = _model(nodes, (8, 8))
    proto.graph.initializer.append(numpy_helper.from_array(_RANDOM.standard_normal((64, 8)).astype("float32"), "m"))
    program = to_program(import_onnx(model_from_proto(proto, "0" * 64, "model", None, "model.onnx")))
    (product,) = (call for call in program.calls if program.kernels[call.kernel].name.startswith("matmul"))
    assert program.buffers[product.arguments[0]].dtype == "float32"


def test_what_a_mask_leaves_out_is_not_taken_for_a_dequantised_integer() -> None:
    """The first place is masked, and its number is the zero point."""
    stored = {"scale": np.float32(0.02), "zero": np.int8(0), "diagonal": np.int64(1)}
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["a"]),
        helper.make_node("QuantizeLinear", ["a", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("Trilu", ["d", "diagonal"], ["t"], upper=1),
        helper.make_node("Softmax", ["t"], ["y"], axis=-1),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in "xy"]
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    graph = helper.make_graph(nodes, "masked", ends[:1], ends[1:], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model = model_from_proto(proto, "0" * 64, "model", None, "model.onnx")
    feed = {"x": np.full((1, 64), 3, "float32")}
    (found,), (wanted,) = evaluate_program(to_program(import_onnx(model)), [feed]), evaluate_model(model, [feed])
    np.testing.assert_allclose(found["y"], wanted["y"], rtol=1e-5)
