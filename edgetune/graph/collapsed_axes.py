"""Collapsed axes: two adjacent axes that a whole kernel walks as one become one.

The rows of a channels-first image are short, and their length is seldom a multiple of a vector: a softmax over the
channels of 65 x 65 pixels has rows of 65, or 4,225 pixels in one. Rows of terms join alike: the mean of a 28 x 28 image
is that of 784 contiguous elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import mentions
from edgetune.tvm_types import (
    BufferLoad,
    BufferStore,
    Expr,
    IterVar,
    Node,
    PrimFunc,
    SBlock,
    Stmt,
    TvmBuffer,
    Var,
)

_MOST_ROUNDS = 8
"""Axes of a tensor that become one, at most."""


@dataclass(frozen=True)
class _Access:
    """One place where a block names elements of a tensor."""

    buffer: TvmBuffer
    indices: Sequence[Expr]


@dataclass
class _Stage:
    """A block under its loops, its accesses, and which of its axes become one: `pairs` by the variable of the outer."""

    block: SBlock
    accesses: list[_Access]
    pairs: dict[Var, tuple[IterVar, IterVar]] = field(default_factory=dict)


def collapse_axes(function: PrimFunc, fixed: Sequence[int]) -> PrimFunc:
    """`function`, unscheduled, with the innermost axes of its tensors joined where every stage walks them as one.

    Only functions that reduce several terms change: axes of elementwise kernels are joined as loops. Parameters with
    the numbers `fixed` keep their shapes.
    """
    kept = [function.params[number] for number in fixed]
    for _ in range(_MOST_ROUNDS):
        stages = _stages(function)
        if stages is None or not any(_adds_terms(stage.block) for stage in stages):
            return function
        buffers = _joined(stages, kept)
        if not buffers:
            return function
        function = _rebuilt(function, stages, buffers)
    return function


def _adds_terms(block: SBlock) -> bool:
    """Whether a block reduces more than one term."""
    axes = (axis for axis in block.iter_vars if int(axis.iter_type) != int(tirx.IterVar.DataPar))
    return block.init is not None and any(int(axis.dom.extent) > 1 for axis in axes)


def _stages(function: PrimFunc) -> list[_Stage] | None:
    """The stages of a function of plain loop nests; None for any other."""
    root = function.body
    if not isinstance(root, s_tir.SBlockRealize) or root.block.match_buffers:
        return None
    body = root.block.body
    found = [_stage(statement) for statement in (body.seq if isinstance(body, tirx.SeqStmt) else [body])]
    return [one for one in found if one is not None] if all(found) else None


def _stage(statement: Stmt) -> _Stage | None:
    loops: list[Var] = []
    while isinstance(statement, tirx.For):
        if statement.kind != tirx.ForKind.SERIAL or statement.annotations or int(statement.min) != 0:
            return None
        loops.append(statement.loop_var)
        statement = statement.body
    if not isinstance(statement, s_tir.SBlockRealize) or not isinstance(statement.predicate, tirx.IntImm):
        return None
    block = statement.block
    plain = len(loops) == len(statement.iter_values) and all(
        loop.same_as(value) for loop, value in zip(loops, statement.iter_values, strict=True)
    )
    own = block.alloc_buffers or block.match_buffers
    if not plain or own or len(block.writes) != 1 or not int(statement.predicate):
        return None
    if any(int(axis.dom.min) for axis in block.iter_vars):
        return None
    return _Stage(block, _accesses(block))


def _accesses(block: SBlock) -> list[_Access]:
    found: list[_Access] = []

    def store(node: BufferStore) -> None:
        found.append(_Access(node.buffer, node.indices))

    for part in (block.body, block.init):
        if part is not None:
            tvm_ffi.structural_walk(part, (tirx.BufferStore, store))
            tvm_ffi.structural_walk(part, (ir.TensorLoad, lambda one: found.append(_Access(one.source, one.indices))))
    regions = (*block.reads, *block.writes)
    return [*found, *(_Access(region.source, [_place(item) for item in region.region]) for region in regions)]


def _place(item: ir.Range) -> Expr:
    """The index of a region of one element; a region of several is no variable."""
    return item.min if isinstance(item.extent, tirx.IntImm) and int(item.extent) == 1 else item.extent


def _joined(stages: Sequence[_Stage], kept: Sequence[TvmBuffer]) -> list[TvmBuffer]:
    """The tensors whose last two axes become one, and in `stages` the axes that do. Empty if there are none.

    All candidates are assumed to join; what contradicts that is taken out until nothing does.
    """
    buffers: list[TvmBuffer] = []
    for access in (access for stage in stages for access in stage.accesses):
        wide = len(access.buffer.shape) > 1 and all(int(extent) > 1 for extent in access.buffer.shape[-2:])
        if wide and not _among(access.buffer, kept) and not _among(access.buffer, buffers):
            buffers.append(access.buffer)
    while True:
        for stage in stages:
            stage.pairs = _pairs(stage, buffers)
        left = [one for one in buffers if all(_fits(stage, one) for stage in stages)]
        if len(left) == len(buffers):
            return left
        buffers = left


def _among(buffer: TvmBuffer, others: Sequence[TvmBuffer]) -> bool:
    return any(buffer.same_as(other) for other in others)


def _pairs(stage: _Stage, buffers: Sequence[TvmBuffer]) -> dict[Var, tuple[IterVar, IterVar]]:
    """The adjacent axes of a stage that nothing but the last two indices of `buffers` mentions."""
    found: dict[Var, tuple[IterVar, IterVar]] = {}
    for outer, inner in pairwise(stage.block.iter_vars):
        if int(outer.iter_type) == int(inner.iter_type) and _only_together(stage, buffers, outer.var, inner.var):
            found[outer.var] = (outer, inner)
    return {one: pair for one, pair in found.items() if not any(pair[0].same_as(other[1]) for other in found.values())}


def _only_together(stage: _Stage, buffers: Sequence[TvmBuffer], outer: Var, inner: Var) -> bool:
    for access in stage.accesses:
        pair = _among(access.buffer, buffers) and _is_pair(access.indices, outer, inner)
        others = access.indices[:-2] if pair else access.indices
        if any(mentions(index, one) for index in others for one in (outer, inner)):
            return False
    return not any(
        mentions(value, one) for value in _outside_of_accesses(stage.block) for one in (outer, inner)
    ) and any(_is_pair(access.indices, outer, inner) for access in stage.accesses)


def _is_pair(indices: Sequence[Expr], outer: Var, inner: Var) -> bool:
    return len(indices) > 1 and bool(indices[-2].same_as(outer)) and bool(indices[-1].same_as(inner))


def _outside_of_accesses(block: SBlock) -> Iterator[Stmt]:
    """The statements of a block with a constant for each load, and with no index of a store."""

    def constant(load: BufferLoad) -> Expr:
        return tirx.const(0, str(load.source.ty.dtype))

    def valued(store: BufferStore) -> Stmt:
        return tirx.Evaluate(store.value)

    for part in (block.body, block.init):
        if part is not None:
            yield tvm_ffi.structural_map(part, [(ir.TensorLoad, constant), (tirx.BufferStore, valued)])


def _fits(stage: _Stage, buffer: TvmBuffer) -> bool:
    """Whether each access of a stage to `buffer` is a pair of axes that joins, the inner one whole."""
    for access in stage.accesses:
        if access.buffer.same_as(buffer):
            pair = next((p for p in stage.pairs.values() if _is_pair(access.indices, p[0].var, p[1].var)), None)
            if pair is None or int(pair[1].dom.extent) != int(buffer.shape[-1]):
                return False
    return True


def _rebuilt(function: PrimFunc, stages: Sequence[_Stage], buffers: Sequence[TvmBuffer]) -> PrimFunc:
    """`function` with the last two axes of `buffers` as one, and so the axes of its stages."""
    changed = {buffer: _flat(buffer) for buffer in buffers}

    def of(buffer: TvmBuffer) -> TvmBuffer:
        return next((new for old, new in changed.items() if buffer.same_as(old)), buffer)

    root = function.body.block
    statements = [_statement(stage, of) for stage in stages]
    body = statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)
    allocated = [of(one) for one in root.alloc_buffers]
    block = s_tir.SBlock([], [], [], root.name_hint, body, None, allocated, annotations=root.annotations)
    params = [of(one) for one in function.params]
    realize = s_tir.SBlockRealize([], True, block)
    return s_tir.renew_defs(tirx.PrimFunc(params, realize, function.ret_type, function.attrs))


def _flat(buffer: TvmBuffer) -> TvmBuffer:
    extents = [int(extent) for extent in buffer.shape]
    shape = [*extents[:-2], extents[-2] * extents[-1]]
    index_type = str(buffer.shape[0].ty.dtype)
    return tirx.decl_buffer([tirx.IntImm(index_type, extent) for extent in shape], str(buffer.dtype), buffer.name)


def _statement(stage: _Stage, of: Callable[[TvmBuffer], TvmBuffer]) -> Stmt:
    """The loops and the block of a stage whose pairs of axes are one axis each."""
    block = stage.block
    axes: list[IterVar] = []
    for axis in block.iter_vars:
        pair = next((pair for pair in stage.pairs.values() if axis.same_as(pair[0])), None)
        if pair is not None:
            extent = pair[0].dom.extent * pair[1].dom.extent
            axes.append(tirx.IterVar(ir.Range.from_min_extent(axis.dom.min, extent), axis.var, axis.iter_type))
        elif not any(axis.same_as(inner) for _, inner in stage.pairs.values()):
            axes.append(axis)

    def load(node: BufferLoad) -> BufferLoad:
        new = of(node.source)
        return node if new.same_as(node.source) else tirx.BufferLoad(new, node.indices[:-1])

    def store(node: BufferStore) -> BufferStore:
        new = of(node.buffer)
        return node if new.same_as(node.buffer) else tirx.BufferStore(new, node.value, node.indices[:-1])

    def region(node: Node) -> Node:
        new = of(node.source)
        return node if new.same_as(node.source) else tirx.BufferRegion(new, node.region[:-1])

    def part(statement: Stmt | None) -> Stmt | None:
        if statement is None:
            return None
        return tvm_ffi.structural_map(statement, [(ir.TensorLoad, load), (tirx.BufferStore, store)])

    own: Mapping[Var, Var] = {axis.var: tirx.Var(axis.var.name, axis.var.ty) for axis in axes}
    reads, writes = ([region(one) for one in regions] for regions in (block.reads, block.writes))
    joined = s_tir.SBlock(
        axes, reads, writes, block.name_hint, part(block.body), part(block.init), annotations=block.annotations
    )
    statement: Stmt = s_tir.SBlockRealize([own[axis.var] for axis in axes], True, joined)
    for axis in reversed(axes):
        loop = own[axis.var]
        statement = tirx.For(loop, axis.dom.min, axis.dom.extent, tirx.ForKind.SERIAL, statement)
    return statement
