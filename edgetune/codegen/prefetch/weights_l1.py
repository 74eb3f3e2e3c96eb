"""Software prefetching of weights into L1, a few steps ahead, while L2 holds a block of them.

Each tile of pixels reads the weights of its block again. Weights larger than L1 come line by line from L2, and the
hardware prefetcher is not always early enough for a tile that needs several lines in each step. A needless prefetch
costs time, but never changes a result.
"""

from __future__ import annotations

from edgetune.codegen.contiguous_access import map_innermost_loops, prepend, stream_of, total_of, written_in
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.prefetch.intrinsics import FIRST_CACHE, prefetch_lines
from edgetune.codegen.traverse import map_loops
from edgetune.codegen.unrolling import with_kind
from edgetune.tvm_types import For, Stmt, TvmBuffer

ANNOTATION = "edgetune_near_lines"
"""On a loop: its innermost loops prefetch the contiguous data that they read, ahead of each step."""

_AHEAD = 2048  # bytes, rounded up to whole steps: several times what is read while a line comes from L2


def prefetch_weights_l1(node: Stmt) -> Stmt:
    """`node` with prefetches in the innermost loops of annotated loops; unchanged if no read is contiguous."""
    return map_loops(node, _changed)


def _changed(loop: For) -> Stmt:
    if ANNOTATION not in loop.annotations:
        return with_kind(loop, int(loop.kind), prefetch_weights_l1(loop.body))
    written = written_in(loop)
    return with_kind(
        loop, int(loop.kind), map_innermost_loops(loop.body, lambda inner, _: _with_prefetches(inner, written))
    )


def _with_prefetches(loop: For, written: set[TvmBuffer]) -> Stmt:
    stream = stream_of(loop.body, loop.loop_var, written)
    if stream is None or stream.start.factors[loop.loop_var] != stream.length:
        return loop
    step = stream.length * element_and_lanes(stream.buffer.ty.dtype)[0].bytes
    start = total_of(stream.start, loop.loop_var.ty.dtype)
    ahead = -(-_AHEAD // step) * step
    return prepend(loop, prefetch_lines(stream.buffer, start, stream.length, FIRST_CACHE, ahead))
