"""Sums of 16 bits in registers and shared memory lie there as floats: only what leaves the kernel is rounded.

TVM gives a sum the type of the tensor that it becomes, and so do the buffers that it passes through on its way from a
thread to all of a block.
"""

from __future__ import annotations

from tvm import ir, tirx

from edgetune.codegen.cuda.tidy import LOCAL, SHARED, statements_in
from edgetune.codegen.cuda.warp_reduction import shuffle_name
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.memory import Survey
from edgetune.graph.tvm_types import Expr, Stmt, TvmBuffer


def wide_sums(body: Stmt, found: Survey) -> set[TvmBuffer]:
    """Buffers of 16-bit elements in the body of a kernel that hold sums, maxima, or copies of them."""
    stores = [node for node in statements_in(body) if isinstance(node, tirx.BufferStore) and _narrow(node.buffer)]
    wide = {store.buffer for store in stores if store.buffer in found.updated or is_shuffled(store.value)}
    while more := {s.buffer for s in stores if isinstance(s.value, ir.TensorLoad) and s.value.source in wide} - wide:
        wide |= more
    return wide - set(found.alias) - set(found.alias.values())


def is_shuffled(value: Expr) -> bool:
    """Whether a value is what a shuffle gives, as a number of 16 bits."""
    return isinstance(value, tirx.Cast) and isinstance(value.value, ir.Call) and bool(shuffle_name(value.value))


def _narrow(buffer: TvmBuffer) -> bool:
    of, lanes = element_and_lanes(buffer.ty.dtype)
    return of.half and lanes == 1 and str(buffer.scope()) in {LOCAL, SHARED}
