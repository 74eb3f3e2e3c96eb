"""Maxima from minus infinity and minima from infinity, as ONNX has them: TVM factors only those from finite numbers.

Its list of reductions that may be divided begins a maximum at the lowest finite number. So a function is scheduled with
that number, and the scheduled program begins at infinity again.
"""

from __future__ import annotations

from math import inf

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from edgetune.tvm_types import BufferStore, Expr, IRModule, PrimFunc, SBlock

_INFINITE = "edgetune.infinite_starts"


def with_finite_starts(function: PrimFunc) -> PrimFunc:
    """`function` for scheduling: maxima and minima begin at finite numbers, and an attribute says so."""
    changed: list[bool] = []

    def block(node: SBlock) -> SBlock:
        first = node.init
        if not isinstance(first, tirx.BufferStore) or not _is_infinite(first.value) or not _is_extreme(node, first):
            return node
        changed.append(True)
        dtype = str(first.value.ty.dtype)
        least = tirx.min_value(dtype) if first.value.value < 0 else tirx.max_value(dtype)
        return s_tir.SBlock(
            node.iter_vars,
            node.reads,
            node.writes,
            node.name_hint,
            node.body,
            tirx.BufferStore(first.buffer, least, first.indices),
            node.alloc_buffers,
            node.match_buffers,
            node.annotations,
        )

    made = tvm_ffi.structural_map(function, (s_tir.SBlock, block))
    return made.with_attr(_INFINITE, True) if changed else function


def with_infinite_starts(mod: IRModule) -> IRModule:
    """The scheduled module of such a function, whose maxima and minima begin at infinity again."""
    function = mod["main"]
    if not function.attrs or _INFINITE not in function.attrs:
        return mod

    def store(node: BufferStore) -> BufferStore:
        value = _infinite(node.value)
        return node if value is None else tirx.BufferStore(node.buffer, value, node.indices)

    changed = tvm_ffi.structural_map(function, (tirx.BufferStore, store))
    return tvm.IRModule({"main": changed.without_attr(_INFINITE)})


def _is_extreme(block: SBlock, first: BufferStore) -> bool:
    """Whether a block takes the largest of its terms from minus infinity on, or the least from infinity on."""
    store = block.body
    kind = tirx.Max if first.value.value < 0 else tirx.Min
    return isinstance(store, tirx.BufferStore) and isinstance(store.value, kind)


def _is_infinite(value: Expr) -> bool:
    return isinstance(value, tirx.FloatImm) and abs(value.value) == inf


def _infinite(value: Expr) -> Expr | None:
    """The infinity that the lowest or the largest finite number stands for; None for other values."""
    if not isinstance(value, tirx.FloatImm):
        return None
    dtype = str(value.ty.dtype)
    if value.value == tirx.min_value(dtype).value:
        return tirx.const(-inf, dtype)
    return tirx.const(inf, dtype) if value.value == tirx.max_value(dtype).value else None
