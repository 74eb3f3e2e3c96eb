"""Contiguous access analysis: which adjacent elements of a buffer each iteration of an innermost loop reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from tvm import tirx

from edgetune.affine.expressions import is_one, loads_in
from edgetune.affine.linear import Linear, linear
from edgetune.codegen.traverse import children, expressions
from edgetune.codegen.unrolling import extent_of, with_kind
from edgetune.tvm_types import BufferLoad, Expr, For, Stmt, TvmBuffer, Var


@dataclass(frozen=True)
class Stream:
    """What one iteration of an innermost loop reads of a buffer: `length` adjacent elements, from `start` on."""

    buffer: TvmBuffer
    start: Linear
    length: int


def map_innermost_loops(node: Stmt, change: Callable[[For, list[For]], Stmt], around: Sequence[For] = ()) -> Stmt:
    """`node` with each innermost serial loop replaced by the result of `change`.

    `change` also gets the loops around it, outermost first: those in `around`, then those in `node`.
    """
    if isinstance(node, tirx.SeqStmt):
        return tirx.SeqStmt([map_innermost_loops(child, change, around) for child in node.seq])
    if isinstance(node, tirx.IfThenElse) and node.else_case is None:
        return tirx.IfThenElse(node.condition, map_innermost_loops(node.then_case, change, around), None)
    if not isinstance(node, tirx.For) or int(node.kind) != int(tirx.ForKind.SERIAL):
        return node
    if any(int(loop.kind) == int(tirx.ForKind.SERIAL) and extent_of(loop) != 1 for loop in _all_loops(node.body)):
        return with_kind(node, int(node.kind), map_innermost_loops(node.body, change, [*around, node]))
    return change(node, list(around))


def prepend(loop: For, statements: Sequence[Stmt]) -> For:
    """`loop` with `statements` at the start of its body."""
    body = list(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else [loop.body]
    return with_kind(loop, int(loop.kind), tirx.SeqStmt([*statements, *body])) if statements else loop


def stream_of(body: Stmt, block: Var, written: set[TvmBuffer]) -> Stream | None:
    """The buffer of which `body` reads adjacent elements that depend on `block`, the one with the longest step."""
    unrolled = {loop.loop_var: extent_of(loop) or 1 for loop in _all_loops(body)}
    found: dict[TvmBuffer, list[tuple[Linear, int]]] = {}
    for load in _loads(body):
        index = load.indices[0] if len(load.indices) == 1 else None
        lanes = int(index.lanes) if isinstance(index, tirx.Ramp) and is_one(index.stride) else 1
        form = linear(index.base if isinstance(index, tirx.Ramp) else index)
        if form is not None and load.source not in written and form.factors.get(block, 0) > 0:
            found.setdefault(load.source, []).append((form, lanes))
    best: Stream | None = None
    for buffer, reads in found.items():
        form, lanes = reads[0]
        covered = lanes * prod(unrolled[v] for v in form.factors if v in unrolled)
        last = sum(f * (unrolled[v] - 1) for v, f in form.factors.items() if v in unrolled) + lanes
        same = len(reads) == 1 and last == covered
        start = Linear(form.constant, {v: f for v, f in form.factors.items() if v not in unrolled})
        if same and (best is None or start.factors[block] > best.start.factors[block]):
            best = Stream(buffer, start, covered)
    return best


def total_of(form: Linear, dtype: str) -> Expr:
    """The linear form as an expression."""
    total: Expr = tirx.IntImm(dtype, form.constant)
    for variable, factor in form.factors.items():
        total = total + variable * factor
    return total


def written_in(node: Stmt) -> set[TvmBuffer]:
    """Buffers that `node` stores to."""
    found = {node.buffer} if isinstance(node, tirx.BufferStore) else set()
    return found.union(*map(written_in, children(node)))


def _all_loops(node: Stmt) -> Iterator[For]:
    if isinstance(node, tirx.For):
        yield node
    for child in children(node):
        yield from _all_loops(child)


def _loads(node: Stmt) -> Iterator[BufferLoad]:
    if isinstance(node, tirx.Evaluate):  # a prefetch is not a read
        return
    yield from loads_in(expressions(node))
    for child in children(node):
        yield from _loads(child)
