"""Selected rows: how many boxes NonMaxSuppression selects depends on data, and a package has a row for each it may.

The rows of the selected boxes come first. All elements of the remaining rows are -1. The reference gets the remaining
rows too, so that both are compared row by row. Another node may read the result where each row of its own result comes
from one row, and -1 stays -1. Any other node would read a remaining row as a box.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.domains import is_onnx
from edgetune.frontend.onnx.nested_graphs import all_nodes, nested, reads, set_nodes, unused_prefix
from edgetune.frontend.onnx.origins import described

_ROWS = 2
"""Axes of a selection: rows, and of each its batch, class and box."""

_SIGNED = {
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16),
}
_TO_THE_END = 2**31 - 1
_MOST_AXES = 64  # elements of a constant that says axes, places or columns


def with_all_rows(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto`, whose selections have all the rows that they may have, in its graphs and functions."""
    if not any(map(_selects, chain.from_iterable(map(all_nodes, (proto.graph, *proto.functions))))):
        return proto
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    start = unused_prefix(proto, "selection_")
    prefixes = (f"{start}{number}_" for number in count())
    for holder in (result.graph, *result.functions):
        _fill(holder, prefixes)
    return result


def selections_of(graph: onnx.GraphProto, model: str) -> set[str]:
    """Names of the tensors of `graph` that have a row for each box that may be selected.

    `graph` has the constants that its nodes read as initializers. Raises UnsupportedOperator for a node that would take
    the rows behind those that are selected for rows of boxes.
    """
    constants = {tensor.name: tensor for tensor in graph.initializer if prod(tensor.dims) <= _MOST_AXES}
    found: dict[str, tuple[int, onnx.NodeProto]] = {}  # of each tensor of such rows its axes, and what selects
    for node in graph.node:
        if _selects(node):
            found[node.output[0]] = (_ROWS, node)
            continue
        read = next((name for name in reads(node) if name in found), None)
        if read is None:
            continue
        axes, origin = found[read]
        own = _axes_of_rows(node, axes, constants) if read == node.input[0] else None
        if own is None or any(name in found for name in node.input[1:]):
            raise UnsupportedOperator(
                f"{described(node, model)} reads what {described(origin, model)} selects, and would read the rows "
                "of -1 after the selected boxes as boxes; end the model at the selection, or at the boxes and scores"
            )
        found |= dict.fromkeys(node.output, (own, origin))
    return set(found)


def _selects(node: onnx.NodeProto) -> bool:
    return node.op_type == "NonMaxSuppression" and is_onnx(node)


def _fill(holder: onnx.GraphProto | onnx.FunctionProto, prefixes: Iterator[str]) -> None:
    """Puts behind each selection in `holder`, and in graphs within it, the nodes that add the rows of -1.

    Each selection takes one of `prefixes` for new names.
    """
    for node in holder.node:
        for graph in nested(node):
            _fill(graph, prefixes)
    made: list[onnx.NodeProto] = []
    for node in holder.node:
        made += _with_rows_behind(node, next(prefixes)) if _selects(node) else [node]
    set_nodes(holder, made)


def _with_rows_behind(node: onnx.NodeProto, prefix: str) -> list[onnx.NodeProto]:
    """A selection, and the nodes that add rows of -1 up to batches x classes x min(most of a class, boxes).

    Names between them begin with `prefix`.
    """
    if len(node.input) <= _ROWS or not node.input[_ROWS]:
        return [node]
    scores, most, result = node.input[1], node.input[_ROWS], node.output[0]
    made: list[onnx.NodeProto] = []

    def put(operator: str, name: str, inputs: list[str], **attributes: Any) -> str:
        made.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def part(operator: str, name: str, inputs: list[str], **attributes: Any) -> str:
        return put(operator, f"{prefix}{name}", inputs, **attributes)

    def numbers(name: str, *values: int) -> str:
        return part("Constant", name, [], value=numpy_helper.from_array(np.array(values, np.int64)))

    own = onnx.NodeProto()
    own.CopyFrom(node)
    own.output[0] = f"{prefix}result"
    made.append(own)
    shape = part("Shape", "shape", [scores])
    classes = part("ReduceProd", "classes", [part("Gather", "first", [shape, numbers("outer", 0, 1)])], keepdims=1)
    boxes = part("Gather", "boxes", [shape, numbers("inner", 2)])
    limit = part("Reshape", "limit", [most, numbers("one", 1)])
    least = part("ReduceMin", "least", [part("Concat", "both", [boxes, limit], axis=0)], keepdims=1)
    of_class = part("ReduceMax", "most", [part("Concat", "or_none", [least, numbers("zero", 0)], axis=0)], keepdims=1)
    rows = part("Mul", "rows", [classes, of_class])
    selected = part("Gather", "selected", [part("Shape", "found", [own.output[0]]), numbers("row", 0)])
    behind = part("Sub", "missing", [rows, selected])
    extents = part("Concat", "extents", [behind, numbers("columns", 3)], axis=0)
    filled = part("Expand", "filled", [numbers("none", -1), extents])
    put("Concat", result, [own.output[0], filled], axis=0)
    return made


def _axes_of_rows(node: onnx.NodeProto, axes: int, constants: dict[str, TensorProto]) -> int | None:
    """How many axes the results of `node` have, each row of which comes from that row of its first input.

    `axes` are those of that input. None where rows come from several rows, or where -1 may become another number.
    """
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    given = [numpy_helper.to_array(constants[name]) if name in constants else None for name in node.input[1:]]
    along = int(attributes.get("axis", 0)) % axes
    if not is_onnx(node):
        return None
    if node.op_type == "Identity" or (node.op_type == "Cast" and attributes["to"] in _SIGNED):
        return axes
    if node.op_type == "Split" and along:
        return axes
    if node.op_type == "Gather" and along and given[0] is not None:
        return axes - 1 + int(given[0].ndim)
    if node.op_type == "Slice" and all(one is not None for one in given):
        return axes if _keeps_rows([one.reshape(-1).tolist() for one in given if one is not None], axes) else None
    if node.op_type in {"Squeeze", "Unsqueeze"}:
        named = attributes.get("axes", None if not given or given[0] is None else given[0].reshape(-1).tolist())
        result = axes if named is None else axes + len(named) * (1 if node.op_type == "Unsqueeze" else -1)
        places = max(axes, result)
        return None if named is None or 0 in [axis % places for axis in named] else result
    return None


def _keeps_rows(given: list[list[int]], axes: int) -> bool:
    """Whether a Slice with these starts, ends, axes and steps takes all rows in order."""
    starts, ends, *rest = given
    along = rest[0] if rest else list(range(len(starts)))
    steps = rest[1] if len(rest) > 1 else [1] * len(starts)
    cuts = zip(starts, ends, along, steps, strict=True)
    return all(axis % axes or (start == 0 and end >= _TO_THE_END and step == 1) for start, end, axis, step in cuts)
