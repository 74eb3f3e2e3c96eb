"""Reciprocals: the elements of a softmax are multiplied by one over their sum, which is divided once for each row.

A vector division takes as long as five multiplications. Rounding twice costs an element 1 ULP at most. It holds where
the divisor is the sum of exp(x - m) over elements of which m is the largest: that is at least 1 and at most their
number, so that its reciprocal neither overflows nor loses bits. A NaN or an infinite element makes NaN in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import with_places
from edgetune.graph.element_type import is_floating, type_of
from edgetune.graph.reduction_stage import ReductionStage, reduction_of, variable, with_fields
from edgetune.rewrites.stored_values import kept
from edgetune.schedule.sketches.block_analysis import block_of
from edgetune.target.costs import MARGINS
from edgetune.tvm_types import BufferLoad, Expr, PrimFunc, SBlock, Stmt, TvmBuffer


def with_reciprocals(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, with one more stage for each sum of a softmax that elements are divided by."""
    root = function.body
    if not isinstance(root, s_tir.SBlockRealize) or not isinstance(root.block.body, tirx.SeqStmt):
        return function
    before = list(root.block.body.seq)
    made: dict[int, ReductionStage] = {}
    pairs: list[tuple[TvmBuffer, TvmBuffer]] = []
    for place, statement in enumerate(before):
        total = reduction_of(statement)
        if total is not None and _is_total(total, before[:place]) and _is_divisor(total, before[place + 1 :]):
            made[place] = _reciprocal(total)
            pairs.append((total.out, made[place].out))
    if not made:
        return function
    statements: list[Stmt] = []
    for place, statement in enumerate(before):
        statements.append(_multiplied(statement, pairs))
        if place in made:
            statements.append(kept(made[place].statement()))
    block = root.block
    buffers = [*block.alloc_buffers, *(one.out for one in made.values())]
    body = tirx.SeqStmt(statements)
    changed = s_tir.SBlock([], [], [], block.name_hint, body, None, buffers, annotations=block.annotations)
    realize = s_tir.SBlockRealize([], True, changed)
    return s_tir.renew_defs(tirx.PrimFunc(function.params, realize, function.ret_type, function.attrs))


def _is_total(total: ReductionStage, before: Sequence[Stmt]) -> bool:
    """Whether a sum is that of exp(x - m), with m the largest x that is summed."""
    if total.combine is not tirx.Add or len(total.summed) != 1 or not is_floating(total.out):
        return False
    if not isinstance(total.first, tirx.FloatImm) or float(total.first.value) != 0.0:
        return False
    term = total.term
    if isinstance(term, ir.TensorLoad):
        term = _value_at(term, before)
    if not isinstance(term, ir.Call) or getattr(term.op, "name", "") != "tirx.exp":
        return False
    gap = term.args[0]
    if not isinstance(gap, tirx.Sub) or not all(isinstance(one, ir.TensorLoad) for one in (gap.a, gap.b)):
        return False
    most = _reduction_into(gap.b.source, before)
    if most is None or most.combine is not tirx.Max or len(most.summed) != 1 or most.summed[0][1] != total.summed[0][1]:
        return False
    if not isinstance(most.term, ir.TensorLoad) or not most.term.source.same_as(gap.a.source):
        return False
    places = _matched(most.at, gap.b.indices)
    if places is None:
        return False
    places[most.summed[0][0]] = total.summed[0][0]
    seen = [with_places(index, places) for index in most.term.indices]
    return all(tvm_ffi.structural_equal(a, b) for a, b in zip(seen, gap.a.indices, strict=True))


def _value_at(load: BufferLoad, before: Sequence[Stmt]) -> Expr | None:
    """What the stage that writes a tensor stores where `load` reads it; None if it is not known."""
    for statement in before:
        block = block_of(statement)
        store = block.body
        if not isinstance(store, tirx.BufferStore) or not store.buffer.same_as(load.source):
            continue
        places = None if block.init is not None else _matched(store.indices, load.indices)
        return None if places is None else with_places(store.value, places)
    return None


def _reduction_into(buffer: TvmBuffer, statements: Sequence[Stmt]) -> ReductionStage | None:
    found = (reduction_of(statement) for statement in statements)
    return next((one for one in found if one is not None and one.out.same_as(buffer)), None)


def _matched(written: Sequence[Expr], read: Sequence[Expr]) -> dict[Expr, Expr] | None:
    """Variables of the stored place by what is read; None where an index is not one of its own."""
    places: dict[Expr, Expr] = {}
    for one, index in zip(written, read, strict=True):
        if isinstance(one, ir.Var):
            places[one] = index
        elif not tvm_ffi.structural_equal(one, index):
            return None
    return places


def _is_divisor(total: ReductionStage, after: Sequence[Stmt]) -> bool:
    """Whether enough elements are divided by each sum."""
    for statement in after:
        block = block_of(statement)
        elements = prod(int(axis.dom.extent) for axis in block.iter_vars)
        if elements >= MARGINS.uses_of_divisor * total.elements and _divides(block, total.out):
            return True
    return False


def _divides(block: SBlock, divisor: TvmBuffer) -> bool:
    found: list[Expr] = []
    tvm_ffi.structural_walk(block.body, (tirx.Div, found.append))
    return any(isinstance(one.b, ir.TensorLoad) and one.b.source.same_as(divisor) for one in found)


def _reciprocal(total: ReductionStage) -> ReductionStage:
    axes = tuple((variable(str(one.name), str(one.ty.dtype)), extent) for one, extent in total.spatial)
    renamed: Mapping[Expr, Expr] = {old: new for (old, _), (new, _) in zip(total.spatial, axes, strict=True)}
    at = tuple(with_places(index, renamed) for index in total.at)
    dtype = type_of(total.out)
    out = tirx.decl_buffer(total.out.ty.shape, dtype, f"{total.out.name}_reciprocal")
    value = tirx.const(1.0, dtype) / tirx.BufferLoad(total.out, list(at))
    return ReductionStage(f"{total.name}_reciprocal", out, at, axes, (), value)


def _multiplied(statement: Stmt, pairs: Sequence[tuple[TvmBuffer, TvmBuffer]]) -> Stmt:
    """A statement that multiplies by the second buffer of a pair instead of dividing by the first."""

    def value(node: Expr) -> Expr:
        for total, reciprocal in pairs:
            if isinstance(node.b, ir.TensorLoad) and node.b.source.same_as(total):
                return node.a * tirx.BufferLoad(reciprocal, node.b.indices)
        return node

    def rewrite(block: SBlock) -> SBlock:
        body = tvm_ffi.structural_map(block.body, (tirx.Div, value))
        if body.same_as(block.body):
            return block
        kept = [
            region
            for region in block.reads
            if not any(region.source.same_as(total) for total, _ in pairs) or _reads(body, region.source)
        ]
        added = [
            tirx.BufferRegion(reciprocal, region.region)
            for region in block.reads
            for total, reciprocal in pairs
            if region.source.same_as(total)
        ]
        return with_fields(block, reads=[*kept, *added], body=body)

    return tvm_ffi.structural_map(statement, (s_tir.SBlock, rewrite))


def _reads(body: Stmt, buffer: TvmBuffer) -> bool:
    found: list[bool] = []
    tvm_ffi.structural_walk(body, (ir.TensorLoad, lambda load: found.append(bool(load.source.same_as(buffer)))))
    return any(found)
