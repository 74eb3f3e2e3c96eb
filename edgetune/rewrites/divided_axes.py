"""Divided axes: results whose places a sum divides, as `y[i] = sum_k x[k, i // 2] * w[i % 2, k]`, get two axes.

A transposed convolution without overlap is such a sum, and so is a product of matrices whose result is one long row.
Along `i` neither operand has vectors. With axes for quotient and remainder the sum is a plain product, and its results
lie in memory as before. Sums whose operands all have vectors along the terms stay, and so do those over windows, as of
`x[i // 3 + k]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import is_among, mentions
from edgetune.rewrites.stored_values import statements_in
from edgetune.schedule.algorithms.overlapped_tail.function import loops_around, point_region
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, stage_of
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, IterVar, Node, PrimFunc, Stmt, TvmBuffer, Var

_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod)


@dataclass(frozen=True)
class _Divided:
    """One axis of a tensor, and the number that divides its places."""

    buffer: TvmBuffer
    axis: int
    divisor: int


class _Conflict(Exception):  # noqa: N818 - no error: the expression keeps its axes
    """An axis is used in a way that two axes do not serve."""


def with_divided_axes(function: PrimFunc, fixed: Sequence[int]) -> PrimFunc:
    """`function`, unscheduled, with two axes for each one that a sum divides, its last one among them.

    All stages that touch the results have the two axes, or nothing changes. Parameters with the numbers `fixed` keep
    their shapes.
    """
    stages = [stage_of(statement) for statement in statements_in(function)]
    kept = [function.params[number] for number in fixed]
    known = [stage for stage in stages if stage is not None]
    if len(known) < len(stages):
        return function
    for stage in known:
        begun = _of_sum(stage, kept)
        if not begun:
            continue
        try:
            found = _spread(begun, known, kept)
        except _Conflict:
            continue
        return with_divided_axes(_rebuilt(function, known, found), fixed)
    return function


def _of_sum(stage: BlockStage, kept: Sequence[TvmBuffer]) -> list[_Divided]:
    """The axes of the results of a sum that it divides; none where its last axis is not among them."""
    if not any(extent_of(axis) > 1 for axis in stage.reduction) or not stage.spatial or not stage.writes_its_axes():
        return []
    last, written = stage.spatial[-1], stage.block.writes[0].source
    operands = [load for load in _loads(stage) if not load.source.same_as(written)]
    kinds = {type(node) for load in operands if not is_among(load.source, kept) for node in _divisions(load, last)}
    both = {type(node) for node in _divisions(stage.block.body, last)}
    if not kinds or len(both) < len(_DIVISIONS) or all(_runs_along(load, stage.reduction) for load in operands):
        return []
    if any(
        _divisions(index, last) and not isinstance(index, _DIVISIONS) for load in operands for index in load.indices
    ):
        return []
    divisors = [_divisor(stage, axis) for axis in stage.spatial]
    found = [_Divided(written, number, divisor) for number, divisor in enumerate(divisors) if divisor]
    return found if divisors[-1] else []


def _runs_along(load: BufferLoad, summed: Sequence[IterVar]) -> bool:
    """Whether the last index of a load changes with the terms of a sum, which lanes may run along."""
    return bool(load.indices) and any(mentions(load.indices[-1], axis.var) for axis in summed)


def _divisor(stage: BlockStage, axis: IterVar) -> int:
    """The number by which all divisions of an axis in a stage divide; 0 without one."""
    found = {_number(node) for node in _divisions(stage.block.body, axis)}
    divisor = found.pop() if len(found) == 1 else 0
    return divisor if divisor > 1 and extent_of(axis) % divisor == 0 and extent_of(axis) > divisor else 0


def _divisions(node: Node, axis: IterVar) -> list[Expr]:
    """The quotients and remainders of the place along an axis."""
    found: list[Expr] = []
    tvm_ffi.structural_walk(node, (_DIVISIONS, lambda one: found.append(one) if one.a.same_as(axis.var) else None))
    return found


def _number(node: Expr) -> int:
    return int(node.b.value) if isinstance(node.b, tirx.IntImm) else 0


def _spread(begun: Sequence[_Divided], stages: Sequence[BlockStage], kept: Sequence[TvmBuffer]) -> list[_Divided]:
    """The axes of all tensors that have to be divided with those of `begun`; raises _Conflict."""
    found = list(begun)
    done = 0
    while done < len(found):
        one, done = found[done], done + 1
        if is_among(one.buffer, kept):
            raise _Conflict
        for stage in stages:
            for buffer, indices in _accesses(stage):
                if not buffer.same_as(one.buffer):
                    continue
                axis = _axis(stage, indices[one.axis])
                if axis is None or extent_of(axis) != int(buffer.ty.shape[one.axis]):
                    raise _Conflict
                for more in _places(stage, axis, one.divisor):
                    same = [other for other in found if other.buffer.same_as(more.buffer) and other.axis == more.axis]
                    if any(other.divisor != more.divisor for other in same):
                        raise _Conflict
                    found += [] if same else [more]
    return found


def _places(stage: BlockStage, axis: IterVar, divisor: int) -> list[_Divided]:
    """The axes of tensors that a stage walks by `axis`; raises _Conflict where it is used in another way."""
    if any(_number(node) != divisor for node in _divisions(stage.block.body, axis)):
        raise _Conflict
    found = [
        _Divided(buffer, number, divisor)
        for buffer, indices in _accesses(stage)
        for number, index in enumerate(indices)
        if index.same_as(axis.var)
    ]
    zero = tirx.IntImm(str(axis.var.ty.dtype), 0)

    def without(indices: Sequence[Expr]) -> list[Expr]:
        return [zero if index.same_as(axis.var) else index for index in indices]

    rest = tvm_ffi.structural_map(
        stage.block.body,
        [
            (_DIVISIONS, lambda node: zero if node.a.same_as(axis.var) else node),
            (ir.TensorLoad, lambda load: tirx.BufferLoad(load.source, without(load.indices))),
            (tirx.BufferStore, lambda store: tirx.BufferStore(store.buffer, store.value, without(store.indices))),
        ],
    )
    if mentions(rest, axis.var):
        raise _Conflict
    return found


def _axis(stage: BlockStage, index: Expr) -> IterVar | None:
    """The spatial axis of a stage that an index is."""
    return next((axis for axis in stage.spatial if index.same_as(axis.var)), None)


def _accesses(stage: BlockStage) -> list[tuple[TvmBuffer, Sequence[Expr]]]:
    """The tensors that a stage loads and stores, each with its indices."""
    found: list[tuple[TvmBuffer, Sequence[Expr]]] = [(load.source, load.indices) for load in _loads(stage)]
    for part in (stage.block.body, stage.block.init):
        if part is not None:
            add = (tirx.BufferStore, lambda store: found.append((store.buffer, store.indices)))
            tvm_ffi.structural_walk(part, add)
    return found


def _loads(stage: BlockStage) -> list[BufferLoad]:
    found: list[BufferLoad] = []
    tvm_ffi.structural_walk(stage.block.body, (ir.TensorLoad, found.append))
    return found


def _rebuilt(function: PrimFunc, stages: Sequence[BlockStage], divided: Sequence[_Divided]) -> PrimFunc:
    """`function` with two axes instead of each of `divided`."""
    buffers: list[tuple[TvmBuffer, TvmBuffer]] = []
    for one in divided:
        if not any(one.buffer.same_as(old) for old, _ in buffers):
            buffers.append((one.buffer, _with_more_axes(one.buffer, divided)))

    def of(buffer: TvmBuffer) -> TvmBuffer:
        return next((new for old, new in buffers if buffer.same_as(old)), buffer)

    made = [_statement(stage, divided, buffers) for stage in stages]
    before = statements_in(function)
    statements = [old if new is None else new for old, new in zip(before, made, strict=True)]
    root = function.body.block
    body = statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)
    allocated = [of(one) for one in root.alloc_buffers]
    block = s_tir.SBlock([], [], [], root.name_hint, body, None, allocated, annotations=root.annotations)
    realize = s_tir.SBlockRealize([], True, block)
    params = [of(one) for one in function.params]
    return s_tir.renew_defs(tirx.PrimFunc(params, realize, function.ret_type, function.attrs))


def _with_more_axes(buffer: TvmBuffer, divided: Sequence[_Divided]) -> TvmBuffer:
    shape: list[Expr] = []
    for number, extent in enumerate(buffer.ty.shape):
        divisor = _of_axis(buffer, number, divided)
        dtype = str(extent.ty.dtype)
        parts = [int(extent) // divisor, divisor] if divisor else [int(extent)]
        shape += [tirx.IntImm(dtype, part) for part in parts]
    return tirx.decl_buffer(shape, str(buffer.ty.dtype), buffer.name)


def _of_axis(buffer: TvmBuffer, axis: int, divided: Sequence[_Divided]) -> int:
    """The number that divides the places of one axis of a tensor; 0 where none does."""
    return next((one.divisor for one in divided if one.buffer.same_as(buffer) and one.axis == axis), 0)


def _statement(
    stage: BlockStage, divided: Sequence[_Divided], buffers: Sequence[tuple[TvmBuffer, TvmBuffer]]
) -> Stmt | None:
    """The loops of a stage with two axes for each divided one; None where it has none of them."""
    parts: dict[Var, tuple[Var, Var, int]] = {}
    for buffer, indices in _accesses(stage):
        for number, index in enumerate(indices):
            divisor = _of_axis(buffer, number, divided)
            if divisor and not any(index.same_as(old) for old in parts):
                quotient, remainder = (tirx.Var(f"{index.name}{word}", index.ty) for word in ("", "_phase"))
                parts[index] = (quotient, remainder, divisor)
    if not parts:
        return None

    def pair_of(value: Expr) -> tuple[Var, Var, int] | None:
        return next((pair for old, pair in parts.items() if value.same_as(old)), None)

    def split(indices: Sequence[Expr]) -> list[Expr]:
        return [one for index in indices for one in ((pair_of(index) or (index,))[:2])]

    def part(node: Expr) -> Expr:
        pair = pair_of(node.a)
        return node if pair is None else pair[isinstance(node, tirx.FloorMod)]

    def load(node: BufferLoad) -> BufferLoad:
        return tirx.BufferLoad(of(node.source), split(node.indices))

    def store(node: BufferStore) -> BufferStore:
        return tirx.BufferStore(of(node.buffer), node.value, split(node.indices))

    def of(buffer: TvmBuffer) -> TvmBuffer:
        return next((new for old, new in buffers if buffer.same_as(old)), buffer)

    changes = [(_DIVISIONS, part), (ir.TensorLoad, load), (tirx.BufferStore, store)]
    block = stage.block
    body = tvm_ffi.structural_map(block.body, changes)
    init = None if block.init is None else tvm_ffi.structural_map(block.init, changes)
    loads: list[BufferLoad] = []
    stores: list[BufferStore] = []
    tvm_ffi.structural_walk(body, (ir.TensorLoad, loads.append))
    tvm_ffi.structural_walk(body, (tirx.BufferStore, stores.append))
    written = [one.buffer for one in stores]
    reads = [point_region(one.source, one.indices) for one in loads if not is_among(one.source, written)]
    writes = [point_region(one.buffer, one.indices) for one in stores]
    axes: list[tuple[Var, int, int]] = []
    for axis in (*stage.spatial, *stage.reduction):
        pair, kind = pair_of(axis.var), int(axis.iter_type)
        if pair is None:
            axes.append((axis.var, extent_of(axis), kind))
        else:
            axes += [(pair[0], extent_of(axis) // pair[2], kind), (pair[1], pair[2], kind)]
    made = s_tir.SBlock([], reads, writes, "", body, init)
    variables, extents, kinds = zip(*axes, strict=True)
    return loops_around(stage.name, variables, extents, kinds, made)
