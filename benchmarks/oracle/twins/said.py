"""Which expressions ONNX can say, the forty that are drawn of them, and their three doors into edgetune.

An expression can be said where at most `MOST_NODES` operators of ONNX compute it from the same inputs. Its graph is the
shortest one known, of those that sum no more terms than the expression. Of the operators of papers, which the corpus
has in two ways, the plain form is said.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import onnx

from benchmarks.oracle.twins.elements import ELEMENTS
from benchmarks.oracle.twins.graph import Build, Graph
from benchmarks.oracle.twins.products import PRODUCTS
from benchmarks.oracle.twins.rows import ROWS
from benchmarks.oracle.twins.windows import WINDOWS
from benchmarks.search.cases import expression_named

SAYABLE: Mapping[str, Build] = {**PRODUCTS, **WINDOWS, **ROWS, **ELEMENTS}
"""The graph of each expression that can be said, by its name."""

MOST_NODES = 12
COUNT, _SEED = 40, 20261129
_DOMAIN = "edgetune.oracle"


def twins() -> tuple[str, ...]:
    """The names of the forty expressions, drawn from all that can be said, in alphabetical order."""
    chosen = random.Random(_SEED).sample(sorted(SAYABLE), COUNT)  # noqa: S311  a draw needs no secret
    return tuple(sorted(chosen))


def onnx_twin(name: str) -> onnx.ModelProto:
    """The expression `name` as operators of ONNX."""
    graph = Graph(expression_named(name))
    return graph.result(SAYABLE[name](graph))


def operator_twin(name: str) -> onnx.ModelProto:
    """The expression `name` as one node of an operator that `register_twin` registers."""
    case = expression_named(name)
    graph = Graph(case)
    weights = [graph.constant(array, key) for key, array in case.values(case.constants).items()]
    return graph.result(graph(operator_type(name), *case.inputs, *weights, domain=_DOMAIN), _DOMAIN)


def operator_type(name: str) -> str:
    """The operator type of the expression `name`."""
    return "Oracle" + "".join(part.capitalize() for part in name.split("_"))
