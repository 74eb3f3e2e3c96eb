"""Old forms of operators: a model of an opset before 7 becomes one of opset 7, which runtimes compute.

Neither ONNX Runtime nor ONNX's evaluator computes what opset 7 replaced, so the model is converted before both the
import and the reference. ONNX's own version converter is not used: it puts the axes of `axis` at the wrong end, gives
the slopes of PRelu to the last axis, and has no rule for comparisons, recurrent cells, Cast, Pad, Split and Tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.domains import DEFAULT_DOMAIN, is_onnx, opset_of
from edgetune.frontend.onnx.nested_graphs import all_nodes, nested, set_nodes, unused_prefix
from edgetune.frontend.onnx.origins import shown_node

CURRENT = 7
"""The first opset whose operators all runtimes compute."""
_PER_ELEMENT = 9
"""The first opset whose BatchNormalization has statistics for channels alone."""
_FEW = 64
"""Most values of a constant that says sizes, repeats or an axis."""


def with_current_forms(proto: onnx.ModelProto, where: str) -> onnx.ModelProto:
    """`proto`, whose input shapes are fixed, as a model of opset 7 or later; itself where that changes nothing.

    A BatchNormalization of opset 7 or 8 with statistics for each element (`spatial` = 0) is written out, too. `where`
    names the model. Raises UnsupportedOperator for a form that no later operator has.
    """
    opset = opset_of(proto)
    if opset >= _PER_ELEMENT:
        return proto
    if opset >= CURRENT and not any(map(_is_per_element, all_nodes(proto.graph))):
        return proto
    # The result of these operators has the shape of their first input, which may hold for both inputs until the
    # number of axes of each value is known.
    like_first = _Conversion(proto, where, None).model
    return _Conversion(proto, where, shape_inference.infer_shapes(like_first)).model


def _is_per_element(node: onnx.NodeProto) -> bool:
    return node.op_type == "BatchNormalization" and is_onnx(node) and _attributes(node).get("spatial", 1) == 0


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def _of_names(node: onnx.NodeProto, names: Iterable[str]) -> dict[str, Any]:
    return {name: value for name, value in _attributes(node).items() if name in names}


Ranks = dict[str, int]
Nodes = list[onnx.NodeProto]


class _Conversion:
    """`model` is a copy of `proto` in which all nodes have forms of opset 7.

    `shaped` is such a copy with known types; without it, operators that broadcast get their first input twice.
    """

    def __init__(self, proto: onnx.ModelProto, where: str, shaped: onnx.ModelProto | None) -> None:
        self.where = where
        self.aligns = shaped is not None
        self._fresh = count()
        self._prefix = unused_prefix(proto, "converted_")
        self.constants: dict[str, np.ndarray] = {}
        self.model = onnx.ModelProto()
        self.model.CopyFrom(proto)
        self.version = opset_of(proto)
        for entry in self.model.opset_import:
            if entry.domain in DEFAULT_DOMAIN:
                entry.version = max(entry.version, CURRENT)
        self._convert(self.model.graph, shaped.graph if shaped is not None else None, {})

    def name(self) -> str:
        """A name for a new value."""
        return f"{self._prefix}{next(self._fresh)}_"

    def refused(self, node: onnx.NodeProto, why: str) -> UnsupportedOperator:
        """The error for a form that has no later one."""
        return UnsupportedOperator(
            f"operator {node.op_type} (node {shown_node(node)!r} of {self.where}) {why}; "
            f"export the model again with opset {CURRENT} or later"
        )

    def value(self, node: onnx.NodeProto, index: int, what: str) -> list[int]:
        """The values of an input that must be constant."""
        name = node.input[index] if index < len(node.input) else ""
        if name not in self.constants:
            raise self.refused(node, f"of an opset before {CURRENT} computes its {what} at run time")
        return [int(v) for v in self.constants[name].reshape(-1)]

    def _is_old(self, node: onnx.NodeProto) -> bool:
        """From opset 7 on, only BatchNormalization has an old form."""
        return self.version < CURRENT or _is_per_element(node)

    def _convert(self, graph: onnx.GraphProto, shaped: onnx.GraphProto | None, outer: Ranks) -> None:
        ranks = outer | (_ranks(shaped) if shaped is not None else {})
        for initializer in graph.initializer:
            if prod(initializer.dims) <= _FEW:
                self.constants[initializer.name] = numpy_helper.to_array(initializer)
        converted: Nodes = []
        inner = [g for node in shaped.node for g in nested(node)] if shaped is not None else []
        for node in graph.node:
            if node.op_type == "Constant" and is_onnx(node) and "value" in (given := _attributes(node)):
                self.constants[node.output[0]] = numpy_helper.to_array(given["value"])
            for branch in nested(node):
                self._convert(branch, inner.pop(0) if inner else None, ranks)
            rule = _FORMS.get(node.op_type) if is_onnx(node) and self._is_old(node) else None
            converted += rule(self, node, ranks) if rule is not None else [node]
        del graph.value_info[:]
        set_nodes(graph, converted)


def _ranks(graph: onnx.GraphProto) -> Ranks:
    typed = (*graph.input, *graph.value_info, *graph.output)
    found = {v.name: len(v.type.tensor_type.shape.dim) for v in typed if v.type.tensor_type.HasField("shape")}
    return found | {initializer.name: len(initializer.dims) for initializer in graph.initializer}


def _without(node: onnx.NodeProto, *names: str) -> onnx.NodeProto:
    """`node` without these attributes."""
    kept = [attribute for attribute in node.attribute if attribute.name not in names]
    del node.attribute[:]
    node.attribute.extend(kept)
    return node


def _set(node: onnx.NodeProto, **values: Any) -> onnx.NodeProto:
    """`node` with these attributes, in place of its own of the same names."""
    _without(node, *values)
    node.attribute.extend(helper.make_attribute(name, value) for name, value in values.items())
    return node


def _aligned(work: _Conversion, node: onnx.NodeProto, ranks: Ranks, axis: int | None) -> Nodes:
    """The second input with axes of extent 1 behind its own, so that its first one meets `axis` of the first input."""
    first, second = node.input[0], node.input[1]
    if not work.aligns:
        node.input[1] = first
        return [node]
    if axis is None:
        return [node]
    if first not in ranks or second not in ranks:
        unknown = second if first in ranks else first
        raise work.refused(node, f"spreads its second input along axis {axis}, but the axes of {unknown!r} are unknown")
    rank, own = ranks[first], ranks[second]
    behind = rank - own - (axis + rank if axis < 0 else axis)
    if behind <= 0 or not own:  # the last axes meet, as they do without `axis`
        return [node]
    spread = work.name()
    node.input[1] = spread
    return [helper.make_node("Unsqueeze", [second], [spread], axes=list(range(own, own + behind))), node]


def _broadcast(work: _Conversion, node: onnx.NodeProto, ranks: Ranks) -> Nodes:
    """Add and its kin: where `broadcast` is set, the second input is spread over the first from `axis` on."""
    given = _attributes(node)
    axis = given.get("axis") if given.get("broadcast", 0) else None
    return _aligned(work, _without(node, "axis", "broadcast", "consumed_inputs"), ranks, axis)


def _slopes(work: _Conversion, node: onnx.NodeProto, ranks: Ranks) -> Nodes:
    """PRelu has a slope for all elements, or one for each channel (axis 1)."""
    one_axis = ranks.get(node.input[1], 1) == 1
    return _aligned(work, _without(node, "consumed_inputs"), ranks, 1 if one_axis else None)


def _dropped(*names: str) -> _Rule:
    """Attributes that no longer exist and did not change the result of an inference."""
    return lambda _work, node, _ranks: [_without(node, *names)]


def _defaults(before: int, **values: Any) -> _Rule:
    """Attributes whose default was another one before that opset; in-place hints are dropped."""

    def rule(work: _Conversion, node: onnx.NodeProto, _ranks: Ranks) -> Nodes:
        missing = values if work.version < before else {}
        return [_set(_without(node, "consumed_inputs"), **(missing | _of_names(node, missing)))]

    return rule


def _batch_normalization(work: _Conversion, node: onnx.NodeProto, _ranks: Ranks) -> Nodes:
    """Statistics for each element are written out; the test mode is that of one output, as since opset 7."""
    _without(node, "consumed_inputs", "is_test")
    if not _is_per_element(node):
        return [node]
    if any(node.output[1:]):
        raise work.refused(node, "has statistics for each element and computes them from a batch")
    x, scale, bias, mean, variance = node.input
    epsilon, wide, deviation, centred, normal, scaled = (work.name() for _ in range(6))
    value = numpy_helper.from_array(np.array(_attributes(node).get("epsilon", 1e-5), "float32"))
    return [
        helper.make_node("Constant", [], [epsilon], value=value),
        helper.make_node("Add", [variance, epsilon], [wide]),
        helper.make_node("Sqrt", [wide], [deviation]),
        helper.make_node("Sub", [x, mean], [centred]),
        helper.make_node("Div", [centred, deviation], [normal]),
        helper.make_node("Mul", [normal, scale], [scaled]),
        helper.make_node("Add", [scaled, bias], [node.output[0]], name=node.name),
    ]


def _cast(work: _Conversion, node: onnx.NodeProto, _ranks: Ranks) -> Nodes:
    """The type was a text."""
    to = _attributes(node)["to"]
    if isinstance(to, int):
        return [node]
    types: Mapping[str, int] = dict(onnx.TensorProto.DataType.items())
    name = to.decode(errors="replace").upper()
    if name not in types:
        raise work.refused(node, f"casts to {name!r}, which is no type of ONNX")
    return [_set(node, to=types[name])]


def _pad(_work: _Conversion, node: onnx.NodeProto, _ranks: Ranks) -> Nodes:
    """`paddings` are `pads` today."""
    given = _attributes(node)
    return [_set(_without(node, "paddings"), pads=given["paddings"]) if "paddings" in given else node]


def _power_of_norm(work: _Conversion, node: onnx.NodeProto, _ranks: Ranks) -> Nodes:
    """The exponent of a norm was a float."""
    p = _attributes(node).get("p", 2)
    if p != int(p):
        raise work.refused(node, f"takes the norm with the exponent {p:g}, and later opsets only take whole numbers")
    return [_set(node, p=int(p))]


def _reshape(work: _Conversion, node: onnx.NodeProto, _ranks: Ranks) -> Nodes:
    """The shape was an attribute."""
    given = _attributes(node)
    _without(node, "consumed_inputs", "shape")
    if "shape" not in given:
        return [node]
    shape = work.name()
    node.input.append(shape)
    value = numpy_helper.from_array(np.array(given["shape"], "int64"))
    return [helper.make_node("Constant", [], [shape], value=value), node]


def _split(work: _Conversion, node: onnx.NodeProto, _ranks: Ranks) -> Nodes:
    """The sizes could be an input."""
    if len(node.input) == 1:
        return [node]
    sizes = work.value(node, 1, "sizes")
    del node.input[1:]
    return [_set(node, split=sizes)]


def _tile(work: _Conversion, node: onnx.NodeProto, _ranks: Ranks) -> Nodes:
    """One axis was repeated."""
    if len(node.input) == 2:
        return [node]
    (repeats,), (axis,) = work.value(node, 1, "repeats"), work.value(node, 2, "axis")
    return [helper.make_node("Concat", [node.input[0]] * repeats, list(node.output), name=node.name, axis=axis)]


def _upsample(_work: _Conversion, node: onnx.NodeProto, _ranks: Ranks) -> Nodes:
    """There was a factor for each axis of an image."""
    given = _attributes(node)
    if "height_scale" not in given:
        return [node]
    scales = [1.0, 1.0, given["height_scale"], given["width_scale"]]
    return [_set(_without(node, "height_scale", "width_scale"), scales=scales)]


_Rule = Callable[[_Conversion, onnx.NodeProto, Ranks], Nodes]
_IN_PLACE = (
    "Abs", "Ceil", "Clip", "Elu", "Exp", "Floor", "HardSigmoid", "InstanceNormalization", "LeakyRelu", "Log", "Max",
    "Mean", "Min", "Neg", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Sum", "Tanh",
)  # fmt: skip
_BROADCAST = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
_FORMS: dict[str, _Rule] = {
    **{name: _dropped("consumed_inputs") for name in _IN_PLACE},
    **{name: _dropped("output_sequence") for name in ("GRU", "LSTM", "RNN")},
    **dict.fromkeys(_BROADCAST, _broadcast),
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Concat": _defaults(4, axis=1),
    "Dropout": _dropped("consumed_inputs", "is_test"),
    "Gemm": _dropped("broadcast"),
    "GlobalLpPool": _power_of_norm,
    "LpPool": _power_of_norm,
    "PRelu": _slopes,
    "Pad": _pad,
    "Reshape": _reshape,
    "Selu": _defaults(6, alpha=1.6732, gamma=1.0507),
    "Split": _split,
    "Tile": _tile,
    "Upsample": _upsample,
}
