"""Copy recognition: kernels that only concatenate tensors, or only slice one, found by their loops.

Readers and writers could access such tensors in place, as parts of a larger one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tvm import ir, tirx

from edgetune.affine.domain import are_equal, simplified
from edgetune.affine.expressions import is_branch
from edgetune.graph.program import Kernel
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, PrimFunc


@dataclass(frozen=True)
class Operand:
    """A parameter, by number, whose rows of `length` elements go to element `start` of each row of the result."""

    parameter: int
    start: int
    length: int


@dataclass(frozen=True)
class Concatenation:
    """The result's rows (`outer` rows of `pitch` elements) and the operands, which are adjacent in each row."""

    outer: int
    pitch: int
    operands: tuple[Operand, ...]


@dataclass(frozen=True)
class Slice:
    """The elements that a kernel copies of its one operand: from element `offset` on, along `axes` (extent, stride)."""

    offset: int
    axes: tuple[tuple[int, int], ...]


def concatenation_of(kernel: Kernel) -> Concatenation | None:
    """The concatenation that `kernel` computes; None if it does anything except copy elements into one output."""
    store = _only_store(kernel.function)
    result = kernel.params[-1]
    if store is None or not len(kernel.params) > 1 or prod(result.shape) == 0:
        return None
    loads: list[tuple[BufferLoad, int]] = []  # each with its start along the axis
    axis: int | None = None
    value = store.value
    while is_branch(value):
        condition, load, value = value.args
        number = _axis_of(condition, store.indices)
        if number is None or axis not in {None, number}:
            return None
        axis = number
        loads.append((load, int(condition.a.value)))
    loads.append((value, 0))
    if axis is None or any(not _is_shifted(load, store.indices, axis, start) for load, start in loads):
        return None
    return _concatenation(kernel, axis, loads[::-1])


def _concatenation(kernel: Kernel, axis: int, loads: Sequence[tuple[BufferLoad, int]]) -> Concatenation | None:
    """The concatenation of what `loads` read, in the order of their starts; None if they leave gaps or overlap."""
    result = kernel.params[-1]
    inner, outer = prod(result.shape[axis + 1 :]), prod(result.shape[:axis])
    end, operands = 0, []
    for load, start in loads:
        number = next(n for n, param in enumerate(kernel.function.params) if param.same_as(load.source))
        shape = kernel.params[number].shape
        expected = (*result.shape[:axis], shape[axis], *result.shape[axis + 1 :])
        if start != end or shape != expected or not shape[axis] or kernel.params[number].dtype != result.dtype:
            return None
        operands.append(Operand(number, start * inner, shape[axis] * inner))
        end += shape[axis]
    if end != result.shape[axis] or sorted(o.parameter for o in operands) != list(range(len(kernel.params) - 1)):
        return None
    return Concatenation(outer, end * inner, tuple(operands))


def _axis_of(condition: Expr, indices: Sequence[Expr]) -> int | None:
    """The axis for which `condition` says that its index is at least a constant."""
    if not isinstance(condition, tirx.LE) or not isinstance(condition.a, tirx.IntImm):
        return None
    return next((number for number, index in enumerate(indices) if condition.b.same_as(index)), None)


def _is_shifted(load: Expr, indices: Sequence[Expr], axis: int, start: int) -> bool:
    """Whether `load` reads at `indices`, but with `start` subtracted along the axis."""
    if not isinstance(load, ir.TensorLoad) or len(load.indices) != len(indices):
        return False
    return all(
        are_equal(read, index - start) if number == axis else read.same_as(index)
        for number, (read, index) in enumerate(zip(load.indices, indices, strict=True))
    )


def slice_of(kernel: Kernel) -> Slice | None:
    """The elements that `kernel` copies, if it only copies rows of one tensor with constant distances; else None."""
    store = _only_store(kernel.function)
    if store is None or [param.role for param in kernel.params] != ["input", "output"]:
        return None
    source, result = kernel.params
    load = store.value
    if not isinstance(load, ir.TensorLoad) or len(load.indices) != len(store.indices) or prod(result.shape) == 0:
        return None
    starts = [simplified(read - index) for read, index in zip(load.indices, store.indices, strict=True)]
    if not all(isinstance(start, tirx.IntImm) for start in starts):
        return None
    strides = [prod(source.shape[axis + 1 :]) for axis in range(len(source.shape))]
    offset = sum(int(start) * stride for start, stride in zip(starts, strides, strict=True))
    axes = tuple((extent, stride) for extent, stride in zip(result.shape, strides, strict=True) if extent > 1)
    return None if axes and axes[-1][1] != 1 else Slice(offset, axes)


def _only_store(function: PrimFunc) -> BufferStore | None:
    """The only store of a function, at the indices of its block's axes; None for any other function."""
    statement = function.body
    while not isinstance(statement, tirx.BufferStore):
        if isinstance(statement, tirx.For):
            statement = statement.body
        elif hasattr(statement, "block"):
            block = statement.block
            if block.init is not None or block.alloc_buffers:
                return None
            axes, statement = block.iter_vars, block.body
        else:
            return None
    at = [axis.var for axis in axes]
    same = len(at) == len(statement.indices) and all(i.same_as(v) for i, v in zip(statement.indices, at, strict=True))
    return statement if same and statement.buffer.same_as(function.params[-1]) else None
