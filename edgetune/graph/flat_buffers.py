"""Flat buffers: TVM's pass that makes one row of every buffer, without what it makes of indices that divide.

It reads such an index as a sum of splits of loops, and takes `i % 2` and `(i + 1) % 2` for the same split: in TVM 0.27,
`(i + 1) % 2 * 3 + i % 2 * 2` becomes `(i + 1) % 2 * 5`. It leaves a call alone, so the index is the operand of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import tvm
import tvm_ffi
from tvm import ir, tirx

from edgetune.tvm_types import BufferLoad, BufferStore, Expr, Pass, PrimFunc, TvmBuffer

_CALLED = "edgetune.index"
_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)


@cache
def flatten_buffers() -> Pass:
    """`FlattenBuffer`, after which an index that divides is as before, only flat."""
    return tvm.transform.Sequential(
        [_access_pass(_hidden, "HideIndices"), tirx.transform.FlattenBuffer(), _access_pass(_shown, "ShowIndices")]
    )


def _access_pass(indices_of: Callable[[TvmBuffer, Sequence[Expr]], Sequence[Expr]], name: str) -> Pass:
    """A pass that changes the indices of all loads and stores, or returns them as they are."""

    def load(one: BufferLoad) -> BufferLoad:
        old = one.indices
        indices = indices_of(one.source, old)
        return one if indices is old else tirx.BufferLoad(one.source, indices)

    def store(one: BufferStore) -> BufferStore:
        old = one.indices
        indices = indices_of(one.buffer, old)
        return one if indices is old else tirx.BufferStore(one.buffer, one.value, indices)

    def change(function: PrimFunc, module: tvm.IRModule, context: object) -> PrimFunc:
        del module, context
        return tvm_ffi.structural_map(function, [(ir.TensorLoad, load), (tirx.BufferStore, store)], order="post")

    return tirx.transform.prim_func_pass(change, opt_level=0, name=f"edgetune.{name}")


def _hidden(buffer: TvmBuffer, indices: Sequence[Expr]) -> Sequence[Expr]:
    """Zeros, and as the last index the offset of the element, as the operand of a call."""
    found: list[Expr] = []
    for index in indices:
        tvm_ffi.structural_walk(index, (_DIVISIONS, found.append))
    if not found:
        return indices
    (flat,) = buffer.offset_of(list(indices))
    dtype = str(flat.ty.dtype)
    return [*(tirx.IntImm(dtype, 0) for _ in indices[1:]), tirx.call_pure_extern(dtype, _CALLED, flat)]


def _shown(_: TvmBuffer, indices: Sequence[Expr]) -> Sequence[Expr]:
    match list(indices):
        case [ir.Call(args=[ir.StringImm(value=name), flat])] if name == _CALLED:
            return [flat]
    return indices
