"""Activations before concatenations: elementwise operators move to the kernels that compute what they read.

An elementwise operator after a concatenation moves to its operands. There each becomes a part of the kernel that
computes the operand. The concatenation then only joins tensors, which costs nothing if they are written in place (see
`edgetune.graph.views`).

Between convolutions and the operator there may also be operators that only move elements, as in the interleave of a
transposed convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

import numpy as np
import tvm
from tvm import relax

from edgetune.graph.element_type import is_floating
from edgetune.graph.fold_constant import permutation
from edgetune.graph.rewrite import DefUse, constant, constant_of, rewrite
from edgetune.graph.views.lower_splits import Range, ranges_of, sliced

_ELEMENTWISE_OPERATORS = frozenset(
    f"relax.{name}"
    for name in (
        *("add", "subtract", "multiply", "maximum", "minimum", "clip", "exp", "tanh", "sigmoid", "abs", "negative"),
        *("nn.relu", "nn.leakyrelu", "nn.gelu", "nn.silu"),
    )
)
_CONVOLUTIONS = tuple(f"relax.nn.conv{rank}d" for rank in (1, 2, 3))
_POOLING = tuple(f"relax.nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))
_PRODUCERS = frozenset({*_CONVOLUTIONS, *_POOLING, *_ELEMENTWISE_OPERATORS, "relax.matmul"})
_CONCATENATION, _TRANSPOSE, _RESHAPE, _SLICE = (
    f"relax.{name}" for name in ("concat", "permute_dims", "reshape", "strided_slice")
)


def sink_activations(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrites f(concat(x, y)) to concat(f(x), f(y)) if fusion can add f to x and y, and they have no other reader.

    If convolutions compute x and y, the rewriting passes operators that only move elements.
    """
    return rewrite(module, _sink)


def _sink(call: relax.Call, chains: DefUse, _: relax.BlockBuilder) -> relax.Expr | None:
    if call.op.name not in _ELEMENTWISE_OPERATORS or not is_floating(call):
        return None
    read = _sunk_operand(call, chains)
    if read is None:
        return None
    source = chains.call(read)
    if source is None or not chains.used_once(read):
        return None
    if source.op.name == _CONCATENATION and isinstance(source.args[0], relax.Tuple):
        return _before_concatenation(call, read, source, chains)
    if source.op.name in {_TRANSPOSE, _RESHAPE, _SLICE} and _ends_at_convolutions(read, chains):
        return _before_move(call, read, source)
    return None


def _sunk_operand(call: relax.Call, chains: DefUse) -> relax.Var | None:
    """The operand through which an elementwise operator moves: the only variable, or an interleave and not the other.

    The other one is a tensor in memory: only its parts are read with those of the interleave.
    """
    variables = [argument for argument in call.args if isinstance(argument, relax.Var)]
    if any(_shape(variable) != _shape(call) for variable in variables):
        return None
    if len(variables) == 1:
        return variables[0]
    if len(variables) != len(call.args) or len(variables) > 2:
        return None
    for one, other in (variables, variables[::-1]):
        parts = _before_moves(one, chains) == _CONCATENATION or _before_moves(other, chains) == _SLICE
        if parts and _ends_at_convolutions(one, chains) and _is_convolved(other, chains):
            return one
    return None


def _before_moves(value: relax.Expr, chains: DefUse) -> str:
    """The operator that computes what transposes and reshapes make `value` of; "" if none does."""
    call = chains.call(value)
    while call is not None and call.op.name in {_TRANSPOSE, _RESHAPE}:
        call = chains.call(call.args[0])
    return "" if call is None else str(call.op.name)


def _is_convolved(value: relax.Expr, chains: DefUse) -> bool:
    """Whether a convolution computes `value`, maybe with elementwise operators and moved elements after it."""
    call = chains.call(value)
    if call is None or call.op.name in _CONVOLUTIONS:
        return call is not None
    if call.op.name == _CONCATENATION and isinstance(call.args[0], relax.Tuple):
        return all(_is_convolved(operand, chains) for operand in call.args[0].fields)
    moves = {_TRANSPOSE, _RESHAPE, _SLICE}
    return call.op.name in moves | _ELEMENTWISE_OPERATORS and any(_is_convolved(one, chains) for one in call.args)


def _before_concatenation(call: relax.Call, read: relax.Var, joined: relax.Call, chains: DefUse) -> relax.Expr | None:
    operands = list(joined.args[0].fields)
    if not all(
        (chains.used_once(operand) and chains.call(operand, *_PRODUCERS) is not None)
        or _ends_at_convolutions(operand, chains)
        for operand in operands
    ):
        return None
    axis = int(joined.attrs.axis) % len(_shape(call))
    extents = [_shape(operand)[axis] for operand in operands]
    parts: list[list[relax.Expr]] = []
    for argument in call.args:
        value = constant(argument)
        if value is not None:
            parts.append([constant_of(part) for part in _split_constant(value, axis - len(_shape(call)), extents)])
        elif argument.same_as(read):
            parts.append(operands)
        elif isinstance(argument, relax.Var):
            ends = accumulate(extents)
            parts.append([sliced(argument, [Range(axis, end - n, end)]) for end, n in zip(ends, extents, strict=True)])
        else:
            parts.append([argument] * len(operands))
    calls = [relax.Call(call.op, list(arguments), call.attrs) for arguments in zip(*parts, strict=True)]
    return relax.op.concat(calls, axis)


