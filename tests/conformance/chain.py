"""What a chain of operators is, and how it is written down.

Nodes are in ONNX's own text. `data` and `constants` are arrays, or `type[extents]` for values drawn at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from edgetune.frontend.onnx.reference import Evaluator

Values = Mapping[str, "str | np.ndarray"]


@dataclass(frozen=True)
class Chain:
    """Two nodes or more, one fed by the other. `data` enters at run time; the values not consumed are the outputs."""

    name: str
    nodes: tuple[str, ...]
    data: Values
    constants: Values = field(default_factory=dict)
    opset: int = 21
    by: Evaluator = "onnx.reference"

    @property
    def key(self) -> str:
        """The name as tests and workers use it."""
        return "chain_" + "".join(c if c.isalnum() else "_" for c in self.name)


def ints(*values: int) -> np.ndarray:
    """A vector of int64."""
    return np.array(values, "int64")


def floats(*values: float) -> np.ndarray:
    """A vector of float32; a scalar where there is one value."""
    return np.array(values[0] if len(values) == 1 else values, "float32")


def twice(
    name: str,
    call: str,
    data: str | np.ndarray,
    opset: int = 21,
    by: Evaluator = "onnx.reference",
    **constants: str | np.ndarray,
) -> Chain:
    """`call` twice, X standing for what it is fed."""
    nodes = (f"t = {call.replace('X', 'x')}", f"y = {call.replace('X', 't')}")
    return Chain(name, nodes, {"x": data}, constants, opset, by)
