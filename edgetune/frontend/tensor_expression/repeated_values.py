"""Repeated values: what a stage would compute again in an inner loop becomes a stage of its own.

In `x[a, g, b] - total[g] / n` with a outside, each row divides for each group again. In a sum over k of
`abs(a[i, k]) * b[k, j]`, each column takes the absolute value again. No compiler moves that out of the loops: it would
have to store the values. Those of leading axes alone stay, for they are constant in the inner loops.

Where the last axis of a stage is shorter than a vector, a value for each group of neighbours becomes one for each
neighbour, so that vectors run across groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.frontend.tensor_expression.reordered import among
from edgetune.graph.reduction_stage import Axis, ReductionStage, mentions, variable, with_places
from edgetune.graph.tvm_types import BufferLoad, Expr, IterVar, PrimFunc, SBlock, Stmt, TvmBuffer
from edgetune.schedule.sketches.block_analysis import COMPUTED_ONCE, block_of, expressions, extent_of

_FEWEST_USES = 8
"""Uses of a value from which on it is stored: another stage writes it, and this one reads it."""

_WIDEST = 16
"""Lanes of the widest vectors."""

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Min, tirx.Max)


@dataclass(frozen=True)
class _Stored:
    """A value over `axes`, which are those of its stage, and the stage that stores it."""

    axes: tuple[IterVar, ...]
    stage: ReductionStage


def with_repeated_values(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, with one more stage for each value that another one would compute again and again."""
    root = function.body
    if not isinstance(root, s_tir.SBlockRealize) or root.block.match_buffers:
        return function
    before = list(root.block.body.seq) if isinstance(root.block.body, tirx.SeqStmt) else [root.block.body]
    statements: list[Stmt] = []
    stored: list[_Stored] = []
    names = {str(block_of(statement).name_hint) for statement in before}
    for statement in before:
        changed, found = _without_repetition(statement, stored, names)
        statements += [*(_kept(one.stage.statement()) for one in found), changed]
        stored += found
    if not stored:
        return function
    block = root.block
    buffers = [*block.alloc_buffers, *(one.stage.out for one in stored)]
    body = tirx.SeqStmt(statements)
    made = s_tir.SBlock([], [], [], block.name_hint, body, None, buffers, annotations=block.annotations)
    realize = s_tir.SBlockRealize([], True, made)
    return s_tir.renew_defs(tirx.PrimFunc(function.params, realize, function.ret_type, function.attrs))


def _without_repetition(statement: Stmt, stored: Sequence[_Stored], names: set[str]) -> tuple[Stmt, list[_Stored]]:
    """A statement that loads its repeated values, and those of them that are not among `stored`.

    `names` are those of stages, to which new ones are added.
    """
    block = block_of(statement)
    store = block.body
    if not isinstance(store, tirx.BufferStore) or str(store.buffer.ty.dtype) != "float32":
        return statement, []
    places = list(_repeated(store.value, block))
    made: list[_Stored] = []
    loads: list[tuple[Expr, BufferLoad]] = []
    for place in places:
        one = _stored(place, block, _name(place, names))
        known = next((other for other in (*stored, *made) if _same(one, other)), None)
        if known is None:
            made.append(one)
            names.add(one.stage.name)
        at = [axis.var for axis in one.axes]
        loads.append((place, tirx.BufferLoad((known or one).stage.out, at)))
    return (_loading(statement, loads) if loads else statement), made


def _repeated(value: Expr, block: SBlock) -> Iterator[Expr]:
    """The largest parts of a value that the loops of its stage repeat."""
    if _is_repeated(value, block):
        yield value
        return
    for part in _parts(value):
        yield from _repeated(part, block)


def _parts(value: Expr) -> Sequence[Expr]:
    if isinstance(value, ir.Call):
        return [] if "if_then_else" in str(value.op) else list(value.args)
    return [part for part in (getattr(value, name, None) for name in "ab") if part is not None]


def _is_repeated(value: Expr, block: SBlock) -> bool:
    if isinstance(value, ir.TensorLoad) or str(value.ty.dtype) != "float32" or not _is_work(value, block):
        return False
    loads = [node for node in expressions(value) if isinstance(node, ir.TensorLoad)]
    if not loads or not all(_is_plain(load, block) for load in loads):
        return False
    own = _axes_of(value, block)
    if block.init is not None and not _of_one_tensor(loads, own):
        return False
    places = [number for number, axis in enumerate(block.iter_vars) if any(axis.same_as(one) for one in own)]
    inner = (
        any(extent_of(axis) > 1 for axis in block.iter_vars[: places[-1]] if not _in(axis, own)) if places else False
    )
    elements, work = (prod(extent_of(axis) for axis in axes) for axes in (own, block.iter_vars))
    return inner and work >= _FEWEST_USES * elements


