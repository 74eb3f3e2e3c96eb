"""Functions whose parameters have gaps: rows of a larger tensor, of which a kernel reads or writes a part."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import tvm_ffi
from tvm import ir, tirx

from edgetune.graph.program import Rows


def shape_with_gaps(shape: tuple[int, ...], outer: int, pitch: int) -> tuple[int, ...] | None:
    """`shape`, which is `outer` rows, with rows of `pitch` elements; None where no axis of it can be longer by that.

    The axis that grows is the first of a row: what stands behind it stays as it is, and so do all places.
    """
    for axis in reversed(range(len(shape))):
        if prod(shape[:axis]) == outer:
            behind = prod(shape[axis + 1 :])
            return None if pitch % behind else (*shape[:axis], pitch // behind, *shape[axis + 1 :])
    return None


def with_gaps(function: tirx.PrimFunc, shapes: Mapping[int, tuple[int, ...]]) -> tirx.PrimFunc:
    """`function` with parameters (by number) of larger shapes, in which it touches what it touched before."""
    wide: dict[ir.Var, ir.Var] = {}
    for number, shape in shapes.items():
        old = function.params[number]
        extents = [tirx.IntImm(str(old.shape[0].ty.dtype), extent) for extent in shape]
        wide[old] = tirx.decl_buffer(extents, str(old.dtype), old.name)
    return tvm_ffi.structural_map(function, (ir.Var, lambda variable: wide.get(variable, variable)))


def rows_of(shape: tuple[int, ...], outer: int, pitch: int) -> Rows:
    """What such a function touches of a parameter that had `shape` before."""
    return Rows(prod(shape) // outer, pitch)
