"""Scale folding: folds constant scales and shifts (mostly BatchNorm) into the preceding operator's weights and bias."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from edgetune.graph.fold_constant import fold_constants
from edgetune.graph.rewrite import DefUse, constant, constant_of, rewrite

_CONVOLUTIONS = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
_LINEAR = (*_CONVOLUTIONS, "relax.matmul")


def fold_scale(module: tvm.IRModule) -> tvm.IRModule:
    """Moves constant scales and shifts into the preceding linear operator, in channels-first layout.

    scale(linear(x, W)) becomes linear(x, scale W); scale(y + b) becomes scale(y) + scale b; (y + a) + b becomes
    y + (a + b); y - b and y / s become sums and products. Applies only if the inner value has no other reader.
    """
    return rewrite(fold_constants(module), _fold)


def _variable_and_constant(call: relax.Call) -> tuple[relax.Expr, np.ndarray] | None:
    """The variable and the float constant of a binary call; the constant may come first if the operator commutes."""
    left, right = call.args
    value = constant(right)
    if value is None and call.op.name in {"relax.add", "relax.multiply"}:
        left, value = right, constant(left)
    if value is None or constant(left) is not None or value.dtype.kind != "f":
        return None
    return left, value.astype("float64")


def _is_linear(expr: relax.Expr, chains: DefUse) -> bool:
    """Whether `expr` is a linear operator, perhaps with constant shifts added, whose steps have no other reader."""
    while chains.used_once(expr):
        if chains.call(expr, *_LINEAR) is not None:
            return True
        call = chains.call(expr, "relax.add")
        parts = _variable_and_constant(call) if call is not None else None
        if parts is None:
            return False
        expr = parts[0]
    return False


def _fold(call: relax.Call, chains: DefUse, _: relax.BlockBuilder) -> relax.Expr | None:
    if call.op.name not in {"relax.add", "relax.subtract", "relax.multiply", "relax.divide"}:
        return None
    parts = _variable_and_constant(call)
    if parts is None or not _is_linear(parts[0], chains):
        return None
    inner, value = parts
    dtype = str(call.ty.dtype)
    if not _keeps_shape(call, inner):
        return None
    if call.op.name == "relax.subtract":
        return relax.op.add(inner, constant_of((-value).astype(dtype)))
    if call.op.name == "relax.divide":
        return None if not value.all() else relax.op.multiply(inner, constant_of((1.0 / value).astype(dtype)))
    previous = chains.call(inner, "relax.add")
    if call.op.name == "relax.add":
        return _merge_shifts(previous, value, dtype)
    if previous is not None:
        return _scale_shift(previous, value, dtype)
    return _scale_weights(chains.call(inner, *_LINEAR), value, dtype)


def _keeps_shape(call: relax.Call, inner: relax.Expr) -> bool:
    return [int(e) for e in call.ty.shape] == [int(e) for e in inner.ty.shape]


def _merge_shifts(previous: relax.Call | None, value: np.ndarray, dtype: str) -> relax.Expr | None:
    parts = _variable_and_constant(previous) if previous is not None else None
    if parts is None:
        return None
    return relax.op.add(parts[0], constant_of((parts[1] + value).astype(dtype)))


def _scale_shift(previous: relax.Call, value: np.ndarray, dtype: str) -> relax.Expr | None:
    parts = _variable_and_constant(previous)
    if parts is None:
        return None
    scaled = relax.op.multiply(parts[0], constant_of(value.astype(dtype)))
    return relax.op.add(scaled, constant_of((parts[1] * value).astype(dtype)))


def _scale_weights(linear: relax.Call | None, value: np.ndarray, dtype: str) -> relax.Expr | None:
    weights = None if linear is None else constant(linear.args[1])
    if linear is None or weights is None:
        return None
    rank = len(linear.ty.shape)
    packed: tuple[int, ...] = (-1,)
    if linear.op.name == "relax.matmul":
        channels, axis = weights.shape[-1], rank - 1
        if weights.ndim < 2:
            return None
    else:
        channels, axis, packed = weights.shape[0], 1, (-1, *[1] * (weights.ndim - 1))
    aligned = value.reshape((1,) * (rank - value.ndim) + value.shape)
    if aligned.size not in {1, channels} or (aligned.size > 1 and aligned.shape[axis] != channels):
        return None
    scale = np.broadcast_to(aligned.reshape(-1), (channels,)).reshape(packed)
    return relax.Call(
        linear.op, [linear.args[0], constant_of((weights.astype("float64") * scale).astype(dtype))], linear.attrs
    )
