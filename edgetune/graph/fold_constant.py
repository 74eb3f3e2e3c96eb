"""Constant folding: numpy folds operators that only move data; TVM folds all others, and compiles each one for that."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from edgetune.graph.rewrite import DefUse, constant, constant_of, rewrite

_RESHAPES = frozenset({"relax.reshape", "relax.expand_dims", "relax.squeeze", "relax.flatten"})


def fold_constants(module: tvm.IRModule) -> tvm.IRModule:
    """Evaluates every operator of `main` whose operands are all constant."""
    return relax.transform.FoldConstant()(rewrite(module, _moves_data))


def permutation(call: relax.Call) -> list[int]:
    """The axes of a `permute_dims` call as non-negative numbers; a call without axes reverses them."""
    rank = len(call.args[0].ty.shape)
    return [int(a) % rank for a in call.attrs.axes] if call.attrs.axes is not None else list(range(rank))[::-1]


def _moves_data(call: relax.Call, _chains: DefUse, _builder: relax.BlockBuilder) -> relax.Expr | None:
    value = constant(call.args[0]) if call.args else None
    if value is None:
        return None
    if call.op.name == "relax.permute_dims":
        return constant_of(np.ascontiguousarray(value.transpose(permutation(call))))
    if call.op.name in _RESHAPES and call.ty.shape is not None:
        return constant_of(value.reshape([int(e) for e in call.ty.shape]))
    return None
