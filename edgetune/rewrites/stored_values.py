"""Stored values: a part of what a stage computes, as a stage of its own that is computed once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.access import Access
from edgetune.affine.expressions import expressions, is_among, mentions, with_places
from edgetune.graph.reduction_stage import Axis, ReductionStage, variable, with_fields
from edgetune.schedule.sketches.block_analysis import COMPUTED_ONCE, extent_of
from edgetune.target.core import WIDEST
from edgetune.target.costs import MARGINS
from edgetune.tvm_types import BufferLoad, Expr, IterVar, PrimFunc, SBlock, Stmt, TvmBuffer


@dataclass(frozen=True)
class StoredValue:
    """A value over `axes`, which are those of its stage, and the stage that stores it."""

    axes: tuple[IterVar, ...]
    stage: ReductionStage

    def load(self) -> BufferLoad:
        """The value at the places of its axes."""
        return self.read(self.stage.out)

    def computes_same(self, other: StoredValue) -> bool:
        """Whether another value has the same extents and the same term."""
        ours, theirs = self.stage, other.stage
        if [extent for _, extent in ours.spatial] != [extent for _, extent in theirs.spatial]:
            return False
        renamed = {a: b for (a, _), (b, _) in zip(ours.spatial, theirs.spatial, strict=True)}
        return bool(tvm_ffi.structural_equal(with_places(ours.term, renamed), theirs.term))

    def read(self, buffer: TvmBuffer) -> BufferLoad:
        """The value at the places of its axes, from the `buffer` of an equal one."""
        return tirx.BufferLoad(buffer, [axis.var for axis in self.axes])


def with_statements(function: PrimFunc, statements: Sequence[Stmt], stored: Sequence[StoredValue]) -> PrimFunc:
    """`function` with other statements, some of which write stored values."""
    block = function.body.block
    buffers = [*block.alloc_buffers, *(one.stage.out for one in stored)]
    body = tirx.SeqStmt(list(statements)) if len(statements) > 1 else statements[0]
    made = s_tir.SBlock([], [], [], block.name_hint, body, None, buffers, annotations=block.annotations)
    realize = s_tir.SBlockRealize([], True, made)
    return s_tir.renew_defs(tirx.PrimFunc(function.params, realize, function.ret_type, function.attrs))


def statements_in(function: PrimFunc) -> list[Stmt]:
    """The statements of an unscheduled function; none of any other."""
    root = function.body
    if not isinstance(root, s_tir.SBlockRealize) or root.block.match_buffers:
        return []
    return list(root.block.body.seq) if isinstance(root.block.body, tirx.SeqStmt) else [root.block.body]


def stored_value(value: Expr, block: SBlock, name: str) -> StoredValue:
    """A value of a block over the axes that it depends on.

    Where rows of the block are shorter than a vector, a value for each group of neighbours is one for each neighbour.
    The axis along which loads are contiguous comes last: stored across it, rows would be written element by element.
    """
    own = _with_rows_last(value, axes_of(value, block))
    last = block.iter_vars[-1]
    uses = prod(extent_of(axis) for axis in block.iter_vars if not is_one_of(axis, own))
    short = 0 < extent_of(last) < WIDEST.lanes
    if short and not is_one_of(last, own) and uses >= MARGINS.uses_of_stored * extent_of(last):
        own = [*own, last]
    return stored_over(value, own, name)


def _with_rows_last(value: Expr, own: list[IterVar]) -> list[IterVar]:
    """The axes in their order, except that the axis along which all loads step comes last."""
    loads = [node for node in expressions(value) if isinstance(node, ir.TensorLoad)]
    rows = [axis for axis in own if extent_of(axis) > 1 and all(Access.of(load).follows(axis.var) for load in loads)]
    if not rows or rows[-1].same_as(own[-1]):
        return own
    return [*(axis for axis in own if not axis.same_as(rows[-1])), rows[-1]]


def stored_over(value: Expr, own: Sequence[IterVar], name: str) -> StoredValue:
    """A value over the axes `own`, which all begin at 0, in this order."""
    axes: list[Axis] = [(variable(str(axis.var.name), str(axis.var.ty.dtype)), extent_of(axis)) for axis in own]
    renamed = {axis.var: one for axis, (one, _) in zip(own, axes, strict=True)}
    shape = [tirx.IntImm(str(one.ty.dtype), extent) for one, extent in axes]
    out = tirx.decl_buffer(shape, str(value.ty.dtype), name)
    at = tuple(one for one, _ in axes)
    return StoredValue(tuple(own), ReductionStage(name, out, at, tuple(axes), (), with_places(value, renamed)))


def axes_of(value: Expr, block: SBlock) -> list[IterVar]:
    """The axes of a block that a value depends on."""
    return [axis for axis in block.iter_vars if mentions(value, axis.var)]


def is_plain(load: BufferLoad, block: SBlock) -> bool:
    """Whether a load is inside its tensor at all places, also where a condition around it does not hold.

    Its indices are axes that count from 0, as those of a stored value do.
    """
    if any(load.source.same_as(write.source) for write in block.writes):
        return False
    axes = [axis for axis in block.iter_vars if isinstance(axis.dom.min, tirx.IntImm) and int(axis.dom.min.value) == 0]
    return all(
        isinstance(index, tirx.IntImm)
        or any(index.same_as(axis.var) and extent_of(axis) <= int(extent) for axis in axes)
        for index, extent in zip(load.indices, load.source.ty.shape, strict=True)
    )


def is_one_of(axis: IterVar, axes: Sequence[IterVar]) -> bool:
    """Whether `axis` is among `axes`."""
    return any(axis.same_as(one) for one in axes)


def unused_name(wanted: str, names: Collection[str]) -> str:
    """`wanted`, with a number if it is among `names`."""
    numbered = (f"{wanted}{number or ''}" for number in count())
    return next(one for one in numbered if one not in names)


def loading(statement: Stmt, changes: Sequence[tuple[Expr, Expr]]) -> Stmt:
    """`statement` with the second value of a pair, computed from what is stored, instead of the first."""

    def value(node: Expr) -> Expr:
        return next((new for old, new in changes if node.same_as(old)), node)

    def rewrite(block: SBlock) -> SBlock:
        kinds = {type(old) for old, _ in changes}
        body = tvm_ffi.structural_map(block.body, [(kind, value) for kind in kinds])
        read: list[TvmBuffer] = []
        tvm_ffi.structural_walk(body, (ir.TensorLoad, lambda load: read.append(load.source)))
        regions = [region for region in block.reads if is_among(region.source, read) and not _is_one(region, changes)]
        loads = [one for _, new in changes for one in expressions(new) if isinstance(one, ir.TensorLoad)]
        known = [region.source for region in regions]
        added = [_region(load) for load in different_loads(loads) if not is_among(load.source, known)]
        return with_fields(block, reads=[*regions, *added], body=body)

    return tvm_ffi.structural_map(statement, (s_tir.SBlock, rewrite))


def different_loads(loads: Iterable[BufferLoad]) -> list[BufferLoad]:
    """The loads without those of an element that an earlier one reads."""
    found: list[BufferLoad] = []
    for load in loads:
        if not any(tvm_ffi.structural_equal(load, one) for one in found):
            found.append(load)
    return found


def _is_one(region: ir.Node, changes: Sequence[tuple[Expr, Expr]]) -> bool:
    """Whether a region is that of a load that is stored, while its tensor is still read elsewhere."""
    loads = [old for old, _ in changes if isinstance(old, ir.TensorLoad) and old.source.same_as(region.source)]
    return any(
        all(item.min.same_as(index) for item, index in zip(region.region, load.indices, strict=True)) for load in loads
    )


def _region(load: BufferLoad) -> ir.Node:
    ranges = [ir.Range.from_min_extent(index, tirx.IntImm(str(index.ty.dtype), 1)) for index in load.indices]
    return tirx.BufferRegion(load.source, ranges)


def kept(statement: Stmt) -> Stmt:
    """A statement whose block no reader repeats."""

    def annotated(block: SBlock) -> SBlock:
        return with_fields(block, annotations={COMPUTED_ONCE: True})

    return tvm_ffi.structural_map(statement, (s_tir.SBlock, annotated))
