"""Multiply-accumulates (MACs) of a kernel, counted in its unscheduled function."""

from __future__ import annotations

import tvm_ffi
from tvm import s_tir, tirx

from edgetune.tvm_types import Expr, PrimFunc, SBlock, Stmt


def multiply_accumulates(function: PrimFunc) -> int:
    """Sum of iteration counts (products of the loop extents) over all reduction blocks that multiply."""
    total = 0

    def visit(node: SBlock) -> None:
        nonlocal total
        if sums_products(node):
            count = 1
            for iterator in node.iter_vars:
                count *= int(iterator.dom.extent)
            total += count

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, visit))
    return total


def sums_products(block: SBlock) -> bool:
    """Whether a block is a reduction that multiplies."""
    return block.init is not None and _multiplies(block.body)


def _multiplies(statement: Stmt) -> bool:
    found = False

    def visit(node: Expr) -> None:
        nonlocal found
        found = found or "int64" not in str(node.ty)

    tvm_ffi.structural_walk(statement, (tirx.Mul, visit))
    return found
