"""Brings an ONNX graph to the form that LiteRT models are in: BatchNorm folded, activations inside their operators."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks.side import CannotLoad

_LINEAR = frozenset({"Conv", "Gemm"})
_FUSES = frozenset({"Conv", "Gemm", "Add"})


@dataclass
class Step:
    """One operator: dynamic inputs and constants by the order of ONNX, attributes, activation ("", "relu", "relu6")."""

    kind: str
    inputs: list[str]
    output: str
    attributes: dict[str, Any]
    constants: list[np.ndarray] = field(default_factory=list)
    activation: str = ""


def folded_steps(graph: onnx.GraphProto) -> list[Step]:
    """Operators of `graph` in order; raises CannotLoad where one has several outputs."""
    values = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    uses = Counter(name for node in graph.node for name in node.input) + Counter(o.name for o in graph.output)
    steps: list[Step] = []
    made: dict[str, Step] = {}
    for node in graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Constant":
            values[node.output[0]] = numpy_helper.to_array(attributes["value"])
            continue
        if len(node.output) != 1:
            raise CannotLoad(f"the writer of LiteRT models lacks {node.op_type} with {len(node.output)} outputs")
        dynamic = [name for name in node.input if name and name not in values]
        constants = [values[name] for name in node.input if name in values]
        step = Step(node.op_type, dynamic, node.output[0], attributes, constants)
        before = made.get(dynamic[0]) if dynamic and uses[dynamic[0]] == 1 else None
        if before is not None and _absorb(before, step):
            made[step.output] = before
            before.output = step.output
            continue
        steps.append(step)
        made[step.output] = step
    return steps


def clip_kind(step: Step) -> str:
    """Name of the activation that a Relu or Clip is; empty for another clip, and for other operators."""
    if step.kind == "Relu":
        return "relu"
    if step.kind != "Clip":
        return ""
    limits = [float(value.reshape(())) for value in step.constants]
    return "relu6" if limits == [0.0, 6.0] else ""


def _absorb(before: Step, step: Step) -> bool:
    """Take `step` into the operator before it, if that can be."""
    if before.activation:
        return False
    if step.kind == "BatchNormalization" and before.kind in _LINEAR:
        _fold(before, step)
        return True
    if before.kind in _FUSES and clip_kind(step):
        before.activation = clip_kind(step)
        return True
    return False


def _fold(before: Step, norm: Step) -> None:
    scale, shift, mean, variance = (value.astype(np.float64) for value in norm.constants)
    factor = scale / np.sqrt(variance + norm.attributes.get("epsilon", 1e-5))
    weights = before.constants[0].astype(np.float64)
    bias = before.constants[1].astype(np.float64) if len(before.constants) > 1 else np.zeros_like(factor)
    # Output channels are the first axis of a Conv's and of a transposed Gemm's weights.
    first = before.kind == "Conv" or bool(before.attributes.get("transB", 0))
    shape = (-1, *[1] * (weights.ndim - 1)) if first else (1, -1)
    folded = ((weights * factor.reshape(shape)), (bias - mean) * factor + shift)
    before.constants = [value.astype(np.float32) for value in folded]
