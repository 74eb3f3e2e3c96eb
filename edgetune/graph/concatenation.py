"""Recognises kernels that only concatenate tensors."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import ir, sym, tirx

from edgetune.graph.program import Kernel


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


def concatenation_of(kernel: Kernel) -> Concatenation | None:
    """The concatenation that `kernel` computes; None if it does anything except copy elements into one output."""
    store = only_store(kernel.function)
    result = kernel.params[-1]
    if store is None or not len(kernel.params) > 1 or prod(result.shape) == 0:
        return None
    found: list[tuple[Any, int]] = []  # what is read, and its start along the axis
    axis: int | None = None
    value = store.value
    while isinstance(value, ir.Call) and str(getattr(value.op, "name", "")).endswith("if_then_else"):
        condition, behind, value = value.args
        number = _axis_of(condition, store.indices)
        if number is None or axis not in {None, number}:
            return None
        axis = number
        found.append((behind, int(condition.a.value)))
    found.append((value, 0))
    if axis is None or any(not _reads(load, store.indices, axis, start) for load, start in found):
        return None
    return _of_reads(kernel, axis, found[::-1])


def only_store(function: Any) -> Any:
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


def _of_reads(kernel: Kernel, axis: int, found: list[tuple[Any, int]]) -> Concatenation | None:
    result = kernel.params[-1]
    inner, outer = prod(result.shape[axis + 1 :]), prod(result.shape[:axis])
    end, operands = 0, []
    for load, start in found:
        number = next(n for n, param in enumerate(kernel.function.params) if param.same_as(load.source))
        shape = kernel.params[number].shape
        along = (*result.shape[:axis], shape[axis], *result.shape[axis + 1 :])
        if start != end or shape != along or not shape[axis] or kernel.params[number].dtype != result.dtype:
            return None
        operands.append(Operand(number, start * inner, shape[axis] * inner))
        end += shape[axis]
    if end != result.shape[axis] or sorted(o.parameter for o in operands) != list(range(len(kernel.params) - 1)):
        return None
    return Concatenation(outer, end * inner, tuple(operands))


def _axis_of(condition: Any, places: Any) -> int | None:
    """The axis for which `condition` says that its index is at least a constant."""
    if not isinstance(condition, tirx.LE) or not isinstance(condition.a, tirx.IntImm):
        return None
    return next((number for number, place in enumerate(places) if condition.b.same_as(place)), None)


def _reads(load: Any, places: Any, axis: int, start: int) -> bool:
    """Whether `load` reads at `places`, but with `start` subtracted along the axis."""
    if not isinstance(load, ir.TensorLoad) or len(load.indices) != len(places):
        return False
    analyzer = sym.Analyzer()
    return all(
        analyzer.can_prove_equal(index, place - start) if number == axis else index.same_as(place)
        for number, (index, place) in enumerate(zip(load.indices, places, strict=True))
    )
