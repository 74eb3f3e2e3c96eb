"""Equal kernels of a divided expression: two products that copy one operand into the same order share the copy.

Each product is reordered for itself (`product_lanes.py`, `channels_last.py`, `short_rows.py`), so that each brings
copies of its own. This is common subexpression elimination over kernels of one stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm_ffi
from tvm import ir

from edgetune.frontend.tensor_expression.reordered import among
from edgetune.graph.tvm_types import Stmt, TvmBuffer, Var
from edgetune.schedule.sketches.block_analysis import block_of


def without_equal_kernels(groups: Sequence[Sequence[Stmt]], outputs: Sequence[TvmBuffer]) -> list[list[Stmt]]:
    """The statements of each kernel, in the order of their calls, without those that compute an earlier tensor again.

    Kernels that write one of `outputs` stay.
    """
    kept: list[list[Stmt]] = []
    stands_for: dict[TvmBuffer, TvmBuffer] = {}
    for group in groups:
        statements = [_with_buffers(one, stands_for) for one in group]
        written = _only_result(statements)
        if written is not None and not among(written, outputs):
            earlier = next((_only_result(one) for one in kept if _equal(statements[0], one)), None)
            if earlier is not None:
                stands_for[written] = earlier
                continue
        kept.append(statements)
    return kept


def _only_result(statements: Sequence[Stmt]) -> TvmBuffer | None:
    """The only tensor that the only stage of a kernel writes; None for other kernels."""
    if len(statements) != 1:
        return None
    writes = block_of(statements[0]).writes
    return writes[0].source if len(writes) == 1 else None


def _equal(statement: Stmt, kernel: Sequence[Stmt]) -> bool:
    """Whether a statement computes what a kernel does, from the same tensors.

    Structural equality takes tensors of a block's regions for its own, and so for equal: they are compared one by one.
    """
    if _only_result(kernel) is None or not tvm_ffi.structural_equal(statement, kernel[0]):
        return False
    ours, theirs = ([region.source for region in block_of(one).reads] for one in (statement, kernel[0]))
    return all(one.same_as(other) for one, other in zip(ours, theirs, strict=True))


def _with_buffers(statement: Stmt, stands_for: Mapping[TvmBuffer, TvmBuffer]) -> Stmt:
    """`statement` with the values of `stands_for` instead of its keys."""

    def changed(buffer: Var) -> Var:
        return next((new for old, new in stands_for.items() if buffer.same_as(old)), buffer)

    return tvm_ffi.structural_map(statement, (ir.Var, changed)) if stands_for else statement
