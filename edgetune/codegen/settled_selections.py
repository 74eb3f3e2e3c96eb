"""Settled selections: vectors between which a constant chooses, as unrolling leaves them.

A test of a place becomes a vector of equal lanes inside a vectorised loop. TVM folds `Select(true, a, b)`, but not the
same with a condition of several lanes.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx

from edgetune.graph.tvm_types import Expr, PrimFunc


@tirx.transform.prim_func_pass(opt_level=0, name="edgetune.SettledSelections")
def settled_selections(function: PrimFunc, module: tvm.IRModule, context: object) -> PrimFunc:
    """A pass: `function` without selections by a constant."""
    del module, context
    return tvm_ffi.structural_map(function, (tirx.Select, _settled))


def _settled(selection: Expr) -> Expr:
    condition = selection.condition
    if isinstance(condition, tirx.Broadcast) and isinstance(condition.value, tirx.IntImm):
        return selection.true_value if int(condition.value.value) else selection.false_value
    return selection
