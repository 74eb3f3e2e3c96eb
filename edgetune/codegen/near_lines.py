"""Weights of a few steps ahead on their way to the first cache, where the second one holds a block of them.

Each tile of pixels reads the weights of its block anew. Where these exceed the first cache they come line by line from
the second, and what fetches lines unasked is not always early enough for a tile that needs several in each step.
What is asked for needlessly costs time, never a result.
"""

from __future__ import annotations

from typing import Any

from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.requests import FIRST_CACHE, requests
from edgetune.codegen.streams import innermost_changed, preceded, stream_of, total_of, written_in
from edgetune.codegen.traverse import loops_changed
from edgetune.codegen.unrolling import with_kind

ANNOTATION = "edgetune_near_lines"
"""On a loop: what the innermost loops in it read in a line, more of it in each step, is asked for ahead of them."""

_AHEAD = 2048  # bytes, or a step more: what is read while a line comes from the second cache, several times over


def ask_near(node: Any) -> Any:
    """`node` with requests in the innermost loops below annotated ones; unchanged where nothing is read in a line."""
    return loops_changed(node, _changed)


def _changed(loop: Any) -> Any:
    if ANNOTATION not in loop.annotations:
        return with_kind(loop, int(loop.kind), ask_near(loop.body))
    written = written_in(loop)
    return with_kind(loop, int(loop.kind), innermost_changed(loop.body, lambda inner, _: _asking(inner, written)))


def _asking(loop: Any, written: set[Any]) -> Any:
    stream = stream_of(loop.body, loop.loop_var, written)
    if stream is None or stream.start.factors[loop.loop_var] != stream.length:
        return loop
    step = stream.length * element_and_lanes(stream.buffer.ty.dtype)[0].bytes
    start = total_of(stream.start, loop.loop_var.ty.dtype)
    ahead = -(-_AHEAD // step) * step
    return preceded(loop, requests(stream.buffer, start, stream.length, FIRST_CACHE, ahead))
