"""Separable windows: a reduction over the rows and columns of a window is one over rows, then one over columns.

The largest of 5 by 5 elements takes 25 comparisons; the largest of 5 rows for each column, then of 5 columns, takes 10:
neighbouring windows share the results of their columns. It holds for every reduction of terms that are made of the
elements at one place alone, as in pooling, box filters, and norms or products of blocks (A. Rosenfeld and A. C. Kak,
Digital Picture Processing, 2nd edition, Academic Press 1982, volume 1, section 6.4.1). Both stages must take at most
`Margins.gain_of_stages` of the steps, as from windows of 4 by 4 elements with stride 1 on. A step that loads every
second element counts as three: with channels first and stride 2, from windows of 3 by 3 on.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.domain import Domain
from edgetune.affine.expressions import mentions, with_places
from edgetune.affine.steps import step_along
from edgetune.graph.program import byte_size
from edgetune.graph.reduction_stage import (
    Axis,
    ReductionStage,
    buffer_of,
    reduction_of,
    reductions_of_results,
    variable,
    with_stages,
)
from edgetune.target.core import WIDEST
from edgetune.target.costs import MARGINS
from edgetune.tvm_types import BufferLoad, Expr, PrimFunc, Stmt, Var

_LINES = "_lines"
_ROWS = 8
"""Rows of the results from which on the memory of one line of the first stage is small beside theirs."""


def separate_windows(function: PrimFunc) -> PrimFunc:
    """`function` with a stage for each axis of a window, where neighbouring windows share enough of it."""
    return with_stages(function, _stages)


def scratch_of_lines(function: PrimFunc) -> int:
    """Bytes of the tensors between the stages of a window, computed row by row; 0 for other functions.

    Where windows move along the last axis, as in channels-first images, they are computed image by image.
    """
    windows = [load.source for total, load in reductions_of_results(function) if _moves_over(total, load)]
    if not windows or not function.params[-1].shape:
        return 0
    buffers = function.body.block.alloc_buffers
    result = [int(extent) for extent in function.params[-1].shape]
    shapes = [[int(extent) for extent in buffer.shape] for buffer in buffers]
    extents = zip(*shapes, result, strict=False)  # a result may have more axes of one element
    common = next((number for number, alike in enumerate(extents) if len(set(alike)) > 1), 0)
    lines = [[int(extent) for extent in buffer.shape] for buffer in windows]
    moved = (number for number, alike in enumerate(zip(*lines, result, strict=False)) if len(set(alike)) > 1)
    rows = min(common + (shapes[-1][-1] == result[-1]), next(moved, len(result)))
    types = [str(buffer.ty.dtype) for buffer in buffers]
    return sum(byte_size(tuple(shape[rows:]), dtype) for shape, dtype in zip(shapes, types, strict=True))


def _moves_over(total: ReductionStage, load: BufferLoad) -> bool:
    """Whether a reduction has windows that move over what it reads: an index is a place of a result and of a term."""
    return any(
        all(any(mentions(index, one) for one, _ in axes) for axes in (total.spatial, total.summed))
        for index in load.indices
    )


def _stages(statement: Stmt) -> list[ReductionStage]:
    whole = reduction_of(statement)
    found = None if whole is None else _separated(whole)
    return [] if found is None else [*found]


def _separated(whole: ReductionStage, level: int = 1) -> list[ReductionStage] | None:
    """The stages of a window, its outermost axis first; None where it stays whole."""
    load, constants = _only_place(whole), (tirx.IntImm, tirx.FloatImm)
    if not isinstance(whole.first, constants) or (whole.combine is tirx.Add and whole.first.value != 0):
        return None  # what a sum begins with is counted once
    if load is None or str(whole.term.ty.dtype) != str(whole.out.ty.dtype):
        return None
    first = next((axis for axis in whole.summed if axis[1] > 1), None)
    others = [axis for axis in whole.summed if first is not None and not axis[0].same_as(first[0])]
    if first is None or prod((extent for _, extent in others), start=1) == 1:
        return None
    lines = _lines(whole, load, first)
    if lines is None:
        return None
    kept, at, within, lead = lines
    spread = _spread(whole, load)
    every = whole.elements * whole.terms * spread
    steps = prod(extent for _, extent in kept) * first[1] + every // first[1]
    rows = next(extent for one, extent in kept if one.same_as(lead))
    if rows < _ROWS or every < MARGINS.terms_of_stages * spread or steps > MARGINS.gain_of_stages * every:
        return None
    title = _LINES if level == 1 else f"{_LINES}{level}"
    buffer = buffer_of(f"{whole.out.name}{title}", kept, str(whole.out.ty.dtype))
    term = tvm_ffi.structural_map(whole.term, (ir.TensorLoad, lambda one: tirx.BufferLoad(one.source, at)))
    own = tuple(one for one, _ in kept)
    part = replace(whole, name=f"{whole.name}{title}", out=buffer, at=own, spatial=kept, summed=(first,), term=term)
    rest = replace(whole, summed=tuple(others), term=tirx.BufferLoad(buffer, within))
    return [part, *(_separated(rest, level + 1) or [rest])]


def _only_place(whole: ReductionStage) -> BufferLoad | None:
    """A load of a term that depends on the elements at one place of tensors of one shape alone; None for another term.

    A condition depends on the place itself.
    """
    loads = whole.loads()
    if not loads:
        return None
    shape, indices = [int(extent) for extent in loads[0].source.ty.shape], list(loads[0].indices)
    alike = all(
        [int(extent) for extent in one.source.ty.shape] == shape
        and tvm_ffi.structural_equal(list(one.indices), indices)
        for one in loads
    )
    rest = tvm_ffi.structural_map(whole.term, (ir.TensorLoad, lambda one: tirx.const(0, str(one.source.ty.dtype))))
    placed = any(mentions(rest, axis) for axis, _ in (*whole.spatial, *whole.summed))
    return loads[0] if alike and not placed else None


def _spread(whole: ReductionStage, load: BufferLoad) -> float:
    """What a step costs whose lanes run along the last axis; lines take lanes side by side wherever windows begin."""
    if not whole.spatial:
        return 1
    index, last = load.indices[-1], whole.spatial[-1][0]
    return WIDEST.costs.every_second if (step_along(index, last) or 0) > 1 else 1


def _lines(
    whole: ReductionStage, load: BufferLoad, first: Axis
) -> tuple[tuple[Axis, ...], tuple[Expr, ...], tuple[Expr, ...], Var] | None:
    """The axes of the results of the first stage, where it and the second one read, and the first axis.

    None unless each index of the load has one axis of the results at most, `first` is in one index, and each of the
    other axes too.
    """
    kept: list[Axis] = []
    at: list[Expr] = []
    within: list[Expr] = []
    seen: list[Axis] = []
    lead: Var | None = None
    for index, size in zip(load.indices, load.source.ty.shape, strict=True):
        spatial = [axis for axis in whole.spatial if mentions(index, axis[0])]
        summed = [axis for axis in whole.summed if mentions(index, axis[0])]
        if len(spatial) > 1 or any(one[0].same_as(other[0]) for one in (*spatial, *summed) for other in seen):
            return None
        seen += [*spatial, *summed]
        if any(axis[0].same_as(first[0]) for axis in summed):
            if len(summed) > 1 or not spatial:
                return None
            lead = own = variable(str(spatial[0][0].name), whole.index_type)
            kept.append((own, spatial[0][1]))
            at.append(with_places(index, {spatial[0][0]: own}))
            within.append(spatial[0][0])
            continue
        bounds = _bounds(index, [*spatial, *summed])
        if bounds is None:
            return None
        least, extent = bounds
        if least + extent > int(size):
            return None  # the bound is not tight: lines would be read past the tensor
        own = variable(str(spatial[0][0].name) if spatial else "line", whole.index_type)
        kept.append((own, extent))
        at.append(own + least)
        within.append(index - least)
    alone = all(any(axis[0].same_as(one[0]) for one in seen) for axis in (*whole.spatial, *whole.summed) if axis[1] > 1)
    return None if lead is None or not alone else (tuple(kept), tuple(at), tuple(within), lead)


def _bounds(index: Expr, axes: list[Axis]) -> tuple[int, int] | None:
    """The least value of an index and the number of values up to the largest one, if each step of it is known."""
    least, most = Domain.of(axes).bounds(index)
    return None if most - least >= 1 << 24 or least < 0 else (least, most - least + 1)
