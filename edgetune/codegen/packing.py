"""Weight packing: the constant layout that a schedule wants, as a recipe that numpy executes at build time.

Schedules express it as blocks that copy a parameter into another shape ("layout_rewrite_preproc"). This module removes
these blocks from the function, gives the parameter the packed shape, and describes the copy as a `PackedLayout`: plain
data without TVM objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import variables_in
from edgetune.codegen.intrinsics import operator
from edgetune.codegen.lower import sole_function
from edgetune.errors import KernelFailed
from edgetune.tvm_types import Expr, SBlock, Stmt, TvmBuffer, Var

_ANNOTATION = "meta_schedule.layout_rewrite_preproc"

# An index expression: ("axis", n), ("const", value) or (operator, left, right).
Index = tuple[Any, ...]

_OPERATORS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.mod,
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "and": np.logical_and,
    "or": np.logical_or,
}
_NODES: dict[type, str] = {
    tirx.Add: "+", tirx.Sub: "-", tirx.Mul: "*", tirx.FloorDiv: "//", tirx.FloorMod: "%", tirx.LT: "<", tirx.LE: "<=",
    tirx.EQ: "==", tirx.And: "and", tirx.Or: "or",
}  # fmt: skip


@dataclass(frozen=True)
class PackedLayout:
    """How one constant is packed: for every point of `extents`, packed[to] = source[at] where `guard` holds.

    Elements that no point writes are zero.
    """

    source_shape: tuple[int, ...]
    packed_shape: tuple[int, ...]
    extents: tuple[int, ...]
    at: tuple[Index, ...]
    to: tuple[Index, ...]
    guard: Index | None = None

    def apply(self, source: np.ndarray) -> np.ndarray:
        """`source` (of `source_shape`, any dtype) packed.

        Raises KernelFailed for another shape, and for a layout in which two elements share a place.
        """
        if source.shape != self.source_shape:
            raise KernelFailed(f"a constant of shape {source.shape} cannot be packed as one of {self.source_shape}")
        axes = list(np.ogrid[tuple(slice(extent) for extent in self.extents)]) if self.extents else []
        packed = np.zeros(self.packed_shape, source.dtype)
        at = [_evaluate(index, axes) for index in self.at]
        to = tuple(_evaluate(index, axes) for index in self.to)
        inside = np.asarray(True)
        if self.guard is not None:
            inside = _evaluate(self.guard, axes)
            at = [np.clip(index, 0, extent - 1) for index, extent in zip(at, self.source_shape, strict=True)]
        moved = np.where(inside, np.arange(source.size).reshape(source.shape)[tuple(at)], -1)
        owner = np.full(self.packed_shape, -1)
        owner[to] = moved
        if not np.array_equal(owner[to], np.broadcast_to(moved, owner[to].shape)):
            raise KernelFailed("a schedule packs two elements of a constant into one place: delete its record")
        packed[to] = np.where(inside, source[tuple(at)], np.zeros((), source.dtype))
        return packed


def _evaluate(index: Index, axes: list[np.ndarray]) -> np.ndarray:
    if index[0] == "axis":
        return axes[index[1]]
    if index[0] == "const":
        return np.asarray(index[1], np.int64)
    return _OPERATORS[index[0]](_evaluate(index[1], axes), _evaluate(index[2], axes))


def split_packing(mod: tvm.IRModule) -> tuple[tvm.IRModule, dict[int, PackedLayout]]:
    """(module without packing blocks, {parameter index: its layout}); parameters not listed keep their shape.

    The parameter of a packed constant then has the packed shape. Raises KernelFailed if a packing block does more than
    copy one parameter.
    """
    function = sole_function(mod)
    copies = _packing_blocks(function.body)
    if not copies:
        return mod, {}
    layouts: dict[int, PackedLayout] = {}
    for block in copies:
        number, layout = _layout(block, list(function.params))
        if number in layouts and layouts[number] != layout:
            raise KernelFailed("a schedule packs one constant in two ways")
        layouts[number] = layout
    packed = s_tir.transform.RemoveWeightLayoutRewriteBlock(True)(_as_plain_copies(mod))
    for number, layout in layouts.items():
        shape = tuple(int(extent) for extent in sole_function(packed).params[number].ty.shape)
        if shape != layout.packed_shape:
            raise KernelFailed(f"a packed constant has shape {shape} where {layout.packed_shape} was wanted")
    return packed, layouts


def _as_plain_copies(mod: tvm.IRModule) -> tvm.IRModule:
    """The module whose packing blocks copy whatever variables index: TVM's pass, which removes them, wants that."""
    plain = tvm_ffi.structural_map(sole_function(mod), (s_tir.SBlock, _plain_copy), order="post")
    return tvm.IRModule({"main": plain})


