"""Counts multiply-accumulates (MACs) of a kernel from its unscheduled function."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import s_tir, tirx


def multiply_accumulates(function: tvm.tirx.PrimFunc) -> int:
    """Sum of iteration counts (products of the loop extents) over all reduction blocks that multiply."""
    total = 0

    def visit(node: s_tir.SBlock) -> None:
        nonlocal total
        if node.init is not None and _multiplies(node.body):
            count = 1
            for iterator in node.iter_vars:
                count *= int(iterator.dom.extent)
            total += count

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, visit))
    return total


def _multiplies(statement: tirx.Stmt) -> bool:
    found = False

    def visit(node: tirx.Mul) -> None:
        nonlocal found
        found = found or "int64" not in str(node.ty)

    tvm_ffi.structural_walk(statement, (tirx.Mul, visit))
    return found
