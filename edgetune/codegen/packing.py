"""Weight packing: takes the copies into a better layout out of a scheduled kernel, to be done once at build time.

The postprocessor RewriteLayout of meta_schedule puts a block in front of a kernel that copies a weight into the order in
which the loops read it. Here that block goes, the rewritten buffer becomes the parameter, and the copy becomes data.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import s_tir, tirx

from edgetune.errors import KernelFailed

_ANNOTATION = "meta_schedule.layout_rewrite_preproc"
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
}

Index = int | str | tuple[str, "Index", "Index"]
"""An index expression: a number, an axis of the source ("0", "1", ...), or an operator with two operands."""


@dataclass(frozen=True)
class PackedLayout:
    """packed[indices of (i, j, ...)] = weight[i, j, ...]; places that no element reaches hold zero."""

    source_shape: tuple[int, ...]
    shape: tuple[int, ...]
    indices: tuple[Index, ...]

    def apply(self, array: np.ndarray) -> np.ndarray:
        """`array` of `source_shape` as a new array of `shape`."""
        axes = np.ogrid[tuple(slice(extent) for extent in self.source_shape)]
        packed = np.zeros(self.shape, array.dtype)
        where = tuple(np.broadcast_to(_evaluate(index, axes), self.source_shape) for index in self.indices)
        packed[where] = array.reshape(self.source_shape)
        return packed


def split_packing(module: tvm.IRModule) -> tuple[tvm.IRModule, dict[int, PackedLayout]]:
    """A scheduled module without its packing blocks, and the layout of each weight that had one, by parameter index.

    Raises KernelFailed when a packing block does something else than to move single elements.
    """
    name, function = next((v, f) for v, f in module.functions.items() if isinstance(f, tirx.PrimFunc))
    blocks: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(
        function.body, (s_tir.SBlock, lambda b: blocks.append(b) if _ANNOTATION in b.annotations else None)
    )
    if not blocks:
        return module, {}
    layouts = {}
    for block in blocks:
        source, layout = _layout(block)
        position = next((i for i, p in enumerate(function.params) if p.same_as(source)), None)
        if position is None:
            raise KernelFailed(f"kernel {name.name_hint} packs {source.name}, which is not one of its parameters")
        layouts[position] = layout
    return s_tir.transform.RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module), layouts


def _layout(block: s_tir.SBlock) -> tuple[Any, PackedLayout]:
    store = block.body
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, tvm.ir.TensorLoad):
        raise KernelFailed("a packing block does more than move elements; this schedule cannot be built")
    load = store.value
    axes = {v.var: str(axis) for axis, index in enumerate(load.indices) for v in block.iter_vars if v.var.same_as(index)}
    if len(axes) != len(load.indices):
        raise KernelFailed("a packing block reads its weight out of order; this schedule cannot be built")
    source = load.source
    return source, PackedLayout(
        tuple(int(e) for e in source.shape),
        tuple(int(e) for e in store.buffer.shape),
        tuple(_index(i, axes) for i in store.indices),
    )


def _index(expression: Any, axes: dict[Any, str]) -> Index:
    if isinstance(expression, tirx.IntImm):
        return int(expression)
    if isinstance(expression, tirx.Var) and expression in axes:
        return axes[expression]
    kind = type(expression).__name__
    if kind not in _OPERATORS:
        raise KernelFailed(f"a packing block uses {kind} in an index; this schedule cannot be built")
    return kind, _index(expression.a, axes), _index(expression.b, axes)


def _evaluate(index: Index, axes: Any) -> Any:
    if isinstance(index, tuple):
        return _OPERATORS[index[0]](_evaluate(index[1], axes), _evaluate(index[2], axes))
    return index if isinstance(index, int) else axes[int(index)]
