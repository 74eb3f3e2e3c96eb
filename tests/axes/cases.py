"""Cases: a layer, perhaps a Transpose, an operator with axes, perhaps another layer, drawn by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

import onnx

from tests.axes.graphs import Graph, UnfitError
from tests.axes.operators import OPERATORS, Place
from tests.axes.sources import convolution, source

_OPSETS = (11, 13, 17, 18, 21)
_LATER = {"CumProd": 26, "RMSNormalization": 23, "Scatter": 9}
"""Opsets of operators that none of the usual ones has."""
_DRAWS = 200


@dataclass(frozen=True)
class AxisCase:
    """`words` say what follows what."""

    name: str
    operator: str
    words: str
    model: onnx.ModelProto


def case_of(name: str) -> AxisCase:
    """The case `SEED-NUMBER`: the number chooses operator and axis in turns, a random generator all else."""
    number = int(name.partition("-")[2])
    operator = list(OPERATORS)[number % len(OPERATORS)]
    draw = random.Random(name)  # noqa: S311 - no secret
    for _ in range(_DRAWS):
        opset = _LATER.get(operator) or draw.choice(_OPSETS)
        try:
            return _drawn(name, operator, draw, opset)
        except UnfitError:
            continue
    raise AssertionError(f"{name}: {operator} fits none of {_DRAWS} graphs")


def _drawn(name: str, operator: str, draw: random.Random, opset: int) -> AxisCase:
    turn = int(name.partition("-")[2]) // len(OPERATORS)
    graph, x, words = source(draw, opset)
    graph.has(operator, "")  # unfit where this opset lacks it
    results = OPERATORS[operator](Place(graph, x, turn))
    results[0], more = _followed(graph, results[0], turn)
    if any(0 in graph.shape(result) for result in results):
        raise UnfitError("a result is empty")
    return AxisCase(name, operator, f"{words} {operator}{more} (opset {opset})", graph.model(results))


def _followed(graph: Graph, result: str, turn: int) -> tuple[str, str]:
    """Perhaps another layer behind `result`, or another operator with axes, and its name."""
    choice = graph.draw.random()
    if choice < 0.4 or not graph.is_float(result) or min(graph.shape(result), default=0) < 1:
        return result, ""
    if choice < 0.7:
        operator = graph.draw.choice(list(OPERATORS))
        graph.has(operator, "")
        return OPERATORS[operator](Place(graph, result, turn))[0], f" {operator}"
    if choice < 0.8 or len(graph.shape(result)) not in {3, 4, 5}:
        return graph.add("Relu", result), " Relu"
    return convolution(graph, result), " Conv"
