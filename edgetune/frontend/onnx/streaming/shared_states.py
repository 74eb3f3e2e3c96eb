"""One state for all layers that keep rows of one value: the longest, whose last rows are the states of the others.

Branches of one value keep rows of it each, such as a convolution, and the connection around it, which waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from edgetune.frontend.onnx.streaming.frames import State


@dataclass(frozen=True)
class KeptRows:
    """Rows that are a state, and the value `joined`: these, and behind them the `count` rows of `source` in a step."""

    state: State
    source: str
    joined: str
    axis: int
    count: int

    @property
    def rows(self) -> int:
        """How many rows the state has."""
        return int(self.state.first.shape[self.axis])

    def holds(self, other: KeptRows) -> bool:
        """Whether the last rows of this state are those of another one, from the reset on."""
        last = self.state.first.take(range(self.rows - other.rows, self.rows), self.axis)
        return self.source == other.source and np.array_equal(last, other.state.first)


def shared(kept: Sequence[KeptRows]) -> list[tuple[KeptRows, KeptRows]]:
    """Which rows are the last ones of which others."""
    found: list[tuple[KeptRows, KeptRows]] = []
    whole: list[KeptRows] = []
    for one in sorted(kept, key=lambda one: -one.rows):
        holder = next((other for other in whole if other.holds(one)), None)
        if holder is None:
            whole.append(one)
        else:
            found.append((one, holder))
    return found


def moved_forward(nodes: Sequence[onnx.NodeProto], output: str) -> list[onnx.NodeProto]:
    """`nodes` in an order in which the one that makes `output` stands right behind those that it reads."""
    node = next(node for node in nodes if output in node.output)
    rest = [other for other in nodes if other is not node]
    read = set(node.input)
    after = max((number + 1 for number, other in enumerate(rest) if read.intersection(other.output)), default=0)
    return [*rest[:after], node, *rest[after:]]
