"""Double-precision evaluation: a model's outputs without float32 rounding, to judge the reference itself.

The ONNX reference evaluator runs a copy of the model in which float32 is float64. Halves stay halves:
where a model rounds to them, that rounding is part of its definition. So is the rounding of quantised models to
integers, whose products and sums are exact in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.reference.op_run import OpRun

from edgetune.errors import ModelError
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.onnx.reference import Arrays, evaluable
from edgetune.frontend.onnx.reference_evaluator import reference_evaluator

_TYPES = frozenset({"to", "dtype", "output_datatype"})
"""Attributes that hold an element type. Others that do (`stash_type`) only request a minimum precision."""


def evaluate_in_double(model: OnnxModel, feeds: Sequence[Arrays]) -> list[dict[str, np.ndarray]]:
    """Outputs by name for each of `feeds` (inputs by name, in their own dtype); float32 ones are float64.

    Raises ModelError where some operator of the model can be evaluated only in float32, or not at all.
    """
    found = _run(model, feeds)
    for results in found:
        single = next((n for n, value in results.items() if getattr(value, "dtype", None) == np.float32), None)
        if single is not None:
            raise ModelError(f"{model.name} cannot be evaluated in double (value {single!r} is only known in float32)")
    return _outputs(model, found)


def evaluate_exactly(model: OnnxModel, feeds: Sequence[Arrays]) -> list[dict[str, np.ndarray]]:
    """Outputs of a quantised model whose integers have exact sums and float64 scales; float32 outputs are rounded once.

    Scales that an operator of the model computes stay what ONNX's evaluator makes of them. Raises ModelError where some
    operator cannot be evaluated.
    """
    found = _outputs(model, _run(model, feeds))
    single = {o.name for o in model.proto.graph.output if o.type.tensor_type.elem_type == TensorProto.FLOAT}
    with np.errstate(over="ignore"):
        return [{n: a.astype(np.float32) if n in single else a for n, a in outputs.items()} for outputs in found]


def _run(model: OnnxModel, feeds: Sequence[Arrays]) -> list[dict[str, Any]]:
    """All values by name for each of `feeds`."""
    try:
        session = reference_evaluator(in_double(evaluable(model)), _OPERATORS)
        weights = {name: _double(array) for name, array in model.weights.items()}
        doubles = [{name: _double(array) for name, array in feed.items()} for feed in feeds]
        with np.errstate(all="ignore"):
            return [session.run(None, weights | feed, intermediate=True) for feed in doubles]
    # The evaluator passes on all exceptions of its operators; each of them means that the model cannot be run.
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(f"{model.name} cannot be evaluated in double ({reason})") from error


def _outputs(model: OnnxModel, found: Sequence[dict[str, Any]]) -> list[dict[str, np.ndarray]]:
    names = [output.name for output in model.proto.graph.output]
    return [{name: np.asarray(results[name]) for name in names} for results in found]


def in_double(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of `proto` in which every float32 is a float64: weights, constants, casts, inputs and outputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    _convert_graph(copy.graph)
    for function in copy.functions:
        _convert_nodes(function.node)
    return copy


def _double(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _convert_graph(graph: onnx.GraphProto) -> None:
    for initializer in graph.initializer:
        _convert_tensor(initializer)
    for sparse in graph.sparse_initializer:
        _convert_tensor(sparse.values)
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        _convert_type(value.type)
    _convert_nodes(graph.node)


def _convert_nodes(nodes: Sequence[onnx.NodeProto]) -> None:
    for node in nodes:
        if node.op_type == "ConstantOfShape" and not node.attribute:  # float32 zeros by default
            node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))
        for attribute in node.attribute:
            _convert_attribute(node, attribute)


def _convert_attribute(node: onnx.NodeProto, attribute: AttributeProto) -> None:
    if node.op_type == "Constant" and attribute.name in {"value_float", "value_floats"}:
        value = np.asarray(helper.get_attribute_value(attribute), np.float64)
        attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(value)))
    elif attribute.name in _TYPES and attribute.i == TensorProto.FLOAT:
        attribute.i = TensorProto.DOUBLE
    for tensor in _tensors(attribute):
        _convert_tensor(tensor)
    for graph in (attribute.g, *attribute.graphs):
        _convert_graph(graph)


def _tensors(attribute: AttributeProto) -> Iterator[TensorProto]:
    yield from (attribute.t, *attribute.tensors, attribute.sparse_tensor.values)
    yield from (sparse.values for sparse in attribute.sparse_tensors)


def _convert_tensor(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def _convert_type(type_: onnx.TypeProto) -> None:
    kind = type_.WhichOneof("value")
    if kind == "tensor_type" and type_.tensor_type.elem_type == TensorProto.FLOAT:
        type_.tensor_type.elem_type = TensorProto.DOUBLE
    elif kind == "sequence_type":
        _convert_type(type_.sequence_type.elem_type)
    elif kind == "optional_type":
        _convert_type(type_.optional_type.elem_type)


def _convolved(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, attributes: dict[str, Any]) -> np.ndarray:
    """A convolution as one matrix product per position in its window: the evaluator's own takes minutes."""
    window = w.shape[2:]
    strides = attributes.get("strides") or [1] * len(window)
    dilations = attributes.get("dilations") or [1] * len(window)
    reach = [(extent - 1) * dilation + 1 for extent, dilation in zip(window, dilations, strict=True)]
    before, after = _padding(x.shape[2:], reach, strides, attributes)
    padded = np.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    spatial = [(n - r) // s + 1 for n, r, s in zip(padded.shape[2:], reach, strides, strict=True)]
    groups = attributes.get("group") or 1
    inputs = padded.reshape(len(x), groups, x.shape[1] // groups, *padded.shape[2:])
    weights = w.reshape(groups, len(w) // groups, *w.shape[1:])
    result = np.zeros((len(x), groups, len(w) // groups, prod(spatial)), x.dtype)
    for place in product(*map(range, window)):
        steps = zip(place, dilations, spatial, strides, strict=True)
        taken: tuple[Any, ...] = tuple(slice(p * d, p * d + (n - 1) * s + 1, s) for (p, d, n, s) in steps)
        weight: tuple[Any, ...] = place
        result += weights[..., *weight] @ inputs[..., *taken].reshape(*inputs.shape[:3], -1)
    result = result.reshape(len(x), len(w), *spatial)
    return result if b is None else result + b.reshape(-1, *[1] * len(window))


class _Convolution(OpRun):
    op_domain = ""

    def _run(self, x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, **attributes: Any) -> tuple[np.ndarray]:
        return (_convolved(x, w, b, attributes),)


class _QuantisedConvolution(OpRun):
    """In exact integers; ONNX's own has another shape where one axis has scales per channel."""

    op_domain = ""

    def _run(self, *operands: np.ndarray | None, **attributes: Any) -> tuple[np.ndarray]:
        x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = map(np.asarray, operands[:8])
        along = (-1, *[1] * (w.ndim - 1))
        weights = _centred(w, w_zero.reshape(along) if w_zero.size > 1 else w_zero)
        bias = operands[8].astype(np.float64) if len(operands) > 8 and operands[8] is not None else None
        sums = _convolved(_centred(x, x_zero), weights, bias, attributes)
        return (_requantised(sums, x_scale * w_scale.reshape(along[:-1]) / y_scale, y_zero),)


class _QuantisedProduct(OpRun):
    """In exact integers."""

    op_domain = ""

    def _run(self, *operands: np.ndarray) -> tuple[np.ndarray]:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = map(np.asarray, operands)
        return (_requantised(_centred(a, a_zero) @ _centred(b, b_zero), a_scale * b_scale / y_scale, y_zero),)


def _centred(integers: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """The distance of integers from zero; sums of products of 16 bits are exact in float64."""
    return np.asarray(integers.astype(np.float64) - zero)


def _requantised(sums: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    limits = np.iinfo(zero.dtype)
    return np.asarray(np.clip(np.rint(sums * scale) + zero, limits.min, limits.max).astype(zero.dtype))


def _padding(
    extents: Sequence[int], reach: Sequence[int], strides: Sequence[int], attributes: dict[str, Any]
) -> tuple[list[int], list[int]]:
    """Zeros before and after each spatial axis, for windows that span `reach` elements."""
    kind, pads = attributes.get("auto_pad") or "NOTSET", attributes.get("pads")
    if kind == "NOTSET":
        pads = pads or [0] * (2 * len(extents))
        return list(pads[: len(extents)]), list(pads[len(extents) :])
    if kind == "VALID":
        return [0] * len(extents), [0] * len(extents)
    sizes = zip(extents, reach, strides, strict=True)
    whole = [max(0, (-(-extent // stride) - 1) * stride + over - extent) for extent, over, stride in sizes]
    less, more = [n // 2 for n in whole], [n - n // 2 for n in whole]
    return (less, more) if kind == "SAME_UPPER" else (more, less)


_OPERATORS = [
    type("Conv", (_Convolution,), {"op_domain": ""}),
    type("QLinearConv", (_QuantisedConvolution,), {"op_domain": ""}),
    type("QLinearMatMul", (_QuantisedProduct,), {"op_domain": ""}),
]
"""The evaluator finds operators by the name of their class."""
