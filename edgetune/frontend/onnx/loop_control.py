"""Control of a Loop: what of its body depends on the iteration's number and on constants alone, in every iteration.

Counters, conditions and places are computed here, by ONNX's reference evaluator. What the rest of the body reads of
them is a table with a row for each iteration. A value of many elements is left to the body: its table would take more
memory than what it is computed of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper, numpy_helper

from edgetune.frontend.onnx.nested_graphs import reads_from_outside
from edgetune.frontend.onnx.reference_evaluator import LACKS, reference_evaluator

if TYPE_CHECKING:
    from edgetune.frontend.onnx.inline import Evaluator, Scope

MOST_ITERATIONS = 1 << 16
_MOST_ELEMENTS = 64


@dataclass(frozen=True)
class LoopTables:
    """Values by name, one row for each of `steps`, and the states of the control after the last one."""

    steps: int
    values: Mapping[str, np.ndarray]
    last: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class LoopControl:
    """The control of a body: its `nodes`, and `states`, which are inputs of the body with their first values.

    `nodes_of_data` are the rest of the body, `constants` what the control reads from around the loop.
    """

    graph: onnx.GraphProto
    states: Mapping[str, np.ndarray]
    nodes: tuple[onnx.NodeProto, ...]
    nodes_of_data: tuple[onnx.NodeProto, ...]
    constants: Mapping[str, np.ndarray]

    def tables(self, proto: onnx.ModelProto, limit: int) -> LoopTables | None:
        """The values that the rest of the body reads, in at most `limit` iterations.

        `proto` names the opsets. None where the evaluator lacks an operator, a shape changes from iteration to
        iteration, or there are none, or more than `MOST_ITERATIONS`.
        """
        wanted = {name for one in self.nodes_of_data for name in reads_from_outside(one)}
        wanted |= {output.name for output in self.graph.output}
        made = {name for one in self.nodes for name in one.output if name}
        given = {self.graph.input[0].name, self.graph.input[1].name, *self.states}
        kept = sorted((made | given) & wanted)
        rows: dict[str, list[np.ndarray]] = {name: [] for name in kept}
        pairs = zip(self.graph.input[2:], self.graph.output[1:], strict=False)
        after = {formal.name: output.name for formal, output in pairs if formal.name in self.states}
        run = _Evaluation(self, proto, sorted({*kept, *after.values(), self.graph.output[0].name} & made))
        states, steps, going = dict(self.states), 0, True
        while steps < limit and going:
            known = run.values(steps, states) if steps < MOST_ITERATIONS else None
            if known is None:
                return None
            for name, each in rows.items():
                each.append(known[name])
            going = bool(known[self.graph.output[0].name].reshape(-1)[0])
            states = {name: known[next_name] for name, next_name in after.items()}
            steps += 1
        if not steps or any(len({row.shape for row in each}) > 1 for each in rows.values()):
            return None
        return LoopTables(steps, {name: np.stack(each) for name, each in rows.items()}, states)


class _Evaluation:
    """Evaluates the control of one iteration after another; `outputs` are names that its nodes make."""

    def __init__(self, control: LoopControl, proto: onnx.ModelProto, outputs: Sequence[str]) -> None:
        self._control = control
        self._outputs = outputs
        graph = control.graph
        self._numbers = [graph.input[0].name, graph.input[1].name]
        self._known = {one.name: numpy_helper.to_array(one) for one in graph.initializer} | dict(control.constants)
        read = {name for one in control.nodes for name in reads_from_outside(one)}
        inputs = [*self._numbers, *control.states, *(name for name in self._known if name in read)]
        whole = helper.make_graph(
            control.nodes,
            "control",
            [helper.make_empty_tensor_value_info(name) for name in inputs],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
        )
        model = helper.make_model(whole, opset_imports=proto.opset_import, ir_version=proto.ir_version)
        self._run = reference_evaluator(model).run if outputs else None

    def values(self, iteration: int, states: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """All that is known in an iteration, by name; None where the evaluator lacks an operator."""
        number, holds = self._numbers
        given = {number: np.array(iteration, "int64"), holds: np.array(1, "bool"), **states, **self._known}
        if self._run is None:
            return given
        try:
            with np.errstate(all="ignore"):
                results = self._run(list(self._outputs), given)
        except LACKS:
            return None
        made = dict(zip(self._outputs, map(np.asarray, results), strict=True))
        return given | made if all(one.dtype.kind not in "OUS" for one in made.values()) else None


def control_of(evaluator: Evaluator, node: onnx.NodeProto, graph: onnx.GraphProto, scope: Scope) -> LoopControl | None:
    """The control of the Loop `node`, whose body is `graph`; None where its condition depends on data.

    `scope` translates names around the loop to those of `evaluator`.
    """

    def constant(name: str) -> np.ndarray | None:
        return evaluator.constants.get(scope.get(name, name))

    carried = {
        formal.name: evaluator.constants[first]
        for formal, first in zip(graph.input[2:], node.input[2:], strict=True)
        if first in evaluator.constants
    }
    after = {formal.name: output.name for formal, output in zip(graph.input[2:], graph.output[1:], strict=False)}
    given = {graph.input[0].name, graph.input[1].name, *(one.name for one in graph.initializer)}
    while True:
        nodes = _of_control(graph.node, given | carried.keys(), lambda name: constant(name) is not None)
        known = given | carried.keys() | _made(nodes)
        kept = {n: value for n, value in carried.items() if after[n] in known or constant(after[n]) is not None}
        if kept.keys() == carried.keys():
            break
        carried = kept
    condition = graph.output[0].name
    if condition not in known and constant(condition) is None:
        return None
    read = {name for one in nodes for name in reads_from_outside(one)} | {condition, *(after[n] for n in carried)}
    constants = {n: value for n in sorted(read - known) if (value := constant(n)) is not None}
    whole = LoopControl(graph, carried, tuple(nodes), (), constants)
    needed = _needed_for([condition, *(after[n] for n in carried)], nodes)
    few = _with_few_elements(whole, evaluator.proto, needed)
    if few is None:
        return None
    rest = tuple(one for one in graph.node if not any(one is other for other in few))
    return LoopControl(graph, carried, tuple(few), rest, constants)


def _of_control(
    nodes: Iterable[onnx.NodeProto], given: Iterable[str], is_constant: Callable[[str], bool]
) -> list[onnx.NodeProto]:
    """The nodes that read nothing but what is `given`, constants, and results of one another."""
    known, found = set(given), []
    for one in nodes:
        reads = (name for name in reads_from_outside(one) if name not in known)
        if all(map(is_constant, reads)) and not _is_random(one):
            found.append(one)
            known.update(one.output)
    return found


def _made(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    return {name for one in nodes for name in one.output if name}


def _needed_for(names: Iterable[str], nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    wanted, found = set(names), []
    for one in reversed(nodes):
        if wanted.intersection(one.output):
            found.append(one)
            wanted.update(reads_from_outside(one))
    return found[::-1]


def _with_few_elements(
    control: LoopControl, proto: onnx.ModelProto, needed: Sequence[onnx.NodeProto]
) -> list[onnx.NodeProto] | None:
    """The nodes of `control` that are `needed`, and those of the others that make few elements of such."""
    made = _made(control.nodes)
    first = _Evaluation(control, proto, sorted(made)).values(0, control.states)
    if first is None:
        return None
    kept: list[onnx.NodeProto] = []
    left: set[str] = set()
    for one in control.nodes:
        is_large = any(first[name].size > _MOST_ELEMENTS for name in one.output if name)
        reads_left = left.intersection(reads_from_outside(one))
        if any(one is other for other in needed) or not (is_large or reads_left):
            kept.append(one)
        else:
            left.update(one.output)
    return kept


def _is_random(node: onnx.NodeProto) -> bool:
    return node.op_type.startswith("Random") or node.op_type in {"Bernoulli", "Multinomial"}
