"""Reference evaluation: outputs for given inputs by ONNX Runtime, or by the ONNX reference evaluator.

ONNX Runtime computes Sigmoid in float32 to about 1e-7 of 1, and as 0 below -18. Where all outputs are that small, such
a reference says nothing, so Sigmoid is computed in double there.
"""

from __future__ import annotations

import contextlib
import importlib.util
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Literal

import numpy as np
import onnx
import onnx.version_converter
from onnx import TensorProto, helper

from edgetune.errors import ModelError
from edgetune.frontend.onnx.domains import is_onnx, opset_of
from edgetune.frontend.onnx.large_tensors import as_external, as_inputs, value_of
from edgetune.frontend.onnx.nested_graphs import all_nodes, nested, set_nodes, unused_prefix
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.onnx.reference_evaluator import reference_evaluator
from edgetune.frontend.onnx.selected_rows import with_all_rows

Arrays = Mapping[str, np.ndarray]
Evaluator = Literal["onnxruntime", "onnx.reference"]

_QUANTISED_SINCE = 19
_BROADCASTS = 7  # the first opset in which a sum takes a number and a tensor without an attribute
_NARROW = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16})
_PARTS = ("wide", "opposite", "power", "total", "quotient", "one")
_Run = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
_QUANTISED = frozenset({"QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "DynamicQuantizeLinear"})


def is_quantised(model: OnnxModel) -> bool:
    """Whether the model has quantisation operators."""
    return _quantises(model.proto)


def choose_evaluator(model: OnnxModel) -> Evaluator:
    """ONNX Runtime where it is installed, the reference evaluator (hundreds of times slower) otherwise.

    Quantised models always use the reference evaluator: ONNX Runtime's own int8 kernels differ from the
    definition by up to an output step.
    """
    return "onnxruntime" if is_installed() and not is_quantised(model) else "onnx.reference"


def is_installed() -> bool:
    """Whether ONNX Runtime is there."""
    return importlib.util.find_spec("onnxruntime") is not None


def evaluate_model(
    model: OnnxModel, feeds: Sequence[Arrays], evaluator: Evaluator | None = None
) -> list[dict[str, np.ndarray]]:
    """Outputs by name for each of `feeds` (inputs by name, in their own dtype).

    Raises ModelError when the evaluator cannot run the model.
    """
    chosen = evaluator or choose_evaluator(model)
    try:
        run = _onnxruntime(model) if chosen == "onnxruntime" else _reference(model)
        return [run(dict(feed)) for feed in feeds]
    # Both evaluators pass on all exceptions of their operators; each of them means that the model cannot be run.
    except Exception as error:
        raise ModelError(f"{chosen} cannot run {model.name} ({str(error).splitlines()[0]}); check the model") from error


def _onnxruntime(model: OnnxModel) -> _Run:
    import onnxruntime

    quantised, model = _quantises(model.proto), model.read or model
    whole = with_all_rows(model.proto)
    proto, given = as_external(whole, model.weights) if model.weights else (whole, {})

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    # One thread keeps the order of sums, so that the outputs do not depend on the machine's number of cores.
    if quantised:
        # Its fused int8 kernels differ from the definition by up to a step; single nodes follow the definition.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # From bytes: with a path, it would open external data by itself.
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in given.values()]
    options.add_external_initializers(list(given), values)

    def opened(content: onnx.ModelProto) -> onnxruntime.InferenceSession:
        return onnxruntime.InferenceSession(content.SerializeToString(), options, providers=["CPUExecutionProvider"])

    named = _with_exact_sigmoid(_without_equal_names(proto))
    try:
        session = opened(named)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        # Its own inference of shapes is wrong for some operators, such as STFT. It matters only where they are fixed.
        session = opened(_with_open_shapes(named))
    names = [o.name for o in session.get_outputs()]
    return lambda feed: dict(zip(names, session.run(names, feed), strict=True))


def _without_equal_names(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto`, without node names where two nodes share one: ONNX allows that, ONNX Runtime refuses the model."""
    names = [node.name for node in proto.graph.node if node.name]
    if len(names) == len(set(names)):
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for node in copy.graph.node:
        node.ClearField("name")
    return copy


def _with_open_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto`, with inputs and outputs of unknown extents, and nothing said of what is between them."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    del copy.graph.value_info[:]
    given = {tensor.name for tensor in copy.graph.initializer}
    for value in copy.graph.input:
        for extent in value.type.tensor_type.shape.dim if value.name not in given else ():
            extent.ClearField("dim_value")
    for value in copy.graph.output:
        value.type.tensor_type.ClearField("shape")
    return copy


def _with_exact_sigmoid(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto` whose Sigmoid of float32 and float16 is 1 / (1 + e^-x) in float64, rounded once, in nested graphs too."""
    if opset_of(proto) < _BROADCASTS or not any(node.op_type == "Sigmoid" for node in all_nodes(proto.graph)):
        return proto
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    start = unused_prefix(proto, "sigmoid_")
    prefixes = (f"{start}{number}_" for number in count())

    def widen(graph: onnx.GraphProto) -> None:
        types = {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)}
        nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            for inner in nested(node):
                widen(inner)
            kind = types.get(node.output[0]) if node.op_type == "Sigmoid" and is_onnx(node) else None
            nodes += _sigmoid(node, kind, next(prefixes)) if kind is not None and kind in _NARROW else [node]
        set_nodes(graph, nodes)

    widen(result.graph)
    return result


def _sigmoid(node: onnx.NodeProto, kind: int, prefix: str) -> list[onnx.NodeProto]:
    """Nodes that compute the Sigmoid `node` in float64, and give its result the element type `kind`.

    Names between them begin with `prefix`.
    """
    (source,), (result,) = node.input, node.output
    wide, opposite, power, total, quotient, one = (f"{prefix}{name}" for name in _PARTS)
    return [
        helper.make_node("Cast", [source], [wide], to=TensorProto.DOUBLE),
        helper.make_node("Neg", [wide], [opposite]),
        helper.make_node("Exp", [opposite], [power]),
        helper.make_node("Constant", [], [one], value=helper.make_tensor(one, TensorProto.DOUBLE, [], [1.0])),
        helper.make_node("Add", [power, one], [total]),
        helper.make_node("Reciprocal", [total], [quotient]),
        helper.make_node("Cast", [quotient], [result], to=kind),
    ]


def _reference(model: OnnxModel) -> _Run:
    session = reference_evaluator(evaluable(model))
    names = [o.name for o in model.proto.graph.output]
    return lambda feed: dict(zip(names, map(np.asarray, session.run(names, {**model.weights, **feed})), strict=True))


def evaluable(model: OnnxModel) -> onnx.ModelProto:
    """`model` for ONNX's reference evaluator: its `weights` are inputs, which must be fed as well.

    Its opset is one whose quantisation operators that evaluator supports (from 19 on).
    """
    proto = _modern(with_all_rows(model.proto))
    return as_inputs(proto, model.weights) if model.weights else proto


def _modern(proto: onnx.ModelProto) -> onnx.ModelProto:
    if not _quantises(proto) or opset_of(proto) >= _QUANTISED_SINCE:
        return proto
    # The converter creates an empty file for external data in the working folder.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return onnx.version_converter.convert_version(proto, _QUANTISED_SINCE)


def _quantises(proto: onnx.ModelProto) -> bool:
    return any(node.op_type in _QUANTISED for node in proto.graph.node)


def output_steps(model: OnnxModel) -> dict[str, float]:
    """For each output that quantisation produces directly: one step, in the output's own unit."""
    initializers = {i.name: i for i in model.proto.graph.initializer}
    producers = {o: node for node in model.proto.graph.node for o in node.output}
    steps: dict[str, float] = {}
    for output in model.proto.graph.output:
        node = producers.get(output.name)
        if node is None:
            continue
        if node.op_type == "DequantizeLinear" and node.input[1] in initializers:
            steps[output.name] = float(np.max(value_of(initializers[node.input[1]], model.weights)))
        elif node.op_type in _QUANTISED:
            steps[output.name] = 1.0
    return steps
