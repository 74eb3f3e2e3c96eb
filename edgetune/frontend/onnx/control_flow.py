"""Control-flow unrolling: replaces If, Loop and Scan with constant control by straight-line nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper

from edgetune.frontend.onnx.node_values import static_shape

if TYPE_CHECKING:
    from edgetune.frontend.onnx.inline import Evaluator

_MOST_ITERATIONS = 256


def unrolled_if(evaluator: Evaluator, node: onnx.NodeProto, scope: dict[str, str]) -> bool:
    """Replaces `node` by the branch taken or, for an unknown condition, by both and a selection of their results.

    Of equal branches, one is enough. A branch with a node that cannot have inputs of these shapes ends every run that
    takes it: the other one is taken. Of sequences, each element is selected. False where the condition is not constant
    and the shapes of the results differ, or the lengths of sequences.
    """
    condition = evaluator.constants.get(node.input[0])
    branches = _attributes(node)
    if condition is None and branches["then_branch"] != branches["else_branch"]:
        return _chosen(evaluator, node, scope)
    branch = branches["then_branch" if condition is None or bool(condition.reshape(-1)[0]) else "else_branch"]
    alias(evaluator, run_body(evaluator, branch, [], scope), node.output)
    return True


def _chosen(evaluator: Evaluator, node: onnx.NodeProto, scope: dict[str, str]) -> bool:
    attributes = _attributes(node)
    before, misfits = len(evaluator.nodes), len(evaluator.misfits)
    results: list[list[str]] = []
    unfit: list[list[tuple[str, str]]] = []
    for branch in ("then_branch", "else_branch"):
        start = len(evaluator.nodes)
        results.append(run_body(evaluator, attributes[branch], [], scope))
        unfit.append(evaluator.misfits[misfits:])
        del evaluator.misfits[misfits:]
        if unfit[-1]:
            del evaluator.nodes[start:]
    (taken, other), wrong = results, [bool(one) for one in unfit]
    if wrong[0] != wrong[1]:
        evaluator.settled[node.output[0]] = (wrong[1], unfit[wrong[1]][0][1])
        alias(evaluator, results[wrong[0]], node.output)
        return True
    evaluator.misfits.extend(unfit[0])
    parts = [[evaluator.sequences.get(name, [name]) for name in names] for names in (taken, other)]
    shapes = [[[static_shape(n, evaluator.types) for n in names] for names in side] for side in parts]
    if any(None in names for names in shapes[0]) or shapes[0] != shapes[1]:
        del evaluator.nodes[before:]
        return False
    for one, two, output, name in zip(*parts, node.output, taken, strict=True):
        listed = name in evaluator.sequences
        made = [f"{evaluator.prefix()}chosen" for _ in one] if listed else [output]
        for first, second, result in zip(one, two, made, strict=True):
            evaluator.emit("Where", [node.input[0], first, second], [result])
        if listed:
            evaluator.sequences[output], evaluator.types[output] = made, evaluator.types[name]
    return True


def unrolled_loop(evaluator: Evaluator, node: onnx.NodeProto, scope: dict[str, str]) -> bool:
    """Repeats the body; False where the trip count or the condition is not constant."""
    body = _attributes(node)["body"]
    trips, condition = [*node.input, ""][:2]
    limit = scalar(evaluator, trips, _MOST_ITERATIONS + 1)
    going = scalar(evaluator, condition, 1)
    if limit is None or going is None:
        return False
    if not condition:  # an omitted condition is true, also for the body
        condition = evaluator.prefix() + "condition"
        evaluator.set_constant(condition, np.array(1, "bool"))
    carried = list(node.input[2:])
    scanned: list[list[str]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    before = len(evaluator.nodes)
    for iteration in range(max(min(limit, _MOST_ITERATIONS + 1), 0)):
        if not going:
            break
        counter = evaluator.prefix() + "iteration"
        evaluator.set_constant(counter, np.array(iteration, "int64"))
        results = run_body(evaluator, body, [counter, condition, *carried], scope)
        condition, carried = results[0], results[1 : 1 + len(carried)]
        going = scalar(evaluator, condition, 1)
        for values, value in zip(scanned, results[1 + len(carried) :], strict=True):
            values.append(value)
        if going is None or iteration == _MOST_ITERATIONS:
            del evaluator.nodes[before:]
            return False
    if any(not values for values in scanned):
        return False
    stacked = [_stack(evaluator, values, 0) for values in scanned]
    alias(evaluator, carried + stacked, node.output)
    return True


def unrolled_scan(evaluator: Evaluator, node: onnx.NodeProto, scope: dict[str, str]) -> bool:
    """Repeats the body over slices of the scanned inputs; False where their length is not known."""
    attributes = _attributes(node)
    body, count = attributes["body"], attributes["num_scan_inputs"]
    inputs = [i for i in node.input if i]
    states, sequences = inputs[:-count], inputs[len(inputs) - count :]
    if len(body.input) != len(inputs) or evaluator.opsets.get("", 1) < 9:
        return False
    shapes = [static_shape(s, evaluator.types) for s in sequences]
    if any(s is None for s in shapes):
        return False
    given = attributes.get("scan_input_axes", [0] * count)
    axes = [axis % max(len(shape or ()), 1) for axis, shape in zip(given, shapes, strict=True)]
    length = shapes[0][axes[0]] if shapes[0] else 0
    if not 0 < length <= _MOST_ITERATIONS:
        return False
    outputs = len(body.output) - len(states)
    scanned: list[list[str]] = [[] for _ in range(outputs)]
    backwards = attributes.get("scan_input_directions", [0] * count)
    for iteration in range(length):
        slices = [
            _slice(evaluator, s, axis, length - 1 - iteration if back else iteration)
            for s, axis, back in zip(sequences, axes, backwards, strict=True)
        ]
        results = run_body(evaluator, body, [*states, *slices], scope)
        states = results[: len(states)]
        for values, value in zip(scanned, results[len(states) :], strict=True):
            values.append(value)
    reverse = attributes.get("scan_output_directions", [0] * outputs)
    output_axes = attributes.get("scan_output_axes", [0] * outputs)
    stacked = [
        _stack(evaluator, values[::-1] if back else values, axis)
        for values, back, axis in zip(scanned, reverse, output_axes, strict=True)
    ]
    alias(evaluator, states + stacked, node.output)
    return True


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def scalar(evaluator: Evaluator, name: str, default: int) -> int | None:
    """The number that a value is, `default` where it is left out, None where it is not constant."""
    if not name:
        return default
    value = evaluator.constants.get(name)
    return None if value is None else int(value.reshape(-1)[0])


def run_body(evaluator: Evaluator, body: onnx.GraphProto, actual: list[str], scope: dict[str, str]) -> list[str]:
    """Evaluates a body whose inputs are `actual`; returns the names of its results. `scope` has what is around it."""
    inner = dict(scope)
    prefix = evaluator.prefix()
    own = {o for n in body.node for o in n.output} | {i.name for i in body.initializer}
    for name in own:
        inner.pop(name, None)
    for formal, name in zip(body.input, actual, strict=True):
        inner[formal.name] = name
    for initializer in body.initializer:
        inner[initializer.name] = prefix + initializer.name
        evaluator.set_constant(prefix + initializer.name, onnx.numpy_helper.to_array(initializer))
    evaluator.run(body.node, inner, prefix)
    return [inner.get(o.name, o.name) for o in body.output]


def alias(evaluator: Evaluator, names: Sequence[str], outputs: Sequence[str]) -> None:
    """Makes `outputs` other names of values; those without a name are not used."""
    for name, output in zip(names, outputs, strict=False):
        if output:
            evaluator.emit("Identity", [name], [output])


def _constant(evaluator: Evaluator, value: list[int]) -> str:
    name = evaluator.prefix() + "constant"
    evaluator.set_constant(name, np.array(value, "int64"))
    return name


def _slice(evaluator: Evaluator, source: str, axis: int, index: int) -> str:
    single, name = evaluator.prefix() + "part", evaluator.prefix() + "slice"
    rest = [e for i, e in enumerate(static_shape(source, evaluator.types) or ()) if i != axis]
    bounds = [_constant(evaluator, [v]) for v in (index, index + 1, axis)]
    if evaluator.opsets.get("", 1) >= 10:
        evaluator.emit("Slice", [source, *bounds], [single])
    else:
        evaluator.emit("Slice", [source], [single], starts=[index], ends=[index + 1], axes=[axis])
    evaluator.emit("Reshape", [single, _constant(evaluator, rest)], [name])
    return name


def _stack(evaluator: Evaluator, values: list[str], axis: int) -> str:
    single = []
    for value in values:
        name = evaluator.prefix() + "row"
        if evaluator.opsets.get("", 1) >= 13:
            evaluator.emit("Unsqueeze", [value, _constant(evaluator, [axis])], [name])
        else:
            evaluator.emit("Unsqueeze", [value], [name], axes=[axis])
        single.append(name)
    name = evaluator.prefix() + "stacked"
    evaluator.emit("Concat", single, [name], axis=axis)
    return name
