"""Loops that stay loops: Scan and Loop as `edgetune::ScanLoop`, where the number of their iterations is known.

What of the body of a Loop depends on the iteration's number alone is known for every iteration (`loop_control`): a
table, of which each iteration has its slice. An element that is gathered at a known place is a slice, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.control_flow import alias, run_body, scalar, unrolled_loop, unrolled_scan
from edgetune.frontend.onnx.decompositions.builder import Builder
from edgetune.frontend.onnx.decompositions.loop_writer import LoopWriter
from edgetune.frontend.onnx.loop_control import MOST_ITERATIONS, LoopTables, control_of
from edgetune.frontend.onnx.nested_graphs import reads_of_body
from edgetune.frontend.onnx.node_values import static_shape

if TYPE_CHECKING:
    from edgetune.frontend.onnx.inline import Evaluator, Scope


def scan(evaluator: Evaluator, node: onnx.NodeProto, scope: Scope) -> bool:
    """A loop over the slices of the scanned inputs; unrolled where it cannot be one; False where not even that."""
    before = len(evaluator.nodes)
    if _looped_scan(evaluator, node, scope):
        return True
    del evaluator.nodes[before:]
    return unrolled_scan(evaluator, node, scope)


def loop(evaluator: Evaluator, node: onnx.NodeProto, scope: Scope) -> bool:
    """A loop of a known number of iterations; unrolled where it cannot be one.

    Raises UnsupportedOperator where the number is not known.
    """
    before = len(evaluator.nodes)
    if _looped_loop(evaluator, node, scope):
        return True
    del evaluator.nodes[before:]
    if unrolled_loop(evaluator, node, scope):
        return True
    raise UnsupportedOperator(
        f"{Builder(evaluator, node).shown} has a number of iterations that is not known before run time, or above "
        f"{MOST_ITERATIONS:,}, or tensors whose shapes change; make its trip count and condition depend on constants "
        "alone"
    )


def _looped_scan(evaluator: Evaluator, node: onnx.NodeProto, scope: Scope) -> bool:
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    graph, count = attributes["body"], attributes["num_scan_inputs"]
    inputs = [name for name in node.input if name]
    states, sequences = inputs[:-count], inputs[len(inputs) - count :]
    if len(graph.input) != len(inputs) or evaluator.opsets.get("", 1) < 9 or not _are_tensors(evaluator, inputs):
        return False
    b = Builder(evaluator, node)
    moved = []
    for name, axis in zip(sequences, attributes.get("scan_input_axes", [0] * count), strict=True):
        rank = len(b.shape(name))
        first = axis % max(rank, 1)
        moved.append(b.moved(name, first, *(other for other in range(rank) if other != first)))
    steps = b.shape(moved[0])[0] if b.shape(moved[0]) else 0
    if steps < 2:
        return False
    body = b.loop(steps)
    actual = [body.state(name) for name in states]
    backwards = attributes.get("scan_input_directions", [0] * count)
    actual += [body.scanned(name, backwards=bool(back)) for name, back in zip(moved, backwards, strict=True)]
    results = _run(body, graph, actual, _read_besides(evaluator, body, graph, scope))
    if results is None or not _keeps_its_states(evaluator, body, states, results):
        return False
    made = results[len(states) :]
    reverse = attributes.get("scan_output_directions", [0] * len(made))
    last, wholes = body.close(
        results[: len(states)], [(name, bool(back)) for name, back in zip(made, reverse, strict=True)]
    )
    axes = attributes.get("scan_output_axes", [0] * len(made))
    alias(evaluator, last + [_with_first_axis_at(b, w, a) for w, a in zip(wholes, axes, strict=True)], node.output)
    return True


def _looped_loop(evaluator: Evaluator, node: onnx.NodeProto, scope: Scope) -> bool:
    graph = next(a.g for a in node.attribute if a.name == "body")
    control = control_of(evaluator, node, graph, scope)
    limit = scalar(evaluator, node.input[0] if node.input else "", MOST_ITERATIONS + 1)
    going = scalar(evaluator, node.input[1] if len(node.input) > 1 else "", 1)
    if control is None or limit is None or not going:
        return False
    if not _are_tensors(evaluator, [name for name in node.input[2:] if name]):
        return False
    tables = control.tables(evaluator.proto, limit)
    if tables is None or tables.steps < 2:
        return False
    b = Builder(evaluator, node)
    body = b.loop(tables.steps)
    names: dict[str, str] = {}
    for name, table in tables.values.items():
        if all(np.array_equal(table[0], row) for row in table[1:]):
            names[name] = body.builder.constant(table[0])
        else:
            names[name] = body.scanned(b.constant(table))
    pairs = zip(graph.input[2:], node.input[2:], strict=True)
    carried = {formal.name: body.state(first) for formal, first in pairs if formal.name not in control.states}
    inner = _read_besides(evaluator, body, graph, scope) | names | carried
    for one in control.nodes_of_data:
        part = _gathered(evaluator, body, one, scope, tables)
        if part is not None:
            inner[one.output[0]] = part
    rest = onnx.GraphProto()
    rest.CopyFrom(graph)
    del rest.node[:], rest.input[:], rest.output[:]
    rest.node.extend(one for one in control.nodes_of_data if one.output[0] not in inner)
    rest.output.extend(graph.output)
    results = _run(body, rest, [], inner)
    if results is None:
        return False
    count = len(node.input) - 2
    following = {n: results[1 + n] for n in range(count)}
    states = [n for n in range(count) if graph.input[2 + n].name in carried]
    if not _keeps_its_states(evaluator, body, [node.input[2 + n] for n in states], [following[n] for n in states]):
        return False
    last, wholes = body.close([following[n] for n in states], [(name, False) for name in results[1 + count :]])
    ends = dict(zip(states, last, strict=True))
    finals = [ends[n] if n in ends else b.constant(tables.last[graph.input[2 + n].name]) for n in range(count)]
    alias(evaluator, finals + wholes, node.output)
    return True


def _gathered(
    evaluator: Evaluator, body: LoopWriter, node: onnx.NodeProto, scope: Scope, tables: LoopTables
) -> str | None:
    """The slice that a Gather of a tensor from around the loop takes, at a known place in each iteration; else None.

    Places that move by one are slices of the tensor itself; of others, the elements are gathered before the loop.
    """
    if node.op_type != "Gather" or node.domain or node.input[1] not in tables.values:
        return None
    source = scope.get(node.input[0], node.input[0])
    shape = static_shape(source, evaluator.types)
    places = tables.values[node.input[1]]
    if not shape or source in evaluator.narrow or places[0].size != 1:
        return None
    axis = next((int(a.i) for a in node.attribute if a.name == "axis"), 0) % len(shape)
    flat = places.reshape(-1).astype(np.int64)
    flat = np.where(flat < 0, flat + shape[axis], flat)
    if flat.min() < 0 or flat.max() >= shape[axis]:
        return None
    b = Builder(evaluator, node)
    moves = np.unique(np.diff(flat)).tolist()
    backwards = moves == [-1]
    if moves in ([1], [-1]):
        whole = len(flat) == shape[axis]
        part = source if whole else b.part(source, int(flat.min()), int(flat.max()) + 1, axis)
    elif source not in evaluator.constants:
        part = b.op("Gather", source, b.constant(flat), axis=axis)
    else:  # the table would be larger than the constant
        return None
    first = b.moved(part, axis, *(other for other in range(len(shape)) if other != axis))
    found = body.scanned(first, backwards=backwards)
    own = [*shape[:axis], *places.shape[1:], *shape[axis + 1 :]]
    return found if own == [*shape[:axis], *shape[axis + 1 :]] else body.builder.reshape(found, *own)


def _are_tensors(evaluator: Evaluator, names: Sequence[str]) -> bool:
    """Whether the shapes of values are known, and each is one tensor of a type that C has."""
    return all(
        static_shape(name, evaluator.types) is not None
        and name not in evaluator.narrow
        and name not in evaluator.sequences
        for name in names
    )


def _read_besides(evaluator: Evaluator, body: LoopWriter, graph: onnx.GraphProto, scope: Scope) -> dict[str, str]:
    """The names in the body of what it reads from around it."""
    found = {}
    for name in reads_of_body(graph):
        actual = scope.get(name, name)
        if actual in evaluator.constants or _are_tensors(evaluator, [actual]):
            found[name] = body.besides(actual)
    return found


def _run(body: LoopWriter, graph: onnx.GraphProto, actual: list[str], inner: dict[str, Any]) -> list[str] | None:
    """The names of the results of a body; None where it holds something that needs a constant in each iteration."""
    results = run_body(body.inner, graph, actual, inner)
    made = all(name in body.inner.types or name in body.inner.constants for name in results)
    if not made or not body.is_whole() or body.inner.misfits or body.inner.sequences or body.inner.narrow:
        return None
    return results


def _keeps_its_states(evaluator: Evaluator, body: LoopWriter, states: Sequence[str], results: Sequence[str]) -> bool:
    """Whether the states have the same type in each iteration."""
    return all(
        static_shape(first, evaluator.types) == static_shape(after, body.inner.types)
        and evaluator.types[first].tensor_type.elem_type == body.inner.types[after].tensor_type.elem_type
        for first, after in zip(states, results, strict=False)
    )


def _with_first_axis_at(b: Builder, name: str, axis: int) -> str:
    """A tensor whose first axis is moved to be axis `axis`."""
    rank = len(b.shape(name))
    order = list(range(1, rank))
    order.insert(axis % rank, 0)
    return b.moved(name, *order)