def _is_work(value: Expr, block: SBlock) -> bool:
    """Whether a value divides or calls a function; in a reduction, arithmetic is enough."""
    kinds = (tirx.Div, *_ARITHMETIC) if block.init is not None else (tirx.Div,)
    return any(
        isinstance(node, kinds) or (isinstance(node, ir.Call) and "if_then_else" not in str(node.op))
        for node in expressions(value)
    )


def _of_one_tensor(loads: Sequence[BufferLoad], axes: Sequence[IterVar]) -> bool:
    """Whether there is one value for each of some elements of a tensor, as if another tensor had been given."""
    first = loads[0]
    same = all(tvm_ffi.structural_equal(first, load) for load in loads)
    return same and all(any(mentions(index, axis.var) for index in first.indices) for axis in axes)


def _is_plain(load: BufferLoad, block: SBlock) -> bool:
    """Whether a load is inside its tensor at all places, also where a condition around it does not hold."""
    if any(load.source.same_as(write.source) for write in block.writes):
        return False
    axes = block.iter_vars
    return all(
        isinstance(index, tirx.IntImm)
        or any(index.same_as(axis.var) and extent_of(axis) <= int(extent) for axis in axes)
        for index, extent in zip(load.indices, load.source.ty.shape, strict=True)
    )


def _axes_of(value: Expr, block: SBlock) -> list[IterVar]:
    return [axis for axis in block.iter_vars if mentions(value, axis.var)]


def _in(axis: IterVar, axes: Sequence[IterVar]) -> bool:
    return any(axis.same_as(one) for one in axes)


def _stored(value: Expr, block: SBlock, name: str) -> _Stored:
    own = _axes_of(value, block)
    last = block.iter_vars[-1]
    uses = prod(extent_of(axis) for axis in block.iter_vars if not _in(axis, own))
    short = extent_of(last) % _WIDEST > 0 and extent_of(last) < _WIDEST
    if short and not _in(last, own) and uses >= _FEWEST_USES * extent_of(last):
        own = [*own, last]
    axes: list[Axis] = [(variable(str(axis.var.name), str(axis.var.ty.dtype)), extent_of(axis)) for axis in own]
    renamed = {axis.var: one for axis, (one, _) in zip(own, axes, strict=True)}
    out = tirx.decl_buffer([tirx.IntImm(str(one.ty.dtype), extent) for one, extent in axes], "float32", name)
    at = tuple(one for one, _ in axes)
    return _Stored(tuple(own), ReductionStage(name, out, at, tuple(axes), (), with_places(value, renamed)))


def _name(value: Expr, names: Collection[str]) -> str:
    """A new name for a value: that of the first tensor that it is computed from, and a word."""
    source = next(node.source for node in expressions(value) if isinstance(node, ir.TensorLoad))
    wanted = (f"{source.name}_value{number or ''}" for number in count())
    return next(one for one in wanted if one not in names)


def _same(one: _Stored, other: _Stored) -> bool:
    ours, theirs = one.stage, other.stage
    if [extent for _, extent in ours.spatial] != [extent for _, extent in theirs.spatial]:
        return False
    renamed = {a: b for (a, _), (b, _) in zip(ours.spatial, theirs.spatial, strict=True)}
    return bool(tvm_ffi.structural_equal(with_places(ours.term, renamed), theirs.term))


def _loading(statement: Stmt, loads: Sequence[tuple[Expr, BufferLoad]]) -> Stmt:
    """`statement` with a load for each value."""

    def value(node: Expr) -> Expr:
        return next((load for old, load in loads if node.same_as(old)), node)

    def rewrite(block: SBlock) -> SBlock:
        kinds = (tirx.Div, ir.Call, *_ARITHMETIC)
        body = tvm_ffi.structural_map(block.body, [(kind, value) for kind in kinds])
        read: list[TvmBuffer] = []
        tvm_ffi.structural_walk(body, (ir.TensorLoad, lambda load: read.append(load.source)))
        regions = [region for region in block.reads if among(region.source, read)]
        added = [_region(load) for _, load in loads]
        return s_tir.SBlock(
            block.iter_vars,
            [*regions, *added],
            block.writes,
            block.name_hint,
            body,
            block.init,
            annotations=block.annotations,
        )

    return tvm_ffi.structural_map(statement, (s_tir.SBlock, rewrite))


def _region(load: BufferLoad) -> ir.Node:
    ranges = [ir.Range.from_min_extent(index, tirx.IntImm(str(index.ty.dtype), 1)) for index in load.indices]
    return tirx.BufferRegion(load.source, ranges)


def _kept(statement: Stmt) -> Stmt:
    """A statement whose block no reader repeats."""

    def annotated(block: SBlock) -> SBlock:
        return s_tir.SBlock(
            block.iter_vars,
            block.reads,
            block.writes,
            block.name_hint,
            block.body,
            block.init,
            annotations={COMPUTED_ONCE: True},
        )

    return tvm_ffi.structural_map(statement, (s_tir.SBlock, annotated))
