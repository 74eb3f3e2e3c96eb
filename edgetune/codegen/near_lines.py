"""Weights of a few steps ahead on their way to the first cache, where the second one holds a block of them.

Each tile of pixels reads the weights of its block anew. Where these exceed the first cache they come line by line from
the second, and what fetches lines unasked is not always early enough for a tile that needs several in each step.
What is asked for needlessly costs time, never a result.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.prefetching import contains_loops, stream_of, total_of, written_in
from edgetune.codegen.traverse import loops_changed
from edgetune.codegen.unrolling import with_kind

ANNOTATION = "edgetune_near_lines"
"""On a loop: what the innermost loops in it read in a line, more of it in each step, is asked for ahead of them."""

_LINE = 64  # bytes of a line of the cache
_AHEAD = 2048  # bytes: what a tile reads in the time that a line takes from the second cache, several times over
_FIRST_CACHE = 3  # the locality of __builtin_prefetch that brings a line as near as can be


def ask_near(node: Any) -> Any:
    """`node` with requests in the innermost loops below annotated ones; unchanged where nothing is read in a line."""
    return loops_changed(node, _changed)


def _changed(loop: Any) -> Any:
    if ANNOTATION in loop.annotations:
        return with_kind(loop, int(loop.kind), _asking(loop.body, written_in(loop)))
    return with_kind(loop, int(loop.kind), ask_near(loop.body))


def _asking(node: Any, written: set[Any]) -> Any:
    if isinstance(node, tirx.SeqStmt):
        return tirx.SeqStmt([_asking(child, written) for child in node.seq])
    if isinstance(node, tirx.IfThenElse) and node.else_case is None:
        return tirx.IfThenElse(node.condition, _asking(node.then_case, written), None)
    if not isinstance(node, tirx.For) or int(node.kind) != int(tirx.ForKind.SERIAL):
        return node
    if contains_loops(node.body):
        return with_kind(node, int(node.kind), _asking(node.body, written))
    stream = stream_of(node.body, node.loop_var, written)
    if stream is None or stream.start.factors[node.loop_var] != stream.length:
        return node
    start = total_of(stream.start, node.loop_var.ty.dtype)
    of, _ = element_and_lanes(stream.buffer.ty.dtype)
    ahead = -(-_AHEAD // (stream.length * of.bytes)) * stream.length * of.bytes  # whole steps
    loads = [
        stream.buffer.vload([start + n], str(stream.buffer.ty.dtype))
        for n in range(0, stream.length, _LINE // of.bytes)
    ]
    asked = [tirx.Evaluate(tirx.call_intrin("int32", "tirx.prefetch", load, 0, _FIRST_CACHE, ahead)) for load in loads]
    body = list(node.body.seq) if isinstance(node.body, tirx.SeqStmt) else [node.body]
    return with_kind(node, int(node.kind), tirx.SeqStmt([*asked, *body]))
