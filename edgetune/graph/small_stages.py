"""Small stages: what a kernel computes once for many of its results by a few products and sums is computed with each.

So are the scales of results whose range is found at run time: a number, or one for each channel, times a scale that is
constant. As stages of their own they would stand between a sum and what follows it, which are one tile then. Compilers
take what is the same for all results of a loop out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm import ir, s_tir, tirx
from tvm.s_tir import Schedule

from edgetune.tvm_types import Expr, PrimFunc, SBlock, Stmt


def with_small_stages_inlined(function: PrimFunc) -> PrimFunc:
    """An unscheduled `function` without stages of fewer elements than its result that only add and multiply."""
    root = function.body
    if not isinstance(root, s_tir.SBlockRealize) or not isinstance(root.block.body, tirx.SeqStmt):
        return function
    blocks = [found for statement in root.block.body.seq if (found := _block(statement)) is not None]
    if len(blocks) < len(root.block.body.seq):
        return function
    small = [number for number, block in enumerate(blocks) if _is_small(block, blocks, function)]
    if not small:
        return function
    schedule = Schedule(function)
    of_function = schedule.get_child_blocks(schedule.get_sblock("root"))
    for number in small:
        schedule.compute_inline(of_function[number])
    return schedule.mod["main"].with_attrs(function.attrs)


def _block(statement: Stmt) -> SBlock | None:
    while isinstance(statement, tirx.For):
        statement = statement.body
    return statement.block if isinstance(statement, s_tir.SBlockRealize) else None


def _is_small(block: SBlock, blocks: Sequence[SBlock], function: PrimFunc) -> bool:
    """Whether a block computes few elements, cheaply, for blocks that compute one value for each place."""
    if block.init is not None or not isinstance(block.body, tirx.BufferStore):
        return False
    written, result = block.body.buffer, function.params[-1]
    if any(written.same_as(param) for param in function.params):
        return False
    readers = [one for one in blocks if any(region.source.same_as(written) for region in one.reads)]
    if not readers or any(reader.init is not None for reader in readers):
        return False
    extents = [prod(int(extent) for extent in one.shape) for one in (written, result)]
    return (
        extents[0] < extents[1]
        and isinstance(block.body.value, (*_ARITHMETIC, tirx.Cast))
        and _is_cheap(block.body.value)
    )


_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul)


def _is_cheap(value: Expr) -> bool:
    """Whether an expression only loads, casts, adds and multiplies."""
    if isinstance(value, _ARITHMETIC):
        return _is_cheap(value.a) and _is_cheap(value.b)
    if isinstance(value, tirx.Cast):
        return _is_cheap(value.value)
    return isinstance(value, ir.TensorLoad | tirx.IntImm | tirx.FloatImm)
