"""Lowering of splits and picks: each result becomes a slice, an operator of its own, which readers can read in place.

See `edgetune.graph.views` for reading in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from edgetune.graph.rewrite import DefUse, constant, rewrite


class Range(NamedTuple):
    """Indices along an axis from `begin` to `end`, exclusive."""

    axis: int
    begin: int
    end: int


def sliced(value: relax.Expr, ranges: Sequence[Range]) -> relax.Expr:
    """The slice of `value` with these ranges and step 1."""
    axes, begins, ends = zip(*ranges, strict=True)
    return relax.op.strided_slice(value, axes, begins, ends, [1] * len(ranges), assume_inbound=True)


def ranges_of(call: relax.Call) -> list[Range] | None:
    """The ranges of a slice with step 1, clipped to its operand; None for other steps."""
    shape = [int(extent) for extent in call.args[0].ty.shape]
    axes, begins, ends = ([int(field) for field in argument.fields] for argument in call.args[1:4])
    steps = [int(field) for field in call.args[4].fields] if len(call.args) > 4 else []
    if any(step != 1 for step in steps):
        return None
    ranges = []
    for axis, begin, end in zip((axis % len(shape) for axis in axes), begins, ends, strict=True):
        first, last = (index + shape[axis] if index < 0 else index for index in (begin, end))
        first, last = (min(max(index, 0), shape[axis]) for index in (first, last))
        ranges.append(Range(axis, first, max(first, last)))
    return ranges


def splits_to_slices(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrites each result of a split to a slice, and a concatenation of all results in order to the split tensor."""
    slicing = _Slicing(module)
    function = slicing.visit_expr(module["main"])
    updated = slicing.builder_.get()
    updated["main"] = relax.analysis.remove_all_unused(function)
    return rewrite(relax.transform.Normalize()(updated), _rejoin)


def pick_to_slice(call: relax.Call, _chains: DefUse, _: relax.BlockBuilder) -> relax.Expr | None:
    """take(x, constant) of one index becomes a slice, plus a reshape if the axis disappears."""
    if call.op.name != "relax.take":
        return None
    indices = constant(call.args[1])
    axis = call.attrs.axis
    if indices is None or indices.size != 1 or (axis is None and len(call.args[0].ty.shape) != 1):
        return None
    shape = [int(extent) for extent in call.args[0].ty.shape]
    number = 0 if axis is None else int(axis) % len(shape)
    index = int(np.ravel(indices)[0])
    if not 0 <= index < shape[number]:
        return None
    element = sliced(call.args[0], [Range(number, index, index + 1)])
    return relax.op.reshape(element, [int(extent) for extent in call.ty.shape])


@mutator
class _Slicing(PyExprMutator):
    def visit_tuple_getitem_(self, item: relax.TupleGetItem) -> relax.Expr:
        split = self.lookup_binding(item.tuple_value) if isinstance(item.tuple_value, relax.Var) else None
        if not isinstance(split, relax.Call) or getattr(split.op, "name", "") != "relax.split":
            return super().visit_tuple_getitem_(item)
        axis = int(split.attrs.axis) % len(item.ty.shape)
        extents = [int(part.shape[axis]) for part in split.ty.fields]
        begin = sum(extents[: item.index])
        return sliced(split.args[0], [Range(axis, begin, begin + extents[item.index])])


def _rejoin(call: relax.Call, chains: DefUse, _: relax.BlockBuilder) -> relax.Expr | None:
    """concat(.., slice(x), slice(x), ..) of all of x, in order, becomes concat(.., x, ..), or x."""
    if call.op.name != "relax.concat" or not isinstance(call.args[0], relax.Tuple):
        return None
    axis = int(call.attrs.axis) % len(call.ty.shape)
    operands = list(call.args[0].fields)
    for first in range(len(operands)):
        for end in range(len(operands), first + 1, -1):
            source = _sliced_tensor(operands[first:end], axis, chains)
            if source is not None:
                joined = [*operands[:first], source, *operands[end:]]
                return source if len(joined) == 1 else relax.op.concat(joined, axis)
    return None


def _sliced_tensor(operands: Sequence[relax.Expr], axis: int, chains: DefUse) -> relax.Expr | None:
    """The tensor of which the slices `operands`, in order, make up all; None if they are no such slices."""
    end, source = 0, None
    for operand in operands:
        call = chains.call(operand, "relax.strided_slice")
        ranges = None if call is None else ranges_of(call)
        if call is None or ranges is None or len(ranges) != 1 or (source is not None and call.args[0] != source):
            return None
        source = call.args[0]
        if (ranges[0].axis, ranges[0].begin) != (axis, end):
            return None
        end = ranges[0].end
    return source if source is not None and end == int(source.ty.shape[axis]) else None
