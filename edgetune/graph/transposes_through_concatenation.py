"""Transpose motion through slices and concatenations: networks that split and join channels stay channels last.

TVM's layout pass stops at a reshape, as in channel shuffles. After it, the halves are channels first, and are
transposed each time a convolution reads or writes them. Here, transposes of all slices of a tensor become one transpose
of the tensor, and a transpose of one operand of a concatenation becomes one of the result, until they meet their
inverse transposes. If the transposes of the result do not move fewer elements, the module stays unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from math import prod

import tvm
import tvm_ffi
from tvm import relax

from edgetune.graph.axis_order import from_model, to_model
from edgetune.graph.fold_constant import permutation
from edgetune.graph.layer_names import pass_marks_on
from edgetune.graph.rewrite import Rule, View, rewrite
from edgetune.graph.slices import Range, ranges_of, sliced

_TRANSPOSE, _SLICE = "relax.permute_dims", "relax.strided_slice"
_ROUNDS = 20


def through_pieces(module: tvm.IRModule, rule: Rule, elementwise: Collection[str]) -> tvm.IRModule:
    """`module` with transposes moved through slices and concatenations, and `rule` applied to what they meet there.

    `elementwise` are the operators through which `rule` moves transposes.
    """
    if not _has_pieces(module):
        return module
    before, moved = _moved_elements(_merged(module)), module
    for _ in range(_ROUNDS):
        last = moved
        moved = rewrite(moved, _either(rule, _before_slice, partial(_behind_concatenation, elementwise)))
        moved = _merged(moved)
        if tvm_ffi.structural_equal(last, moved):
            break
    return moved if _moved_elements(moved) < before else module


def _merged(module: tvm.IRModule) -> tvm.IRModule:
    """`module` after common subexpression elimination."""
    merged = pass_marks_on(relax.transform.EliminateCommonSubexpr()(module))
    return relax.transform.CanonicalizeBindings()(merged)


def _either(*rules: Rule) -> Rule:
    def rule(call: relax.Call, view: View, builder: relax.BlockBuilder) -> relax.Expr | None:
        return next((found for one in rules if (found := one(call, view, builder)) is not None), None)

    return rule


def _before_slice(call: relax.Call, view: View, _: relax.BlockBuilder) -> relax.Expr | None:
    """transpose(slice(x)) becomes slice(transpose(x)) if x has no other readers than such slices."""
    cut = view.call(call.args[0], _SLICE) if call.op.name == _TRANSPOSE else None
    if cut is None or not isinstance(cut.args[0], relax.Var) or not view.computed(cut.args[0]):
        return None
    axes, ranges, source = permutation(call), ranges_of(cut), cut.args[0]
    if ranges is None or not all(_is_transposed_slice(reader, axes, view) for reader in view.readers(source)):
        return None
    if not view.read_only(source):
        return None
    there = [Range(axes.index(axis), begin, end) for axis, begin, end in ranges]
    return sliced(relax.op.permute_dims(source, axes), there)


def _is_transposed_slice(value: relax.Var, axes: list[int], view: View) -> bool:
    if view.call(value, _SLICE) is None or not view.read_only(value):
        return False
    readers = [view.call(reader, _TRANSPOSE) for reader in view.readers(value)]
    return all(reader is not None and permutation(reader) == axes for reader in readers)


def _behind_concatenation(
    elementwise: Collection[str], call: relax.Call, view: View, builder: relax.BlockBuilder
) -> relax.Expr | None:
    """concat(f(transpose(x)), y) along channels, where x is channels last: a transpose of a channels-last concat."""
    if call.op.name != "relax.concat" or not isinstance(call.args[0], relax.Tuple):
        return None
    rank, operands = len(call.ty.shape), list(call.args[0].fields)
    axes = to_model(rank, "channels_last")
    # Only along axis 1: the rewritten concatenation is along the last axis, so the rewriting terminates.
    if (
        rank < 3
        or int(call.attrs.axis) % rank != 1
        or not any(_transposed_by(o, axes, view, elementwise) for o in operands)
    ):
        return None
    back = from_model(rank, "channels_last")
    joined = relax.op.concat([builder.emit(relax.op.permute_dims(operand, back)) for operand in operands], rank - 1)
    return relax.op.permute_dims(joined, axes)


def _transposed_by(value: relax.Expr, axes: Sequence[int], view: View, elementwise: Collection[str]) -> bool:
    """Whether `value` is a transpose by `axes`, ignoring elementwise operators with constants."""
    while (call := view.call(value)) is not None and view.used_once(value):
        if call.op.name == _TRANSPOSE:
            return permutation(call) == list(axes)
        operands = [argument for argument in call.args if view.computed(argument)]
        if call.op.name not in elementwise or len(operands) != 1:
            return False
        value = operands[0]
    return False


def _calls(module: tvm.IRModule, visit: Callable[[relax.Call], None]) -> None:
    view = View(module["main"])
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            call = view.call(binding.value)
            if call is not None:
                visit(call)


def _has_pieces(module: tvm.IRModule) -> bool:
    names: set[str] = set()
    _calls(module, lambda call: names.add(call.op.name))
    return "relax.concat" in names or _SLICE in names


def _moved_elements(module: tvm.IRModule) -> int:
    """Number of elements that the transposes of a module move."""
    sizes = [0]

    def visit(call: relax.Call) -> None:
        if call.op.name == _TRANSPOSE:
            sizes.append(prod(int(extent) for extent in call.ty.shape))

    _calls(module, visit)
    return sum(sizes)
