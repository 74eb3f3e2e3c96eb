"""Prefetch statements: TIR intrinsics that load cache lines early; a needless one costs time, but changes no result."""

from __future__ import annotations

from tvm import ir, tirx

from edgetune.affine.expressions import operands
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.intrinsics import operator
from edgetune.tvm_types import BufferLoad, Expr, Stmt, TvmBuffer

LINE = 64
"""Bytes of a cache line."""

FIRST_CACHE = 3
"""The locality of __builtin_prefetch that loads a line into L1."""

SECOND_CACHE = 2
"""The locality that loads a line into L2 only, so that L1 keeps the data of the current computation."""


def prefetch_line(load: BufferLoad, cache: int, *, write: bool = False, ahead: int = 0) -> Stmt:
    """A statement that prefetches the line `ahead` bytes after what `load` reads, to read it or, with `write`, store.

    TVM calls the last argument the kind of cache, of which C has only one; here it is `ahead`.
    """
    return tirx.Evaluate(tirx.call_intrin("int32", "tirx.prefetch", load, int(write), cache, ahead))


def prefetch_lines(buffer: TvmBuffer, start: Expr, length: int, cache: int, ahead: int = 0) -> list[Stmt]:
    """One `prefetch_line` per line for `length` elements of `buffer`, from the index `start` on."""
    dtype = str(buffer.ty.dtype)
    each = LINE // element_and_lanes(buffer.ty.dtype)[0].bytes
    return [prefetch_line(buffer.vload([start + n], dtype), cache, ahead=ahead) for n in range(0, length, each)]


def certain_loads(node: Expr) -> list[BufferLoad]:
    """Loads of an expression that are executed under any condition: other loads may be outside the buffer."""
    if isinstance(node, tirx.Select) or (isinstance(node, ir.Call) and operator(node) == "if_then_else"):
        return []
    own = [node] if isinstance(node, ir.TensorLoad) else []
    return own + [load for operand in operands(node) for load in certain_loads(operand)]
