"""Models that ONNX Runtime's quantisers and optimiser write: a residual network, a transformer block and an LSTM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.disagreement import carried_steps, evaluate_quantised, known_steps
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, read_onnx
from edgetune.frontend.onnx.reference import evaluate_model, is_quantised
from edgetune.graph.partition import to_program
from tests.interpreter import run_program
from tests.quantised_samples import FloatGraph, quantised, sample_feed

_LEVELS = {
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
_HIDDEN, _LENGTH, _HEADS = 16, 5, 4


def _residual_network() -> onnx.ModelProto:
    g = FloatGraph()

    def convolved(x: str, given: int, group: int = 1) -> str:
        return g.op("Conv", x, g.weights(8, given // group, 3, 3), g.weights(8), pads=[1, 1, 1, 1], group=group)

    first = g.op("MaxPool", g.op("Relu", convolved("x", 3)), kernel_shape=[2, 2], strides=[2, 2])
    branch = convolved(g.op("Relu", convolved(first, 8)), 8)
    last = g.op("LeakyRelu", convolved(g.op("Relu", g.op("Add", branch, first)), 8, group=8))
    flat = g.op("Flatten", g.op("GlobalAveragePool", last))
    result = g.op("Softmax", g.op("Gemm", flat, g.weights(10, 8), g.weights(10), transB=1), axis=-1)
    return g.model(result, [1, 3, 8, 8], [1, 10])


def _transformer_block() -> onnx.ModelProto:
    g = FloatGraph()
    shape = g.constant(np.array([0, 0, _HEADS, _HIDDEN // _HEADS]))
    orders = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    query, key, value = (
        g.op("Transpose", g.op("Reshape", g.linear("x", _HIDDEN, _HIDDEN), shape), perm=order) for order in orders
    )
    scores = g.op("Div", g.op("MatMul", query, key), g.constant(np.float32(2)))
    mixed = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    mixed = g.op("Reshape", mixed, g.constant(np.array([0, 0, _HIDDEN])))

    def normalised(x: str) -> str:
        return g.op("LayerNormalization", x, g.weights(_HIDDEN), g.weights(_HIDDEN), axis=-1)

    middle = normalised(g.op("Add", g.linear(mixed, _HIDDEN, _HIDDEN), "x"))
    wide = g.linear(middle, _HIDDEN, 2 * _HIDDEN)
    error = g.op("Erf", g.op("Div", wide, g.constant(np.float32(np.sqrt(2)))))
    gelu = g.op("Mul", wide, g.op("Add", error, g.constant(np.float32(1))))
    gelu = g.op("Mul", gelu, g.constant(np.float32(0.5)))
    result = normalised(g.op("Add", g.linear(gelu, 2 * _HIDDEN, _HIDDEN), middle))
    return g.model(result, [1, _LENGTH, _HIDDEN], [1, _LENGTH, _HIDDEN])


def _lstm() -> onnx.ModelProto:
    g = FloatGraph()
    weights = [g.weights(1, 24, 5), g.weights(1, 24, 6), g.weights(1, 48)]
    states = g.op("LSTM", "x", *weights, outputs=2, hidden_size=6)
    states = g.op("Squeeze", states, g.constant(np.array([1])))
    return g.model(g.linear(states, 6, 3), [4, 1, 5], [4, 1, 3])


_MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "network": _residual_network,
    "transformer": _transformer_block,
    "lstm": _lstm,
}


def _optimised(path: Path, level: str) -> Path:
    """The model of `path` as ONNX Runtime writes it after its optimisation of a level."""
    made = path.with_name(f"{path.stem} {level}.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = _LEVELS[level]
    options.optimized_model_filepath = str(made)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return made


def _made(folder: Path, name: str, how: str, level: str) -> Path:
    path = folder / "float.onnx"
    onnx.save(_MODELS[name](), path)
    path = quantised(path, how)
    return _optimised(path, level) if level else path


def _allowed(model: OnnxModel, feeds: list[dict[str, np.ndarray]], right: np.ndarray) -> float:
    """One step of a quantised output; rounding of a float."""
    if not is_quantised(model):
        return 1e-6 * float(np.max(np.abs(right)))
    steps = known_steps(model) or carried_steps(model, feeds)
    return 1.01 * steps["y"].size


@pytest.mark.long
@pytest.mark.parametrize("name", list(_MODELS))
@pytest.mark.parametrize(
    "how", ["float", "qdq", "qdq per channel", "qdq of 16 bits", "qdq of 4 bits", "operators", "dynamic"]
)
def test_what_onnx_runtime_writes_means_what_it_was_made_of(name: str, how: str, tmp_path: Path) -> None:
    """The answer is that of the model before optimisation: kernels of integers differ by more from one another."""
    path = _made(tmp_path, name, how, "")
    before = read_onnx(path)
    feeds = [sample_feed(before.proto, 7)]
    right = evaluate_model(before, feeds, "onnxruntime")[0]["y"]
    for level in ("", *_LEVELS):
        model = read_onnx(_optimised(path, level) if level else path)
        domains = {node.domain for node in model.proto.graph.node}
        if "com.microsoft.nchwc" in domains:
            assert level == "all"
            with pytest.raises(UnsupportedOperator, match="ORT_ENABLE_EXTENDED"):
                import_onnx(model)
            continue
        assert domains <= {""}
        if is_quantised(model):
            (found,), evaluator, _ = evaluate_quantised(model, feeds)
            assert evaluator == "onnx.reference"
        else:
            (found,) = evaluate_model(model, feeds, "onnx.reference")
        assert np.max(np.abs(found["y"] - right)) <= _allowed(before, feeds, right), level


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "how", "level"),
    [
        ("network", "operators", "all"),
        ("transformer", "dynamic", "extended"),
    ],
)
def test_the_imported_model_computes_what_onnx_runtime_does(name: str, how: str, level: str, tmp_path: Path) -> None:
    model = read_onnx(_made(tmp_path, name, how, level))
    assert model.read is not None
    feeds = [sample_feed(model.proto, 7)]
    right = evaluate_model(model, feeds, "onnxruntime")[0]["y"]
    found = run_program(to_program(import_onnx(model)), feeds[0])["y"]
    assert np.max(np.abs(found - right)) <= _allowed(model, feeds, right)
