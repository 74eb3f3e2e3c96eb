"""Transpose motion through reshapes that split or join axes, as in networks that shuffle their channels.

A transpose after such a reshape moves before it if it meets another transpose there. Of the three transposes of a
shuffle between two channels-last convolutions one is left, and it moves only channels. Of two transposes around a
reshape (pixels made of channels), one is left too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from math import prod

from tvm import relax

from edgetune.graph.fold_constant import permutation
from edgetune.graph.rewrite import View, constant

_TRANSPOSE = "relax.permute_dims"


def in_front_of_reshape(call: relax.Call, view: View, elementwise: Collection[str]) -> relax.Expr | None:
    """transpose(reshape(x)) with the transpose, or its part that moves whole axes of x, before the reshape.

    None if it meets no other transpose there. `elementwise` are the operators that a transpose may pass on its way.
    """
    reshape = view.call(call.args[0], "relax.reshape")
    if reshape is None or not view.used_once(call.args[0]):
        return None
    source, axes = reshape.args[0], permutation(call)
    before, after = ([int(extent) for extent in value.ty.shape] for value in (source, call.args[0]))
    joined = _groups(after, before)
    if joined is not None and view.call(source, _TRANSPOSE) is not None and view.used_once(source):
        moved = relax.op.permute_dims(source, [fine for axis in axes for fine in joined[axis]])
        return relax.op.reshape(moved, [after[axis] for axis in axes])
    split = _groups(before, after)
    if split is None:
        return None
    moved = _whole_axes_first(source, axes, after, split, view, elementwise)
    return _of_untransposed(source, axes, after, split, view) if moved is None else moved


def _whole_axes_first(
    source: relax.Expr,
    axes: Sequence[int],
    shape: Sequence[int],
    split: Sequence[Sequence[int]],
    view: View,
    elementwise: Collection[str],
) -> relax.Expr | None:
    """The transpose by `axes` of the axes of `source`, split to `shape`: moves whole axes first, then their parts."""
    owner = {part: axis for axis, parts in enumerate(split) for part in parts}
    order = [axis for axis, _ in groupby(owner[part] for part in axes)]
    if len(order) != len(split) or order == sorted(order) or not _meets_inverse(source, order, view, elementwise):
        return None
    parts = [part for axis in order for part in split[axis]]
    moved = relax.op.reshape(relax.op.permute_dims(source, order), [shape[part] for part in parts])
    inner = [parts.index(part) for part in axes]
    return moved if inner == sorted(inner) else relax.op.permute_dims(moved, inner)


def _of_untransposed(
    source: relax.Expr, axes: Sequence[int], shape: Sequence[int], split: Sequence[Sequence[int]], view: View
) -> relax.Expr | None:
    """The transpose by `axes` of `source`, split to `shape`, as a transpose of the operand that `source` transposes."""
    inner = view.call(source, _TRANSPOSE)
    if inner is None or view.call(inner.args[0], _TRANSPOSE) is not None:
        return None  # two transposes become one first; otherwise this one would move back and forth
    first = permutation(inner)
    parts = [part for axis in range(len(first)) for part in split[first.index(axis)]]
    whole = relax.op.reshape(inner.args[0], [shape[part] for part in parts])
    return relax.op.permute_dims(whole, [parts.index(part) for part in axes])


def _meets_inverse(value: relax.Expr, axes: Sequence[int], view: View, elementwise: Collection[str]) -> bool:
    """Whether a transpose by `axes` of `value`, moved towards the inputs, meets its inverse."""
    while (call := view.call(value)) is not None:
        if not view.used_once(value):
            return False
        if call.op.name == _TRANSPOSE:
            first = permutation(call)
            return [first[axis] for axis in axes] == list(range(len(axes)))
        operands = [argument for argument in call.args if constant(argument) is None]
        if call.op.name not in elementwise or len(operands) != 1 or len(operands[0].ty.shape) != len(axes):
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
