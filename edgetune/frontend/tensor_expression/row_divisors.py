"""Row divisors: elements that share a divisor are multiplied by one over it, which is divided once.

A vector division takes as long as five to ten multiplications. Rounding twice costs an element 1 ULP at most. That
holds for a square root: it is at least 2^-75 and at most 2^64, so that its reciprocal neither overflows nor loses bits.
Zeros, infinities and NaN give the same in both. Other divisors than square roots have no such bounds.
"""

from __future__ import annotations

from math import prod

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.graph.reduction_stage import mentions
from edgetune.graph.tvm_types import Expr, PrimFunc, SBlock
from edgetune.schedule.sketches.block_analysis import extent_of

_FEWEST_USES = 3
"""Elements that share a divisor from which on a multiplication for each is faster."""


def with_row_divisors(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, that multiplies where several elements are divided by one square root."""

    def rewrite(block: SBlock) -> SBlock:
        def multiplied(node: Expr) -> Expr:
            if not _is_root(node.b) or not _is_shared(node.b, block):
                return node
            return node.a * (tirx.const(1.0, "float32") / node.b)

        body = tvm_ffi.structural_map(block.body, (tirx.Div, multiplied))
        if body.same_as(block.body):
            return block
        return s_tir.SBlock(
            block.iter_vars,
            block.reads,
            block.writes,
            block.name_hint,
            body,
            block.init,
            block.alloc_buffers,
            block.match_buffers,
            block.annotations,
        )

    return tvm_ffi.structural_map(function, (s_tir.SBlock, rewrite))


def _is_root(value: Expr) -> bool:
    return isinstance(value, ir.Call) and "sqrt" in getattr(value.op, "name", "") and str(value.ty.dtype) == "float32"


def _is_shared(divisor: Expr, block: SBlock) -> bool:
    others = [axis for axis in block.iter_vars if not mentions(divisor, axis.var)]
    return prod(extent_of(axis) for axis in others) >= _FEWEST_USES
