"""Activation sinking: moves elementwise operators after a concatenation to its operands, before the concatenation.

There each becomes a part of the kernel that computes the operand. The concatenation then only joins tensors, which
costs nothing if they are written in place (see `edgetune.graph.views`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relax

from edgetune.graph.layout import CHANNELS_LAST
from edgetune.graph.rewrite import View, constant, constant_of, rewrite

_MOVED = frozenset(
    f"relax.{name}"
    for name in (
        *("add", "subtract", "multiply", "maximum", "minimum", "clip", "exp", "tanh", "sigmoid", "abs", "negative"),
        *("nn.relu", "nn.leakyrelu", "nn.gelu", "nn.silu"),
    )
)
_POOLING = (f"relax.nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))
_PRODUCERS = frozenset({*CHANNELS_LAST, *_POOLING, *_MOVED, "relax.matmul"})


def activations_first(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrites f(concat(x, y)) to concat(f(x), f(y)) if fusion can add f to x and y, and they have no other reader."""
    return rewrite(module, _rule)


def _rule(call: relax.Call, view: View, _: relax.BlockBuilder) -> relax.Expr | None:
    read = [argument for argument in call.args if isinstance(argument, relax.Var)]
    if call.op.name not in _MOVED or str(call.ty.dtype) != "float32" or len(read) != 1:
        return None
    joined = view.call(read[0], "relax.concat")
    if joined is None or not view.used_once(read[0]) or not isinstance(joined.args[0], relax.Tuple):
        return None
    operands = list(joined.args[0].fields)
    if not all(view.used_once(operand) and view.call(operand, *_PRODUCERS) is not None for operand in operands):
        return None
    shape = [int(extent) for extent in call.ty.shape]
    if shape != [int(extent) for extent in read[0].ty.shape]:
        return None
    axis = int(joined.attrs.axis) % len(shape)
    extents = [int(operand.ty.shape[axis]) for operand in operands]
    parts: list[list[relax.Expr]] = []
    for argument in call.args:
        value = constant(argument)
        if value is not None:
            parts.append([constant_of(part) for part in _split(value, axis - len(shape), extents)])
        else:
            parts.append(operands if argument.same_as(read[0]) else [argument] * len(operands))
    calls = [relax.Call(call.op, list(arguments), call.attrs) for arguments in zip(*parts, strict=True)]
    return relax.op.concat(calls, axis)


def _split(value: np.ndarray, axis: int, extents: Sequence[int]) -> list[np.ndarray]:
    """One constant per operand; `axis` counts from the end, as in broadcasting."""
    if value.ndim < -axis or value.shape[axis] == 1:
        return [value] * len(extents)
    return [np.ascontiguousarray(part) for part in np.split(value, np.cumsum(extents)[:-1], axis)]
