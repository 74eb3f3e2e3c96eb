"""A sum as a value: the axes of its results and of its terms, and wide rows of short ones.

The sums of 7 columns are those of 8 rows at a time: 56 sums side by side fill whole vectors and hide the latency of
additions, and the 8 sums of each column are added at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.graph.tvm_types import BufferLoad, Expr, Node, Stmt, TvmBuffer, Var

Axis = tuple[Var, int]
"""A variable, which starts at 0, and its extent."""

_WIDE = 64
"""Most elements of a row that is made of several: so many sums stay in registers."""

_VECTOR = 16
"""Lanes of the widest vectors."""

_SPATIAL, _REDUCED = 0, 2  # tirx.IterVar.DataPar, CommReduce


@dataclass(frozen=True)
class SumStage:
    """`out[at]` is the sum of `term` over the axes `summed`, for all places of the axes `spatial`.

    Without axes to sum over it is the term itself.
    """

    name: str
    out: TvmBuffer
    at: tuple[Expr, ...]
    spatial: tuple[Axis, ...]
    summed: tuple[Axis, ...]
    term: Expr

    @property
    def terms(self) -> int:
        """Number of terms of each result."""
        return prod(extent for _, extent in self.summed)

    @property
    def elements(self) -> int:
        """Number of results."""
        return prod(extent for _, extent in self.spatial)

    def loads(self) -> list[BufferLoad]:
        """The different loads of the term."""
        found: dict[str, BufferLoad] = {}

        def add(load: BufferLoad) -> None:
            found.setdefault(f"{load.source.name}{list(load.indices)}", load)

        tvm_ffi.structural_walk(self.term, (ir.TensorLoad, add))
        return list(found.values())

    def statement(self) -> Stmt:
        """The loops of the sum around a block, with variables of their own."""
        axes = [*self.spatial, *self.summed]
        own = [tirx.Var(f"v_{variable.name.removeprefix('v_')}", variable.ty) for variable, _ in axes]
        renamed = dict(zip((variable for variable, _ in axes), own, strict=True))
        term, at = with_places(self.term, renamed), [with_places(index, renamed) for index in self.at]
        reads = [_point(load.source, [with_places(i, renamed) for i in load.indices]) for load in self.loads()]
        init = None
        if self.summed:
            init = tirx.BufferStore(self.out, tirx.const(0.0, "float32"), at)
            term = tirx.BufferLoad(self.out, at) + term
        kinds = [_SPATIAL] * len(self.spatial) + [_REDUCED] * len(self.summed)
        ranges = [ir.Range(0, extent) for _, extent in axes]
        places = [tirx.IterVar(dom, one, kind) for dom, one, kind in zip(ranges, own, kinds, strict=True)]
        body = tirx.BufferStore(self.out, term, at)
        block = s_tir.SBlock(places, reads, [_point(self.out, at)], self.name, body, init)
        loops = [tirx.Var(one.name.removeprefix("v_"), one.ty) for one in own]
        statement: Stmt = s_tir.SBlockRealize(loops, True, block)
        for loop, (_, extent) in reversed([*zip(loops, axes, strict=True)]):
            statement = tirx.For(loop, 0, extent, tirx.ForKind.SERIAL, statement)
        return statement


def with_places(node: Node, places: Mapping[Var, Expr]) -> Node:
    """`node` with expressions instead of variables."""

    def change(one: Var) -> Expr:
        return next((new for old, new in places.items() if one.same_as(old)), one)

    return tvm_ffi.structural_map(node, [(ir.Var, change)])


def variable(name: str) -> Var:
    """A new variable of an axis."""
    return tirx.Var(name, "int32")


def buffer_of(name: str, axes: Sequence[Axis]) -> TvmBuffer:
    """A buffer with an element for each place of some axes."""
    return tirx.decl_buffer([extent for _, extent in axes], "float32", name)


def in_wide_rows(total: SumStage) -> list[SumStage]:
    """The sums of wide rows, and the sums and additions that make `total` of them, in order; empty without wide rows.

    A row is what lies behind the index of a long axis of terms in all tensors that move along either: the results, or
    terms of the same result.
    """
    found = row_of(total)
    if found is None:
        return []
    (deep, depth), row = found
    width = prod(extent for _, extent in row)
    rows = max(range(1, max(1, _WIDE // width) + 1), key=lambda count: (gcd(count * width, _VECTOR), count))
    if depth < rows * _VECTOR or (rows == 1 and len(row) == 1):
        return []
    lane, many = variable("f"), variable("rows")
    wide_row = ((lane, rows * width),)
    places = {deep: many * rows + lane // width}
    for number, (one, extent) in enumerate(row):
        places[one] = lane // prod(size for _, size in row[number + 1 :]) % extent
    outer = tuple(axis for axis in total.summed if not any(axis[0].same_as(one) for one, _ in row))
    summed = tuple((many, depth // rows) if axis[0].same_as(deep) else axis for axis in outer)
    buffer = buffer_of(f"{total.out.name}_wide", wide_row)
    wide = SumStage(f"{total.name}_wide", buffer, (lane,), wide_row, summed, with_places(total.term, places))
    again = variable("row")
    at = again * width
    for number, (one, _) in enumerate(row):
        at = at + one * prod(size for _, size in row[number + 1 :])
    inside = tuple(axis for axis in row if any(axis[0].same_as(one) for one, _ in total.summed))
    whole = replace(total, summed=((again, rows), *inside), term=tirx.BufferLoad(buffer, [at]))
    return [wide, *with_rest(total, whole, deep, depth // rows * rows, depth % rows)]


def with_rest(total: SumStage, whole: SumStage, axis: Var, first: int, count: int) -> list[SumStage]:
    """The stages that compute `total` of `whole`, which lacks the last `count` places of `axis` from `first` on."""
    if not count:
        return [whole]
    own = variable("rest")
    summed = tuple((own, count) if one.same_as(axis) else (one, extent) for one, extent in total.summed)
    term = with_places(total.term, {axis: own + first})
    buffers = [buffer_of(f"{total.out.name}_{word}", total.spatial) for word in ("whole", "rest")]
    at = tuple(one for one, _ in total.spatial)
    rest = SumStage(f"{total.name}_rest", buffers[1], at, total.spatial, summed, term)
    named = replace(whole, name=f"{total.name}_whole", out=buffers[0], at=at)
    joined = tirx.BufferLoad(buffers[0], at) + tirx.BufferLoad(buffers[1], at)
    return [named, rest, replace(total, summed=(), term=joined)]


def row_of(total: SumStage) -> tuple[Axis, tuple[Axis, ...]] | None:
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


def _behind(load: BufferLoad, total: SumStage) -> tuple[Axis, tuple[Axis, ...]] | None:
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


def mentions(node: Node, variable: Var) -> bool:
    """Whether `variable` is in `node`."""
    found: list[bool] = []
    tvm_ffi.structural_walk(node, (ir.Var, lambda one: found.append(bool(one.same_as(variable)))))
    return any(found)


def _point(buffer: TvmBuffer, indices: Sequence[Expr]) -> Node:
    ranges = [ir.Range.from_min_extent(index, tirx.IntImm("int32", 1)) for index in indices]
    return tirx.BufferRegion(buffer, ranges)
