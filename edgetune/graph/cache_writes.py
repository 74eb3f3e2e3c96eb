"""Writes into a cache: a state of which a run writes rows at a number that is an input, such as keys and values.

A decoder step writes one row of its cache, and reads all of it. Its model says so with an operator that makes a whole
tensor of another one: TensorScatter, or ScatterND with one index. Where the tensors are a state and its next value, the
operator becomes a row write, which `row_writes.py` does in place.

A number out of range is taken for the nearest one; ONNX leaves it open. A negative index of ScatterND counts from the
end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import tvm
from tvm import relax, te, tirx

from edgetune.graph.kernels import ROWS_AT
from edgetune.graph.rewrite import DefUse, tensor_of
from edgetune.graph.row_functions import row_write
from edgetune.graph.te_call import call_fusable

Numbers = dict[tuple[relax.Expr, tuple[int, ...], int], relax.Expr]
"""Numbers of rows by index, the extents that it counts, and whether it is circular."""


@dataclass(frozen=True)
class CacheWrite:
    """A call that makes the next value of a cache: of memory, rows and an index, with the shapes of a row write.

    The index has a number for each of some axes, whose extents are `indexed`; a `circular` one is taken modulo these.
    """

    call: relax.Call
    memory: relax.Expr
    rows: relax.Expr
    index: relax.Expr
    shape: tuple[int, ...]
    written: tuple[int, ...]
    axis: int
    indexed: tuple[int, ...]
    circular: bool = False

    def rewritten(
        self, builder: relax.BlockBuilder, visit: Callable[[relax.Expr], relax.Expr], numbers: Numbers
    ) -> relax.Expr:
        """The row write; `numbers` has those that others have computed already."""
        memory, rows = (
            builder.emit(relax.op.reshape(visit(one), list(shape)))
            for one, shape in ((self.memory, self.shape), (self.rows, self.written))
        )
        index, circular = visit(self.index), int(self.circular)
        if (index, self.indexed, circular) not in numbers:
            made = call_fusable(builder, row_number, index, list(self.indexed), circular, alone=True)
            numbers[index, self.indexed, circular] = made
        number = numbers[index, self.indexed, circular]
        written = call_fusable(builder, row_write, memory, rows, number, self.axis, 1, alone=True)
        return relax.op.reshape(written, list(tensor_of(self.call.ty)[0]))


def cache_write(state: relax.Var, result: relax.Expr, chains: DefUse, module: tvm.IRModule) -> CacheWrite | None:
    """The write that makes the next value `result` of a state, if that alone reads the state; None for any other."""
    call = _behind_reshapes(result, chains)
    if call is None or call.op.name != "relax.call_tir" or not chains.used_once(state):
        return None
    function, operands = module[call.args[0]], list(call.args[1].fields)
    if not _is_reshaped(operands[0], state, chains) or len(operands) != 3:
        return None
    shapes = [tensor_of(one.ty)[0] for one in operands]
    axis, circular = (function.attrs or {}).get(ROWS_AT, (None, 0))
    if axis is None:
        return None
    if axis >= 0:
        memory, rows, index = operands
        fits = prod(shapes[2]) == 1 and (not circular or shapes[1][axis] == 1)
        if not fits:
            return None
        return CacheWrite(call, memory, rows, index, shapes[0], shapes[1], axis, (shapes[0][axis],), bool(circular))
    memory, index, rows = operands
    if shapes[1][0] != 1:
        return None
    indexed, rest = shapes[0][: shapes[1][-1]], prod(shapes[0][shapes[1][-1] :])
    return CacheWrite(call, memory, rows, index, (prod(indexed), rest), (1, rest), 0, indexed)


def _behind_reshapes(value: relax.Expr, chains: DefUse) -> relax.Call | None:
    call = chains.call(value)
    while call is not None and call.op.name == "relax.reshape":
        call = chains.call(call.args[0])
    return call


def _is_reshaped(value: relax.Expr, state: relax.Var, chains: DefUse) -> bool:
    """Whether `value` is the state in another shape."""
    while (call := chains.call(value, "relax.reshape")) is not None:
        value = call.args[0]
    return bool(value.same_as(state))


def row_number(index: te.Tensor, extents: list[int], circular: int) -> te.Tensor:
    """The number (int32) of a row, of an `index` with one element for each of the axes that are counted through."""
    axes = [int(extent) for extent in index.shape]

    def at(number: int) -> list[int]:
        return [number // prod(axes[axis + 1 :]) % axes[axis] for axis in range(len(axes))]

    def number() -> object:
        whole = tirx.const(0, "int32")
        for axis, extent in enumerate(extents):
            one = index(*at(axis))
            end = tirx.const(int(extent), one.ty)
            counted = tirx.Select(one < tirx.const(0, one.ty), one + end, one)
            counted = tirx.floormod(one, end) if circular else counted
            inside = tirx.max(tirx.min(counted, end - tirx.const(1, one.ty)), tirx.const(0, one.ty))
            whole = whole * tirx.const(int(extent), "int32") + tirx.Cast("int32", inside)
        return whole

    return te.compute((), number, name="row_number")
