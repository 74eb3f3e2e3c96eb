"""Rows of terms: wide rows of short ones.

The sums of 7 columns are those of 8 rows at a time: 56 sums side by side fill whole vectors and hide the latency of
additions, and the 8 sums of each column are added at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, prod

from tvm import tirx

from edgetune.affine.expressions import mentions, with_places
from edgetune.graph.element_type import type_of
from edgetune.graph.reduction_stage import Axis, ReductionStage, buffer_of, variable
from edgetune.target.core import WIDEST
from edgetune.tvm_types import BufferLoad, Var

_WIDE = 64
"""Most elements of a row that is made of several: so many sums stay in registers."""


def in_wide_rows(total: ReductionStage) -> list[ReductionStage]:
    """The sums of wide rows, and the sums and additions that make `total` of them, in order; empty without wide rows.

    A row is what lies behind the index of a long axis of terms in all tensors that move along either: the results, or
    terms of the same result.
    """
    found = row_of(total)
    if found is None:
        return []
    (deep, depth), row = found
    width = prod(extent for _, extent in row)
    rows = max(range(1, max(1, _WIDE // width) + 1), key=lambda count: (gcd(count * width, WIDEST.lanes), count))
    if depth < rows * WIDEST.lanes or (rows == 1 and len(row) == 1):
        return []
    lane, many = variable("f", total.index_type), variable("rows", total.index_type)
    wide_row = ((lane, rows * width),)
    places = {one: tirx.IntImm(total.index_type, 0) for one, extent in total.spatial if extent == 1}
    places[deep] = many * rows + lane // width
    for number, (one, extent) in enumerate(row):
        places[one] = lane // prod(size for _, size in row[number + 1 :]) % extent
    outer = tuple(axis for axis in total.summed if not any(axis[0].same_as(one) for one, _ in row))
    summed = tuple((many, depth // rows) if axis[0].same_as(deep) else axis for axis in outer)
    buffer = buffer_of(f"{total.out.name}_wide", wide_row, type_of(total.out))
    wide = ReductionStage(f"{total.name}_wide", buffer, (lane,), wide_row, summed, with_places(total.term, places))
    again = variable("row", total.index_type)
    at = again * width
    for number, (one, _) in enumerate(row):
        at = at + one * prod(size for _, size in row[number + 1 :])
    inside = tuple(axis for axis in row if any(axis[0].same_as(one) for one, _ in total.summed))
    whole = replace(total, summed=((again, rows), *inside), term=tirx.BufferLoad(buffer, [at]))
    return [wide, *with_rest(total, whole, deep, depth // rows * rows, depth % rows)]


def with_rest(total: ReductionStage, whole: ReductionStage, axis: Var, first: int, count: int) -> list[ReductionStage]:
    """The stages that compute `total` of `whole`, which lacks the last `count` places of `axis` from `first` on."""
    if not count:
        return [whole]
    own = variable("rest", total.index_type)
    summed = tuple((own, count) if one.same_as(axis) else (one, extent) for one, extent in total.summed)
    term = with_places(total.term, {axis: own + first})
    dtype = type_of(total.out)
    buffers = [buffer_of(f"{total.out.name}_{word}", total.spatial, dtype) for word in ("whole", "rest")]
    at = tuple(one for one, _ in total.spatial)
    rest = ReductionStage(f"{total.name}_rest", buffers[1], at, total.spatial, summed, term)
    named = replace(whole, name=f"{total.name}_whole", out=buffers[0], at=at)
    joined = tirx.BufferLoad(buffers[0], at) + tirx.BufferLoad(buffers[1], at)
    return [named, rest, replace(total, summed=(), term=joined)]


def row_of(total: ReductionStage) -> tuple[Axis, tuple[Axis, ...]] | None:
    """The long axis of terms, and the axes behind it, which are the row; None where tensors have no such rows."""
    axes = [*total.spatial, *total.summed]
    loads = [load for load in total.loads() if any(mentions(index, one) for index in load.indices for one, _ in axes)]
    found = [_behind(load, total) for load in loads]
    first = found[0] if found else None
    if first is None:
        return None
    alike = all(other is not None and _same([other[0], *other[1]], [first[0], *first[1]]) for other in found)
    moving = [one for one, extent in total.spatial if extent > 1]
    covered = all(any(one.same_as(other) for other, _ in first[1]) for one in moving)
    return first if alike and covered else None


def _behind(load: BufferLoad, total: ReductionStage) -> tuple[Axis, tuple[Axis, ...]] | None:
    """The long axis of terms that is an index of `load`, and the whole axes that are the indices behind it."""
    row: list[Axis] = []
    for index, extent in reversed([*zip(load.indices, load.source.ty.shape, strict=True)]):
        axis = next((axis for axis in (*total.spatial, *total.summed) if index.same_as(axis[0])), None)
        if axis is None and not row and int(extent) == 1:
            continue
        if axis is None:
            return None
        summed = any(axis[0].same_as(one) for one, _ in total.summed)
        if summed and axis[1] >= _WIDE and row:
            others = [other for other in load.indices if not other.same_as(index)]
            return None if any(mentions(other, axis[0]) for other in others) else (axis, tuple(row))
        if axis[1] != int(extent) or any(axis[0].same_as(one) for one, _ in row):
            return None  # part of an axis, or a diagonal
        row.insert(0, axis)
    return None


def _same(some: Sequence[Axis], others: Sequence[Axis]) -> bool:
    return len(some) == len(others) and all(a.same_as(b) for (a, _), (b, _) in zip(some, others, strict=True))
