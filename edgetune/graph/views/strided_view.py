"""Strided views: where a tensor lies as rows within a larger one, and functions whose parameters have such gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import tvm_ffi
from tvm import ir, tirx

from edgetune.graph.program import Rows
from edgetune.graph.tvm_types import PrimFunc, TvmBuffer


@dataclass(frozen=True)
class StridedView:
    """A tensor's place in the buffer `whole`: `outer` rows, `pitch` elements apart, the first at element `offset`."""

    whole: int
    offset: int
    outer: int
    pitch: int

    def normalised(self) -> StridedView:
        """The same view; if it is a single row, without the pitch, which has no meaning then."""
        return self if self.outer > 1 else replace(self, pitch=0)

    def inside(self, container: StridedView) -> StridedView:
        """This view of a tensor that itself is a view: the place in the larger buffer."""
        pitch = self.pitch if container.outer == 1 else container.pitch
        return StridedView(container.whole, container.offset + self.offset, self.outer, pitch)


def shape_with_gaps(shape: tuple[int, ...], outer: int, pitch: int) -> tuple[int, ...] | None:
    """`shape`, which is `outer` rows, with rows of `pitch` elements; None if no axis can grow to give that pitch.

    The first axis of a row grows. All axes after it keep their extent, so all indices stay valid.
    """
    for axis in reversed(range(len(shape))):
        if prod(shape[:axis]) == outer:
            inner = prod(shape[axis + 1 :])
            return None if pitch % inner else (*shape[:axis], pitch // inner, *shape[axis + 1 :])
    return None


def with_gaps(function: PrimFunc, shapes: Mapping[int, tuple[int, ...]]) -> PrimFunc:
    """`function` with larger shapes for some parameters (by number); it touches the same indices as before."""
    enlarged: dict[TvmBuffer, TvmBuffer] = {}
    for number, shape in shapes.items():
        old = function.params[number]
        extents = [tirx.IntImm(str(old.shape[0].ty.dtype), extent) for extent in shape]
        enlarged[old] = tirx.decl_buffer(extents, str(old.dtype), old.name)
    return tvm_ffi.structural_map(function, (ir.Var, lambda variable: enlarged.get(variable, variable)))


def rows_of(shape: tuple[int, ...], outer: int, pitch: int) -> Rows:
    """The elements that such a function touches of a parameter that had `shape` before."""
    return Rows(prod(shape) // outer, pitch)
