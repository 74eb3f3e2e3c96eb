"""Remainders: a vectorised loop over an extent that its lanes do not divide becomes whole vectors, then narrower ones.

A schedule splits 100 elements into 7 vectors of 16 lanes, with the condition that an element is one of the 100. Here
they become 6 vectors of 16 lanes and one of 4, without a condition. A function of the elements takes as long for four
lanes as for all: where more than one part would be left over, the last vector is whole and overlaps the one before.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, s_tir, sym, tirx

from edgetune.graph.reduction_stage import mentions
from edgetune.graph.tvm_types import Expr, For, SBlock, Stmt, TvmBuffer
from edgetune.schedule.sketches.block_analysis import is_one, is_zero
from edgetune.schedule.sketches.elementwise import calls_function
from edgetune.schedule.sketches.idle_steps import substituted


def peel_remainder(loop: For, parameters: Sequence[TvmBuffer] | None = None) -> Stmt:
    """`loop` over vectors with a condition for its last one: all whole vectors, and the rest by halves.

    With `parameters`, the rest of a function of their elements is a whole vector, which computes some again. The result
    then takes no operand's memory: in place, elements would pass through the function twice. Other tensors share memory
    later, unseen here, so that a function of them keeps its rest. `loop` itself where it is no such loop.
    """
    between, inner = _to_lanes(loop)
    if inner is None:
        return loop
    realize = inner.body
    if not isinstance(realize, s_tir.SBlockRealize) or is_one(realize.predicate) or not is_zero(loop.min):
        return loop
    lanes, total = int(inner.extent.value), _bound(realize.predicate, loop, inner)
    if total is None or total <= lanes:
        return loop
    vectors, rest = divmod(total, lanes)
    count, whole = _like(loop.min, vectors), _with_lanes(loop, between, inner, loop.loop_var, (lanes, 0))
    parts: list[Stmt] = [tirx.For(loop.loop_var, loop.min, count, loop.kind, whole, annotations=loop.annotations)]
    first = 0
    overlaps = parameters is not None and not between and _is_function(realize.block, parameters)
    if overlaps and rest & (rest - 1):
        return tirx.SeqStmt([*parts, _with_lanes(loop, between, inner, _like(loop.min, 0), (lanes, total - lanes))])
    while rest:
        width = 1 << (rest.bit_length() - 1)
        parts.append(_with_lanes(loop, between, inner, count, (width, first)))
        first += width
        rest -= width
    return tirx.SeqStmt(parts)


def _is_function(block: SBlock, parameters: Sequence[TvmBuffer]) -> bool:
    """Whether a block calls a function of parameters, and of no other tensor along the last axis that it writes."""
    if block.init is not None or len(block.writes) != 1 or not calls_function(block):
        return False
    last = block.writes[0].region[-1].min
    own = [region for region in block.reads if not any(region.source.same_as(one) for one in parameters)]
    return isinstance(last, ir.Var) and not any(mentions(axis.min, last) for one in own for axis in one.region)


def _bound(predicate: Expr, loop: For, inner: For) -> int | None:
    """The number n if `predicate` is that the element of `loop` and `inner` is less than n; None for another."""
    if not isinstance(predicate, tirx.LT) or not isinstance(predicate.b, tirx.IntImm):
        return None
    element = loop.loop_var * inner.extent + inner.loop_var
    return int(predicate.b.value) if sym.Analyzer().can_prove_equal(predicate.a, element) else None


def _to_lanes(loop: For) -> tuple[list[For], For | None]:
    """The unrolled loops directly inside of `loop`, and the vectorised loop in them; None without that."""
    between: list[For] = []
    inner = loop.body
    while isinstance(inner, tirx.For) and int(inner.kind) == int(tirx.ForKind.UNROLLED):
        between.append(inner)
        inner = inner.body
    lanes = isinstance(inner, tirx.For) and int(inner.kind) == int(tirx.ForKind.VECTORIZED)
    return between, inner if lanes else None


def _with_lanes(loop: For, between: Sequence[For], inner: For, vector: Expr, part: tuple[int, int]) -> Stmt:
    """The block for a part of the lanes of the vector number `vector`, with variables of its own.

    `part` is its width and its first lane.
    """
    width, first = part
    block = inner.body.block
    lane = tirx.Var(inner.loop_var.name, inner.loop_var.ty)
    place = _like(lane, first) if width == 1 else lane + first if first else lane
    own = {one.loop_var: tirx.Var(one.loop_var.name, one.loop_var.ty) for one in between}
    moved = {loop.loop_var: vector, inner.loop_var: place, **own}
    values = [sym.Analyzer().simplify(substituted(value, moved)) for value in inner.body.iter_values]
    renamed = {axis.var: tirx.Var(axis.var.name, axis.var.ty) for axis in block.iter_vars}
    axes = [tirx.IterVar(axis.dom, renamed[axis.var], axis.iter_type) for axis in block.iter_vars]
    reads, writes = ([substituted(region, renamed) for region in regions] for regions in (block.reads, block.writes))
    body = substituted(block.body, renamed)
    made = s_tir.SBlock(axes, reads, writes, block.name_hint, body, annotations=block.annotations)
    statement: Stmt = s_tir.SBlockRealize(values, True, made)
    if width > 1:
        statement = tirx.For(lane, inner.min, _like(lane, width), inner.kind, statement, annotations=inner.annotations)
    for one in reversed(between):
        statement = tirx.For(own[one.loop_var], one.min, one.extent, one.kind, statement, annotations=one.annotations)
    return statement


def _like(value: Expr, number: int) -> Expr:
    return tirx.IntImm(str(value.ty.dtype), number)