def _plain_copy(block: SBlock) -> SBlock:
    if _ANNOTATION not in block.annotations:
        return block
    store = block.body
    value = store.value.args[1] if isinstance(store.value, ir.Call) else store.value
    if value.same_as(store.value) and all(isinstance(index, ir.Var) for index in value.indices):
        return block
    indices = [tirx.Var(f"index_{number}", index.ty) for number, index in enumerate(value.indices)]
    return s_tir.SBlock(
        block.iter_vars,
        block.reads,
        block.writes,
        block.name_hint,
        tirx.BufferStore(store.buffer, tirx.BufferLoad(value.source, indices), list(store.indices)),
        block.init,
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
    )


def _packing_blocks(body: Stmt) -> list[SBlock]:
    found: list[SBlock] = []
    while isinstance(body, s_tir.SBlockRealize) and _ANNOTATION not in body.block.annotations:
        body = body.block.body
    statements = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    for statement in statements:
        inner = statement
        while isinstance(inner, tirx.For):
            inner = inner.body
        if isinstance(inner, s_tir.SBlockRealize) and _ANNOTATION in inner.block.annotations:
            found.append(inner.block)
    return found


def _layout(block: SBlock, params: list[TvmBuffer]) -> tuple[int, PackedLayout]:
    store = block.body
    if not isinstance(store, tirx.BufferStore):
        raise KernelFailed("a packing block does more than copy: this schedule cannot be packed at build time")
    axes: dict[Var, int] = {}
    extents: list[int] = []
    for number, axis in enumerate(block.iter_vars):
        axes[axis.var] = number
        extents.append(int(axis.dom.extent))
        if int(axis.dom.min) != 0:
            raise KernelFailed("a packing block starts at an index other than zero")
    value, guard = store.value, None
    if isinstance(value, ir.Call) and operator(value) == "if_then_else":
        guard = _index(value.args[0], axes)
        if float(getattr(value.args[2], "value", 1)) != 0:
            raise KernelFailed("a packing block pads with something other than zero")
        value = value.args[1]
    if not isinstance(value, ir.TensorLoad) or value.source not in params:
        raise KernelFailed("a packing block copies something other than a parameter")
    written: set[Var] = set()
    variables_in(store.indices, written)
    if any(extents[number] > 1 and axis not in written for axis, number in axes.items()):
        raise KernelFailed("a packing block writes several elements of a constant to one place")
    source = value.source
    number = next(n for n, param in enumerate(params) if param.same_as(source))
    return number, PackedLayout(
        source_shape=tuple(int(extent) for extent in source.ty.shape),
        packed_shape=tuple(int(extent) for extent in store.buffer.ty.shape),
        extents=tuple(extents),
        at=tuple(_index(index, axes) for index in value.indices),
        to=tuple(_index(index, axes) for index in store.indices),
        guard=guard,
    )


def _index(e: Expr, axes: dict[Var, int]) -> Index:
    if isinstance(e, tirx.IntImm):
        return ("const", int(e.value))
    if isinstance(e, ir.Var) and e in axes:
        return ("axis", axes[e])
    if isinstance(e, tirx.Cast):
        return _index(e.value, axes)
    sign = _NODES.get(type(e))
    if sign is None:
        raise KernelFailed(f"a packing block uses an index that cannot be evaluated: {type(e).__name__}")
    return (sign, _index(e.a, axes), _index(e.b, axes))
