"""Strided parameters: functions whose parameters have gaps, because kernels access a part of a larger tensor."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import tvm_ffi
from tvm import ir, tirx

from edgetune.graph.program import Rows


def shape_with_gaps(shape: tuple[int, ...], outer: int, pitch: int) -> tuple[int, ...] | None:
    """`shape`, which is `outer` rows, with rows of `pitch` elements; None if no axis can grow to give that pitch.

    The first axis of a row grows. All axes after it keep their extent, so all indices stay valid.
    """
    for axis in reversed(range(len(shape))):
        if prod(shape[:axis]) == outer:
            behind = prod(shape[axis + 1 :])
            return None if pitch % behind else (*shape[:axis], pitch // behind, *shape[axis + 1 :])
    return None


def with_gaps(function: tirx.PrimFunc, shapes: Mapping[int, tuple[int, ...]]) -> tirx.PrimFunc:
    """`function` with larger shapes for some parameters (by number); it touches the same indices as before."""
    wide: dict[ir.Var, ir.Var] = {}
    for number, shape in shapes.items():
        old = function.params[number]
        extents = [tirx.IntImm(str(old.shape[0].ty.dtype), extent) for extent in shape]
        wide[old] = tirx.decl_buffer(extents, str(old.dtype), old.name)
    return tvm_ffi.structural_map(function, (ir.Var, lambda variable: wide.get(variable, variable)))


def rows_of(shape: tuple[int, ...], outer: int, pitch: int) -> Rows:
    """The elements that such a function touches of a parameter that had `shape` before."""
    return Rows(prod(shape) // outer, pitch)