def _split_constant(value: np.ndarray, axis: int, extents: Sequence[int]) -> list[np.ndarray]:
    """One constant per operand; `axis` counts from the end, as in broadcasting."""
    if value.ndim < -axis or value.shape[axis] == 1:
        return [value] * len(extents)
    return [np.ascontiguousarray(part) for part in np.split(value, np.cumsum(extents)[:-1], axis)]


def _ends_at_convolutions(value: relax.Expr, chains: DefUse) -> bool:
    """Whether only operators that move elements are between `value` and convolutions, and nothing else reads them."""
    call = chains.call(value)
    if call is None or not chains.used_once(value):
        return False
    if call.op.name == _CONCATENATION and isinstance(call.args[0], relax.Tuple):
        return all(_ends_at_convolutions(operand, chains) for operand in call.args[0].fields)
    if call.op.name in {_TRANSPOSE, _RESHAPE, _SLICE}:
        return _ends_at_convolutions(call.args[0], chains)
    return call.op.name in _CONVOLUTIONS or (
        call.op.name in _ELEMENTWISE_OPERATORS
        and any(chains.computed(one) and _ends_at_convolutions(one, chains) for one in call.args)
    )


def _before_move(call: relax.Call, read: relax.Var, move: relax.Call) -> relax.Expr | None:
    """move(f(x)) instead of f(move(x)); None if a constant of f differs along elements that the move reorders."""
    arguments: list[relax.Expr] = []
    for argument in call.args:
        value = constant(argument)
        if argument.same_as(read):
            arguments.append(move.args[0])
            continue
        if isinstance(argument, relax.Var):
            other = _variable_moved_back(argument, move)
            if other is None:
                return None
            arguments.append(other)
            continue
        if value is None:
            arguments.append(argument)
            continue
        moved = value if value.ndim == 0 else _moved_back(value, _shape(read), _shape(move.args[0]), move)
        if moved is None:
            return None
        arguments.append(constant_of(np.ascontiguousarray(moved)))
    return relax.Call(move.op, [relax.Call(call.op, arguments, call.attrs), *move.args[1:]], move.attrs)


def _variable_moved_back(value: relax.Var, move: relax.Call) -> relax.Expr | None:
    if move.op.name == _TRANSPOSE:
        return relax.op.permute_dims(value, [int(axis) for axis in np.argsort(permutation(move))])
    return relax.op.reshape(value, _shape(move.args[0])) if move.op.name == _RESHAPE else None


def _moved_back(value: np.ndarray, after: list[int], before: list[int], move: relax.Call) -> np.ndarray | None:
    """What a constant, which is broadcast to the shape `after` a move, is before it."""
    aligned = value.reshape((1,) * (len(after) - value.ndim) + value.shape)
    if move.op.name == _TRANSPOSE:
        return aligned.transpose(np.argsort(permutation(move)))
    if move.op.name == _RESHAPE:
        return _reshaped_back(aligned, after, before)
    ranges = ranges_of(move)
    return None if ranges is None or any(aligned.shape[axis] > 1 for axis, _, _ in ranges) else aligned


def _reshaped_back(value: np.ndarray, after: list[int], before: list[int]) -> np.ndarray | None:
    """A constant that is broadcast to `after`, of the same rank, as one that is broadcast to `before`."""
    if not all(before) or prod(after) != prod(before):
        return None
    wide: list[int] = []
    found: list[int] = []
    for old, new in _groups(before, after):
        varies = prod(value.shape[new]) > 1
        wide += after[new] if varies else value.shape[new]
        found += before[old] if varies else [1] * len(before[old])
    return np.broadcast_to(value, wide).reshape(found)


def _groups(before: list[int], after: list[int]) -> list[tuple[slice, slice]]:
    """The shortest runs of axes of both shapes, of equally many elements, with equal products."""
    found: list[tuple[slice, slice]] = []
    first, second = 0, 0
    while first < len(before) and second < len(after):
        left, right, end, other = before[first], after[second], first + 1, second + 1
        while left != right:
            if left < right:
                left, end = left * before[end], end + 1
            else:
                right, other = right * after[other], other + 1
        found.append((slice(first, end), slice(second, other)))
        first, second = end, other
    return [*found, (slice(first, len(before)), slice(second, len(after)))]


def _shape(value: relax.Expr) -> list[int]:
    return [int(extent) for extent in value.ty.shape]
