"""Rewrites of a function after its schedule: tails, divided rows, idle steps and guarded padding.

Inlined padding leaves `acc = acc + (inside ? x : 0) * w`. Elements outside add nothing, so the store itself moves under
the condition. Later passes lift the condition out of loops, and remove it from the interior of the image.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import conjuncts, is_branch
from edgetune.schedule.sketches.clipped_rows import clipped_row
from edgetune.schedule.sketches.divided_rows import parts_of_row
from edgetune.schedule.sketches.idle_steps import skip_idle_steps
from edgetune.schedule.sketches.padded_vectors import whole_or_by_element
from edgetune.schedule.sketches.remainders import overlap_end, peel_remainder
from edgetune.schedule.sketches.row_phases import phases_of_row
from edgetune.tvm_types import BufferStore, Expr, For, IRModule, PrimFunc, SBlock, Stmt, TvmBuffer


def rewrite_scheduled(mod: IRModule) -> IRModule:
    """`mod` (scheduled functions) after the rewrites of each loop, from the outermost one; the first that fits counts.

    They are, in this order: bounds from a condition on the lane axis (`clipped_rows.py`), a row in parts without a
    condition (`divided_rows.py`), the phases of a row (`row_phases.py`), a tail by halves or an overlapping one
    (`remainders.py`), a last block that overlaps (`remainders.py`), padding in whole vectors or by element
    (`padded_vectors.py`), and the bounds of steps that add something (`idle_steps.py`). Padding that is inlined into a
    sum becomes a condition around its store.
    """
    functions = {}
    for name, function in mod.functions.items():
        body = _rebuilt(function.body, _operands(function)) if isinstance(function, tirx.PrimFunc) else None
        functions[name] = function if body is None else function.with_body(body)
    result = ir.IRModule(functions)
    return result.with_attrs(mod.attrs) if mod.attrs else result


def _operands(function: PrimFunc) -> Sequence[TvmBuffer] | None:
    """The parameters of a function of which a block has an axis of a reduction; None of others."""
    found: list[bool] = []

    def note(block: SBlock) -> None:
        found.append(any(int(axis.iter_type) == int(tirx.IterVar.CommReduce) for axis in block.iter_vars))

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, note))
    return list(function.params) if any(found) else None


def _rebuilt(node: Stmt, parameters: Sequence[TvmBuffer] | None) -> Stmt:
    """`node` with guards; the same object if nothing changed. For `parameters` see `peel_remainder`."""
    if isinstance(node, tirx.BufferStore):
        return _guarded(node)
    if isinstance(node, tirx.SeqStmt):
        old = list(node.seq)
        parts = [_rebuilt(part, parameters) for part in old]
        same = all(new is part for new, part in zip(parts, old, strict=True))
        return node if same else tirx.SeqStmt(parts)
    if isinstance(node, tirx.For):
        clipped = clipped_row(node)
        divided = parts_of_row(node, parameters) if clipped is node else clipped
        divided = phases_of_row(node) if divided is node else divided
        if divided is not node:
            return divided
        peeled = peel_remainder(node, parameters)
        if peeled is not node:
            return _rebuilt(peeled, parameters)
        overlapped = overlap_end(node)
        if overlapped is not node:
            return _rebuilt(overlapped, parameters)
        padded = whole_or_by_element(node)
        if padded is not node:
            return padded
        before = node.body
        body = skip_idle_steps(node) if int(node.kind) == int(tirx.ForKind.SERIAL) else before
        body = _rebuilt(before, parameters) if body.same_as(before) else body
        return node if body is before else _with_body(node, body)
    if isinstance(node, s_tir.SBlockRealize):
        block = node.block
        before = block.body
        body = _rebuilt(before, parameters)
        if body is before:
            return node
        inner = s_tir.SBlock(
            block.iter_vars,
            block.reads,
            block.writes,
            block.name_hint,
            body,
            block.init,
            block.alloc_buffers,
            block.match_buffers,
            block.annotations,
            block.span,
        )
        return s_tir.SBlockRealize(node.iter_values, node.predicate, inner, node.span)
    return node


def _with_body(loop: For, body: Stmt) -> For:
    return tirx.For(
        loop.loop_var,
        loop.min,
        loop.extent,
        loop.kind,
        body,
        loop.thread_binding,
        loop.annotations,
        loop.step,
        loop.span,
    )


def _guarded(store: BufferStore) -> Stmt:
    value = store.value
    if not isinstance(value, tirx.Add) or not _is_own_load(value.a, store):
        return store
    found = _unpadded(value.b)
    if found is None:
        return store
    condition, term = found
    result: Stmt = tirx.BufferStore(store.buffer, value.a + term, store.indices)
    for part in reversed(list(conjuncts(condition))):
        result = tirx.IfThenElse(tirx.likely(part), result, None)
    return result


def _is_own_load(value: Expr, store: BufferStore) -> bool:
    return (
        isinstance(value, ir.TensorLoad)
        and value.source.same_as(store.buffer)
        and all(a.same_as(b) or a == b for a, b in zip(value.indices, store.indices, strict=True))
    )


def _unpadded(term: Expr) -> tuple[Expr, Expr] | None:
    """Condition and value of a term that is zero unless the condition holds; None for any other term."""
    if isinstance(term, tirx.Mul):
        for padded, other, first in ((term.a, term.b, True), (term.b, term.a, False)):
            found = _unpadded(padded)
            if found is not None:
                condition, value = found
                return condition, value * other if first else other * value
    if is_branch(term):
        condition, inside, outside = term.args
        if isinstance(outside, (tirx.FloatImm, tirx.IntImm)) and float(outside.value) == 0.0:
            return condition, inside
    if isinstance(term, tirx.Cast):
        found = _unpadded(term.value)
        if found is not None:
            return found[0], tirx.Cast(term.ty, found[1])
    return None
