"""Tails of rows: the last vector is divided, or overlaps the one before, so that no loop needs a bounds check.

A schedule splits 100 elements into 7 vectors of 16 lanes, with the condition that an element is one of the 100. Here
they become 6 vectors of 16 lanes and one of 4, without a condition. A function of the elements takes as long for four
lanes as for all: where more than one part would be left over, the last vector is whole and overlaps the one before.

Blocks of vectors that are summed in registers and then stored stay whole: of 321 elements in 3 blocks of 7 vectors of
16 lanes, the last block begins at element 209 instead of 224. It stores again what the block before has stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.domain import are_equal, simplified
from edgetune.affine.expressions import is_one, is_zero, mentions, with_places
from edgetune.schedule.sketches.lane_loads import calls_function
from edgetune.tvm_types import Expr, For, Node, SBlock, Stmt, TvmBuffer


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
    return int(predicate.b.value) if are_equal(predicate.a, element) else None


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
    values = [simplified(with_places(value, moved)) for value in inner.body.iter_values]
    renamed = {axis.var: tirx.Var(axis.var.name, axis.var.ty) for axis in block.iter_vars}
    axes = [tirx.IterVar(axis.dom, renamed[axis.var], axis.iter_type) for axis in block.iter_vars]
    reads, writes = ([with_places(region, renamed) for region in regions] for regions in (block.reads, block.writes))
    body = with_places(block.body, renamed)
    made = s_tir.SBlock(axes, reads, writes, block.name_hint, body, annotations=block.annotations)
    statement: Stmt = s_tir.SBlockRealize(values, True, made)
    if width > 1:
        statement = tirx.For(lane, inner.min, _like(lane, width), inner.kind, statement, annotations=inner.annotations)
    for one in reversed(between):
        statement = tirx.For(own[one.loop_var], one.min, one.extent, one.kind, statement, annotations=one.annotations)
    return statement


def overlap_end(loop: For) -> Stmt:
    """`loop` over blocks of vectors, each of which is summed and stored, without conditions; itself if it is no such.

    All that is in it has the condition that elements are in the row.
    """
    if int(loop.kind) != int(tirx.ForKind.SERIAL) or not is_zero(loop.min) or not isinstance(loop.extent, tirx.IntImm):
        return loop
    blocks = list(_blocks(loop.body))
    found = [_row(block, loop) for block in blocks[:1]] if len(blocks) > 1 else []
    if not found or found[0] is None or any(_row(block, loop) != found[0] for block in blocks[1:]):
        return loop
    width, total = found[0]
    if total < width or not _computes_again(blocks):
        return loop
    start = tirx.min(loop.loop_var * _like(loop.min, width), _like(loop.min, total - width))

    def moved(value: Expr) -> Expr:
        if not mentions(value, loop.loop_var):
            return value
        inside = simplified(value - loop.loop_var * width)
        return start + inside

    def unconditional(realize: Node) -> Node:
        return s_tir.SBlockRealize([moved(value) for value in realize.iter_values], True, realize.block, realize.span)

    body = tvm_ffi.structural_map(loop.body, (s_tir.SBlockRealize, unconditional))
    return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, annotations=loop.annotations)


def _blocks(statement: Stmt) -> Iterator[Node]:
    if isinstance(statement, s_tir.SBlockRealize):
        yield statement
    elif isinstance(statement, tirx.SeqStmt):
        for part in statement.seq:
            yield from _blocks(part)
    elif isinstance(statement, tirx.For):
        yield from _blocks(statement.body)


def _row(realize: Node, loop: For) -> tuple[int, int] | None:
    """The elements of a block of vectors, and those of a row, of which the condition of `realize` speaks."""
    condition = realize.predicate
    if is_one(condition) or not isinstance(condition, tirx.LT) or not isinstance(condition.b, tirx.IntImm):
        return None
    place = simplified(condition.a)
    width = simplified(with_places(place, {loop.loop_var: loop.loop_var + 1}) - place)
    if not isinstance(width, tirx.IntImm) or int(width.value) < 1:
        return None
    values = [value for value in realize.iter_values if mentions(value, loop.loop_var)]
    if len(values) != 1 or not are_equal(values[0], place):
        return None
    return int(width.value), int(condition.b.value)


def _computes_again(blocks: list[Node]) -> bool:
    """Whether blocks may run twice: they read what they write only for sums that they begin anew."""
    written: list[TvmBuffer] = [region.source for one in blocks for region in one.block.writes]
    kept = [buffer for buffer in written if buffer.scope() != "local"]
    return not any(region.source.same_as(one) for block in blocks for region in block.block.reads for one in kept)


def _like(value: Expr, number: int) -> Expr:
    return tirx.IntImm(str(value.ty.dtype), number)
