"""Register pressure of a register tile: its accumulators, and the operands that its unrolled body keeps in registers.

Compilers load an operand of an unrolled body once, at its first use, and keep it in a register until its last use:
adjacent positions of a window share inputs, pixels share weights, and vectors of channels share a broadcast input. The
number of live operands is counted over the multiply-adds in source order, as live ranges in register allocators
(Chaitin et al., Register allocation via coloring, Computer Languages 6, 1981).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import ir, tirx

from edgetune.affine.expressions import mentions
from edgetune.schedule.sketches.block_analysis import BlockAnalysis, BlockStage, extent_of
from edgetune.tvm_types import Expr, Var

_OPERATORS = {
    tirx.Add: int.__add__,
    tirx.Sub: int.__sub__,
    tirx.Mul: int.__mul__,
    tirx.FloorDiv: int.__floordiv__,
    tirx.FloorMod: int.__mod__,
}
_VECTORS = 2
"""The column of vectors in a line of `_steps`."""

_TILED = 3
"""Columns of a line of `_steps` before those of the reduction axes."""

Matrix = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Body:
    """An unrolled body: extents of rows, pixels and vectors.

    If `columns` > 0, pixels are fused with rows, and a row has that many. `reduction` is the unrolled extent of each
    reduction axis, in the order of the axes.
    """

    row: int
    pixel: int
    vectors: int
    reduction: tuple[int, ...]
    columns: int = 0

    @property
    def accumulators(self) -> int:
        """Number of accumulator vectors."""
        return self.row * self.pixel * self.vectors


@dataclass(frozen=True)
class Reads:
    """Addresses of a kernel's operands: for each one a matrix of how far axes move its indices (index x axis).

    Axes are the row, the pixel, one vector of channels, and the reduction axes.
    """

    strides: tuple[Matrix, ...]

    def registers(self, body: Body, *, over_pixels: bool = False) -> int:
        """Most vector registers in use at once: all accumulators, and operands from their first use to their last.

        `over_pixels`: a loop over rows or pixels contains only this body, so operands that do not depend on these axes
        (the weights of a window) are loaded before that loop and kept.
        """
        steps = _steps(body)
        starting, ending = np.zeros((2, len(steps) + 1), dtype=np.int64)
        for stride in self.strides:
            if over_pixels and not stride[:, :2].any():
                starting[0] += len(np.unique(steps @ stride.T, axis=0))
                continue
            _, first, place = np.unique(steps @ stride.T, axis=0, return_index=True, return_inverse=True)
            last = np.zeros_like(first)
            np.maximum.at(last, place.reshape(-1), np.arange(len(steps)))
            np.add.at(starting, first, 1)
            np.add.at(ending, last + 1, 1)
        return body.accumulators + int(np.cumsum(starting - ending).max())

    def carried(self, body: Body, extents: Sequence[int]) -> int:
        """Number of operands that the body loads, and the next step of the loop around it loads again from elsewhere.

        Compilers keep those in registers from one step to the next (predictive commoning), whether registers are left
        or not. `extents` are those of the reduction axes; the loop around the body is the last that is not unrolled.
        """
        around = [n for n, extent in enumerate(extents) if body.reduction[n] < extent]
        if not around:
            return 0
        steps = _steps(body)
        later = steps.copy()
        later[:, _TILED + around[-1]] += body.reduction[around[-1]]
        found = 0
        for stride in self.strides:
            if stride[:, _TILED + around[-1]].any():
                now, then = ({tuple(place) for place in some @ stride.T} for some in (steps, later))
                found += len(now & then)
        return found

    def loads(self, body: Body, *, of_lanes: bool = False) -> int:
        """Number of operands that the body loads, each once; `of_lanes`: only those that each vector has of its own."""
        steps = _steps(body)
        counted = [stride for stride in self.strides if not of_lanes or stride[:, _VECTORS].any()]
        return sum(len(np.unique(steps @ stride.T, axis=0)) for stride in counted)


def epilogue_operands(analysis: BlockAnalysis, after: Collection[str], channel: int) -> int:
    """Number of operands of the stages `after` the reduction that only their axis `channel` moves, such as a bias."""
    found = 0
    for stage in (analysis.stage(name) for name in after):
        others = [axis for number, axis in enumerate(stage.spatial) if number != channel and extent_of(axis) > 1]
        for region in stage.reads():
            indices = [item.min for item in region.region]
            moved = any(mentions(index, stage.spatial[channel].var) for index in indices)
            found += moved and not any(mentions(index, axis.var) for index in indices for axis in others)
    return found


def reads_of(anchor: BlockStage, row: int | None, pixel: int | None, channel: int, lanes: int) -> Reads:
    """Addresses of the operands of `anchor`; `row`, `pixel` and `channel` are its tiled spatial axes.

    Channels come in vectors of `lanes`. Indices are assumed to be linear within a tile.
    """
    moves = [(None if axis is None else anchor.spatial[axis], 1) for axis in (row, pixel)]
    moves += [(anchor.spatial[channel], lanes), *((axis, 1) for axis in anchor.reduction)]
    strides = []
    for region in anchor.reads():
        indices = [item.min for item in region.region] or [tirx.IntImm("int32", 0)]  # a scalar is one place
        start = [_value(index, None, 0) for index in indices]
        moved = [
            [_value(index, axis.var, step) for index in indices] if axis is not None else start for axis, step in moves
        ]
        strides.append(np.array(moved, dtype=np.int64).T - np.array(start, dtype=np.int64)[:, None])
    return Reads(tuple(strides))


def _steps(body: Body) -> Matrix:
    """One line per multiply-add in source order: its row, pixel, vector, and index in each reduction axis."""
    extents = (*body.reduction, body.row, body.pixel, body.vectors)
    places = np.stack(np.unravel_index(np.arange(int(np.prod(extents))), extents), axis=1).astype(np.int64)
    inner = places[:, len(body.reduction) :]
    if body.columns:
        inner[:, 0], inner[:, 1] = inner[:, 1] // body.columns, inner[:, 1] % body.columns
    return np.concatenate([inner, places[:, : len(body.reduction)]], axis=1)


def _value(index: Expr, moved: Var, step: int) -> int:
    """The value of an index if the axis `moved` is `step` and all others are 0."""
    if isinstance(index, tirx.IntImm):
        return int(index.value)
    if isinstance(index, ir.Var):
        return step if moved is not None and index.same_as(moved) else 0
    operator = _OPERATORS.get(type(index))
    # Anything except arithmetic on axes (such as an index read from a tensor) counts as a constant place.
    return operator(_value(index.a, moved, step), _value(index.b, moved, step)) if operator else 0
