"""Operator `edgetune::ScanLoop`: a loop over time that stays one, as `Scan` of ONNX with all that it reads as inputs.

Its inputs are the first values of the states, the tensors that are scanned along their first axis, and what the body
reads besides. Its outputs are the last values of the states, and the tensors made of the slices of all iterations. The
rest is in two attributes: the graph `body`, and `loop`, a JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

DOMAIN, OPERATOR = "edgetune", "ScanLoop"


@dataclass(frozen=True)
class LoopSignature:
    """What `loop` holds: the fields of `ImportedLoop`, and shape and numpy dtype name of each output."""

    name: str
    steps: int
    state_outputs: tuple[int, ...]
    scanned_backwards: tuple[bool, ...]
    emitted: tuple[tuple[int, bool], ...]
    label: str
    results: tuple[tuple[tuple[int, ...], str], ...]

    def node(self, inputs: Sequence[str], outputs: Sequence[str], body: onnx.GraphProto) -> onnx.NodeProto:
        """The node that does it."""
        return helper.make_node(OPERATOR, inputs, outputs, domain=DOMAIN, body=body, loop=json.dumps(asdict(self)))

    def scan(self, inputs: Sequence[str], outputs: Sequence[str], body: LoopGraph) -> onnx.NodeProto:
        """The same as ONNX's own operator, whose body reads what is around it by name."""
        states, scanned = len(self.state_outputs), len(self.scanned_backwards)
        graph = onnx.GraphProto(name=body.graph.name)
        outer = dict(
            zip((value.name for value in body.graph.input[states + scanned :]), inputs[states + scanned :], strict=True)
        )
        graph.input.extend(body.graph.input[: states + scanned])
        for tensor in body.graph.initializer:
            large = body.large.get(tensor.name)
            graph.initializer.append(tensor if large is None else numpy_helper.from_array(large, tensor.name))
        for node in body.graph.node:
            graph.node.append(node)
            renamed = [outer.get(name, name) for name in node.input]
            del graph.node[-1].input[:]
            graph.node[-1].input.extend(renamed)
        for number in (*self.state_outputs, *(output for output, _ in self.emitted)):
            value = onnx.ValueInfoProto.FromString(body.graph.output[number].SerializeToString())
            if any(other.name == value.name for other in graph.output):  # outputs of a graph have different names
                again = f"{value.name}_{len(graph.output)}"
                graph.node.append(helper.make_node("Identity", [value.name], [again]))
                value.name = again
            graph.output.append(value)
        return helper.make_node(
            "Scan",
            inputs[: states + scanned],
            outputs,
            body=graph,
            num_scan_inputs=scanned,
            scan_input_directions=[int(backwards) for backwards in self.scanned_backwards],
            scan_output_directions=[int(backwards) for _, backwards in self.emitted],
        )

    @classmethod
    def of_json(cls, text: str | bytes) -> LoopSignature:
        """What the attribute `loop` says."""
        told: dict[str, Any] = json.loads(text)
        told["emitted"] = tuple((output, backwards) for output, backwards in told["emitted"])
        told["results"] = tuple((tuple(shape), dtype) for shape, dtype in told["results"])
        for name in ("state_outputs", "scanned_backwards"):
            told[name] = tuple(told[name])
        return cls(**told)


@dataclass(frozen=True)
class LoopGraph:
    """The body of a loop, and the arrays of its large initializers, which are stand-ins."""

    graph: onnx.GraphProto
    large: Mapping[str, np.ndarray]


def is_scan_loop(node: onnx.NodeProto) -> bool:
    """Whether `node` is one of these loops."""
    return (node.domain, node.op_type) == (DOMAIN, OPERATOR)


def scan_loop_of(node: onnx.NodeProto) -> tuple[LoopSignature, onnx.GraphProto]:
    """What a node of this operator does in each iteration, and how it goes on."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return LoopSignature.of_json(attributes["loop"]), attributes["body"]
