"""Transpose folding: kernels read and write transposed tensors in place, without a copy first.

Products of run-time matrices: attention heads are the main case, in which axes of positions and heads are swapped
before and after each product. A register tile only needs the last axis of its right-hand operand and of its output to
stay last.

The first convolution reads a channels-first image directly: a register tile loads its input as single numbers and
broadcasts them, so the order of the input axes does not matter. With many channels it does: each step of the sum reads
other lines of the cache, one for each row of the tile, and the lines of a window no longer fit into L1.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax, te, topi

from edgetune.graph.fold_constant import permutation
from edgetune.graph.rewrite import DefUse, constant, rewrite
from edgetune.graph.te_call import call_fusable
from edgetune.tvm_types import Attrs, Expr, Var

_TO_CHANNELS_LAST = [0, 2, 3, 1]
_MANY_CHANNELS = 16


def fold_transposes(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrites transpose(matmul(a, b)), then matmul(a, b) of transposed operands, to one kernel each.

    Applies if both operands have the same rank, none is constant, and every transpose keeps the last axis last. A
    transposed operand that has other readers is still copied for them.
    """
    return rewrite(rewrite(module, _transposed_product), _product)


def _transposed_product(call: relax.Call, chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
    found = transposed_product(call, chains)
    return None if found is None else _folded(*found, chains, builder)


def _product(call: relax.Call, chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
    if call.op.name != "relax.matmul" or all(folded_operand(argument, chains)[1] is None for argument in call.args):
        return None
    return _folded(call, list(range(len(call.ty.shape))), chains, builder)


def _folded(product: relax.Call, axes: list[int], chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
    left, right = product.args
    rank = len(product.ty.shape)
    if any(constant(operand) is not None or len(operand.ty.shape) != rank for operand in (left, right)):
        return None
    left, left_axes = folded_operand(left, chains)
    right, right_axes = folded_operand(right, chains)
    whole = list(range(rank))
    return call_fusable(builder, matmul, left, right, left_axes or whole, right_axes or whole, axes)


def folded_operand(operand: relax.Expr, chains: DefUse) -> tuple[relax.Expr, list[int] | None]:
    """The tensor that an operand transposes, and the axes; the operand itself and None if it cannot be folded."""
    call = chains.call(operand, "relax.permute_dims")
    axes = None if call is None else kept_last(call)
    return (operand, None) if call is None or axes is None else (call.args[0], axes)


def transposed_product(call: relax.Call, chains: DefUse) -> tuple[relax.Call, list[int]] | None:
    """The matmul that only this transpose reads, and its axes, which keep the last one last; None for other calls."""
    if call.op.name != "relax.permute_dims" or not chains.used_once(call.args[0]):
        return None
    product = chains.call(call.args[0], "relax.matmul")
    axes = kept_last(call)
    return None if product is None or axes is None else (product, axes)


def kept_last(call: relax.Call) -> list[int] | None:
    """The axes of a transpose that keeps the last axis last; None for any other."""
    axes = permutation(call)
    return axes if axes[-1] == len(axes) - 1 else None


def matmul(
    left: te.Tensor,
    right: te.Tensor,
    left_axes: Sequence[int],
    right_axes: Sequence[int],
    axes: Sequence[int],
    name: str = "matmul",
) -> te.Tensor:
    """transpose(transpose(left, left_axes) @ transpose(right, right_axes), axes), with axis lists as in numpy.

    Ranks are equal, batch axes broadcast, and the sum is over K of (.., M, K) and (.., K, N). `name` is the stage's
    name.
    """
    left_shape = [left.shape[axis] for axis in left_axes]
    right_shape = [right.shape[axis] for axis in right_axes]
    batch = [b if int(a) == 1 else a for a, b in zip(left_shape[:-2], right_shape[:-2], strict=True)]
    shape = [*batch, left_shape[-2], right_shape[-1]]
    k = te.reduce_axis((0, left_shape[-1]), name="k")

    def element(*index: Var) -> te.Tensor:
        place = transposed(index, axes)
        return te.sum(
            _at(left, left_axes, left_shape, [*place[:-1], k])
            * _at(right, right_axes, right_shape, [*place[:-2], k, place[-1]]),
            axis=k,
        )

    return te.compute([shape[axis] for axis in axes], element, name=name)


def transposed(index: Sequence[Expr], axes: Sequence[int]) -> list[Expr]:
    """The index in a tensor of the element that is at `index` in its transpose by `axes`."""
    return [index[list(axes).index(axis)] for axis in range(len(axes))]


def _at(tensor: te.Tensor, axes: Sequence[int], shape: Sequence[object], place: Sequence[object]) -> te.Tensor:
    """The element at `place` of transpose(tensor, axes), which has `shape`; axes that broadcast have index 0."""
    index: list[object] = [0] * len(axes)
    for number, axis in enumerate(axes):
        broadcast = int(shape[number]) == 1  # type: ignore[call-overload]
        index[axis] = 0 if broadcast else place[number]
    return tensor(*index)


def fold_input_transposes(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrites conv2d(transpose(input)) to one kernel if the input has few channels, as an image."""
    inputs = set(module["main"].params)

    def rule(call: relax.Call, chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
        if call.op.name != "relax.nn.conv2d" or call.attrs.data_layout != "NHWC":
            return None
        transposed = chains.call(call.args[0], "relax.permute_dims")
        if transposed is None or permutation(transposed) != _TO_CHANNELS_LAST:
            return None
        if int(call.args[0].ty.shape[-1]) >= _MANY_CHANNELS:
            return None
        if transposed.args[0] not in inputs or constant(call.args[1]) is None:
            return None
        return call_fusable(builder, conv2d, transposed.args[0], call.args[1], call.attrs)

    return rewrite(module, rule)


def conv2d(data: te.Tensor, weights: te.Tensor, attrs: Attrs) -> te.Tensor:
    """Convolution of data (N, C, H, W) with weights (O, KH, KW, I) to (N, H, W, O)."""
    batch, channels, height, width = data.shape
    converted = te.compute((batch, height, width, channels), lambda n, h, w, c: data[n, c, h, w], name="channels_last")
    strides, padding, dilation = ([int(v) for v in a] for a in (attrs.strides, attrs.padding, attrs.dilation))
    return topi.nn.conv(
        converted, weights, strides, padding, dilation, int(attrs.groups), "NHWC", "OHWI", str(data.dtype)
    )
