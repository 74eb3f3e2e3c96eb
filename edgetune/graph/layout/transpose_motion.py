"""Transpose motion: transposes move towards the inputs, through other operators, until they meet their inverse.

Elementwise operators: the transpose of a result becomes one of the operand, and constants are transposed now. The
transpose of a convolution moves back to the end, behind the elementwise operators, so that they become a part of the
convolution's kernel.

Reshapes that split or join axes, as in networks that shuffle their channels: a transpose after such a reshape moves
before it if it meets another transpose there. Of the three transposes of a shuffle between two channels-last
convolutions one is left, and it moves only channels. Of two transposes around a reshape (pixels made of channels), one
is left too.

Slices and concatenations: TVM's layout pass stops at a reshape, as in channel shuffles. After it, the halves are
channels first, and are transposed each time a convolution reads or writes them. Here, transposes of all slices of a
tensor become one transpose of the tensor, and a transpose of one operand of a concatenation becomes one of the result.
If the transposes of the result do not move fewer elements, the module stays unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import prod

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from edgetune.graph.fold_constant import permutation
from edgetune.graph.layer_names import pass_marks_on
from edgetune.graph.layout.axis_order import from_model, to_model
from edgetune.graph.rewrite import DefUse, constant, constant_of, rewrite
from edgetune.graph.views.lower_splits import Range, ranges_of, sliced

_TRANSPOSE, _SLICE = "relax.permute_dims", "relax.strided_slice"
_ELEMENTWISE = frozenset(
    f"relax.{name}"
    for name in (
        *("add", "subtract", "multiply", "divide", "maximum", "minimum"),
        *("astype", "round", "exp", "tanh", "sigmoid", "abs", "negative", "sqrt", "nn.relu"),
        *("clip", "nn.leakyrelu"),  # TVM 0.27's layout pass leaves these in the model's order
    )
)
_CONVOLUTIONS = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
_ROUNDS = 20


def move_transposes(module: tvm.IRModule) -> tvm.IRModule:
    """`module` with fewer transposes, or with transposes of smaller tensors."""
    return rewrite(_moved_up(module), _after_convolution)


def _moved_up(module: tvm.IRModule) -> tvm.IRModule:
    module = rewrite(module, _move_up)
    if not _has_slices_or_concatenations(module):
        return module
    before, moved = _moved_elements(merged(module)), module
    for _ in range(_ROUNDS):
        last = moved
        moved = merged(rewrite(moved, _move_up_or_join))
        if tvm_ffi.structural_equal(last, moved):
            break
    return moved if _moved_elements(moved) < before else module


def merged(module: tvm.IRModule) -> tvm.IRModule:
    """`module` after common subexpression elimination: of several equal transposes of a tensor, one is left."""
    merged = pass_marks_on(relax.transform.EliminateCommonSubexpr()(module))
    return relax.transform.CanonicalizeBindings()(merged)


def _move_up_or_join(call: relax.Call, chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
    for rule in (_move_up, _before_slice, _after_concatenation):
        if (replacement := rule(call, chains, builder)) is not None:
            return replacement
    return None


def _move_up(call: relax.Call, chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
    """transpose(f(x, constant)) becomes f(transpose(x), transposed constant): fewer and often smaller transposes.

    transpose(transpose(x)) becomes one, also with a reshape between them; a transpose that only moves axes of extent 1
    becomes a reshape, which is free.
    """
    if call.op.name != _TRANSPOSE:
        return None
    axes = permutation(call)
    source = chains.call(call.args[0])
    if source is not None and source.op.name == _TRANSPOSE:
        first = permutation(source)
        return relax.op.permute_dims(source.args[0], [first[a] for a in axes])
    if source is not None and (moved := _before_reshape(call, chains)) is not None:
        return moved
    moved = _before_elementwise(source, axes, chains, call.args[0], builder)
    shape = [int(e) for e in call.args[0].ty.shape]
    if moved is None and [a for a in axes if shape[a] != 1] == sorted(a for a in axes if shape[a] != 1):
        return relax.op.reshape(call.args[0], [shape[a] for a in axes])
    return moved


def _before_elementwise(
    source: relax.Call | None, axes: list[int], chains: DefUse, value: relax.Expr, builder: relax.BlockBuilder
) -> relax.Expr | None:
    if source is None or source.op.name not in _ELEMENTWISE or not chains.used_once(value):
        return None
    variables = [a for a in source.args if _is_tensor(a) and constant(a) is None]
    if len(variables) != 1 or len(variables[0].ty.shape) != len(axes):
        return None
    moved = [_transposed(a, axes, builder) for a in source.args]
    if any(m is None for m in moved):
        return None
    return relax.Call(source.op, moved, source.attrs)


def _after_convolution(call: relax.Call, chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
    """f(transpose(convolution), constant) becomes transpose(f(convolution, transposed constant))."""
    if call.op.name not in _ELEMENTWISE:
        return None
    variables = [a for a in call.args if _is_tensor(a) and constant(a) is None]
    transposed = chains.call(variables[0], _TRANSPOSE) if len(variables) == 1 else None
    if transposed is None or not chains.used_once(variables[0]) or not _of_convolution(transposed.args[0], chains):
        return None
    axes = permutation(transposed)
    inverse = [axes.index(axis) for axis in range(len(axes))]
    if list(call.ty.shape) != list(transposed.ty.shape):
        return None
    moved = [transposed.args[0] if a.same_as(variables[0]) else _transposed(a, inverse, builder) for a in call.args]
    if any(m is None for m in moved):
        return None
    return relax.op.permute_dims(relax.Call(call.op, moved, call.attrs), axes)


def _of_convolution(value: relax.Expr, chains: DefUse) -> bool:
    """Whether `value` is a convolution, or elementwise operators of one with constants."""
    while (call := chains.call(value)) is not None:
        if call.op.name in _CONVOLUTIONS:
            return True
        variables = [a for a in call.args if _is_tensor(a) and constant(a) is None]
        if call.op.name not in _ELEMENTWISE or len(variables) != 1:
            return False
        value = variables[0]
    return False


def _is_tensor(argument: relax.Expr) -> bool:
    return isinstance(argument.ty, relax.TensorType)  # a bound of clip is a number


def _transposed(argument: relax.Expr, axes: list[int], builder: relax.BlockBuilder) -> relax.Expr | None:
    if not _is_tensor(argument):
        return argument
    value = constant(argument)
    if value is None:
        return builder.emit(relax.op.permute_dims(argument, axes))
    if value.ndim == 0:
        return argument
    if value.ndim > len(axes):
        return None
    aligned = value.reshape((1,) * (len(axes) - value.ndim) + value.shape)
    return constant_of(np.ascontiguousarray(aligned.transpose(axes)))


def _before_reshape(call: relax.Call, chains: DefUse) -> relax.Expr | None:
    """transpose(reshape(x)) with the transpose, or its part that moves whole axes of x, before the reshape.

    None if it meets no other transpose there.
    """
    reshape = chains.call(call.args[0], "relax.reshape")
    if reshape is None or not chains.used_once(call.args[0]):
        return None
    source, axes = reshape.args[0], permutation(call)
    before, after = ([int(extent) for extent in value.ty.shape] for value in (source, call.args[0]))
    joined = _groups(after, before)
    if joined is not None and chains.call(source, _TRANSPOSE) is not None and chains.used_once(source):
        moved = relax.op.permute_dims(source, [fine for axis in axes for fine in joined[axis]])
        return relax.op.reshape(moved, [after[axis] for axis in axes])
    split = _groups(before, after)
    if split is None:
        return None
    moved = _whole_axes_first(source, axes, after, split, chains)
    return _of_untransposed(source, axes, after, split, chains) if moved is None else moved


def _whole_axes_first(
    source: relax.Expr, axes: Sequence[int], shape: Sequence[int], split: Sequence[Sequence[int]], chains: DefUse
) -> relax.Expr | None:
    """The transpose by `axes` of the axes of `source`, split to `shape`: moves whole axes first, then their parts."""
    owner = {part: axis for axis, parts in enumerate(split) for part in parts}
    order = [axis for axis, _ in groupby(owner[part] for part in axes)]
    if len(order) != len(split) or order == sorted(order) or not _meets_inverse(source, order, chains):
        return None
    parts = [part for axis in order for part in split[axis]]
    moved = relax.op.reshape(relax.op.permute_dims(source, order), [shape[part] for part in parts])
    inner = [parts.index(part) for part in axes]
    return moved if inner == sorted(inner) else relax.op.permute_dims(moved, inner)


def _of_untransposed(
    source: relax.Expr, axes: Sequence[int], shape: Sequence[int], split: Sequence[Sequence[int]], chains: DefUse
) -> relax.Expr | None:
    """The transpose by `axes` of `source`, split to `shape`, as a transpose of the operand that `source` transposes."""
    inner = chains.call(source, _TRANSPOSE)
    if inner is None or chains.call(inner.args[0], _TRANSPOSE) is not None:
        return None  # two transposes become one first; otherwise this one would move back and forth
    first = permutation(inner)
    parts = [part for axis in range(len(first)) for part in split[first.index(axis)]]
    whole = relax.op.reshape(inner.args[0], [shape[part] for part in parts])
    return relax.op.permute_dims(whole, [parts.index(part) for part in axes])


def _meets_inverse(value: relax.Expr, axes: Sequence[int], chains: DefUse) -> bool:
    """Whether a transpose by `axes` of `value`, moved towards the inputs, meets its inverse."""
    while (call := chains.call(value)) is not None:
        if not chains.used_once(value):
            return False
        if call.op.name == _TRANSPOSE:
            first = permutation(call)
            return [first[axis] for axis in axes] == list(range(len(axes)))
        operands = [argument for argument in call.args if constant(argument) is None]
        if call.op.name not in _ELEMENTWISE or len(operands) != 1 or len(operands[0].ty.shape) != len(axes):
            return False
        if any(value.ndim > len(axes) for value in map(constant, call.args) if value is not None):
            return False
        value = operands[0]
    return False


def _groups(whole: Sequence[int], parts: Sequence[int]) -> list[list[int]] | None:
    """For each axis of `whole`, the adjacent axes of `parts` that it is split into; None if it is no such split."""
    found: list[list[int]] = []
    place = 0
    for extent in whole:
        group: list[int] = []
        while place < len(parts) and (not group or prod(parts[part] for part in group) < extent):
            group.append(place)
            place += 1
        if not group or prod(parts[part] for part in group) != extent:
            return None
        found.append(group)
    if found and all(extent == 1 for extent in parts[place:]):
        found[-1] += range(place, len(parts))
        return found
    return None


def _before_slice(call: relax.Call, chains: DefUse, _: relax.BlockBuilder) -> relax.Expr | None:
    """transpose(slice(x)) becomes slice(transpose(x)) if x has no other readers than such slices."""
    read = chains.call(call.args[0], _SLICE) if call.op.name == _TRANSPOSE else None
    if read is None or not isinstance(read.args[0], relax.Var) or not chains.computed(read.args[0]):
        return None
    axes, ranges, source = permutation(call), ranges_of(read), read.args[0]
    if ranges is None or not all(_is_transposed_slice(reader, axes, chains) for reader in chains.readers(source)):
        return None
    if not chains.read_only(source):
        return None
    transposed_ranges = [Range(axes.index(axis), begin, end) for axis, begin, end in ranges]
    return sliced(relax.op.permute_dims(source, axes), transposed_ranges)


def _is_transposed_slice(value: relax.Var, axes: list[int], chains: DefUse) -> bool:
    if chains.call(value, _SLICE) is None or not chains.read_only(value):
        return False
    readers = [chains.call(reader, _TRANSPOSE) for reader in chains.readers(value)]
    return all(reader is not None and permutation(reader) == axes for reader in readers)


def _after_concatenation(call: relax.Call, chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
    """concat(f(transpose(x)), y) along channels, where x is channels last: a transpose of a channels-last concat."""
    if call.op.name != "relax.concat" or not isinstance(call.args[0], relax.Tuple):
        return None
    rank, operands = len(call.ty.shape), list(call.args[0].fields)
    axes = to_model(rank, "channels_last")
    # Only along axis 1: the rewritten concatenation is along the last axis, so the rewriting terminates.
    if rank < 3 or int(call.attrs.axis) % rank != 1 or not any(_is_transposed_by(o, axes, chains) for o in operands):
        return None
    back = from_model(rank, "channels_last")
    joined = relax.op.concat([builder.emit(relax.op.permute_dims(operand, back)) for operand in operands], rank - 1)
    return relax.op.permute_dims(joined, axes)


def _is_transposed_by(value: relax.Expr, axes: Sequence[int], chains: DefUse) -> bool:
    """Whether `value` is a transpose by `axes`, ignoring elementwise operators with constants."""
    while (call := chains.call(value)) is not None and chains.used_once(value):
        if call.op.name == _TRANSPOSE:
            return permutation(call) == list(axes)
        operands = [argument for argument in call.args if chains.computed(argument)]
        if call.op.name not in _ELEMENTWISE or len(operands) != 1:
            return False
        value = operands[0]
    return False


def _calls(module: tvm.IRModule) -> Iterator[relax.Call]:
    chains = DefUse(module["main"])
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            call = chains.call(binding.value)
            if call is not None:
                yield call


def _has_slices_or_concatenations(module: tvm.IRModule) -> bool:
    return any(call.op.name in {"relax.concat", _SLICE} for call in _calls(module))


def _moved_elements(module: tvm.IRModule) -> int:
    """Number of elements that the transposes of a module move."""
    return sum(prod(int(extent) for extent in call.ty.shape) for call in _calls(module) if call.op.name == _TRANSPOSE)
