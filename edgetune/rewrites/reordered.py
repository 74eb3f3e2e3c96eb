"""Stages whose tensors have another order in memory: one axis of a tensor comes last, and may be padded.

Rows of whole lines of a cache begin at one, so that few vectors lie in two. What fills the last line is never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import is_among, mentions
from edgetune.graph.element_type import element_bytes
from edgetune.schedule.algorithms.overlapped_tail.function import loops_around, point_region
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of, stage_of
from edgetune.schedule.tile_costs import LINE
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, IterVar, Node, Stmt, TvmBuffer

_MOST_FILL = 1.2
"""Rows become whole lines where they grow by no more: of 24 elements, 32 would take a third more of each cache."""


class OrderConflict(Exception):  # noqa: N818 - no error: the expression keeps its order
    """A tensor is wanted in two orders."""


class Orders:
    """Tensors one of whose axes moves to the end, and which may have more elements along it."""

    def __init__(self) -> None:
        self._found: list[tuple[TvmBuffer, int, TvmBuffer]] = []
        self._in_lines: list[TvmBuffer] = []

    def add(self, buffer: TvmBuffer, axis: int | None, padded: int = 0, *, lines: bool = False) -> None:
        """Move `axis` of `buffer` to the end, with `padded` elements if that is not 0; these are zero.

        `lines`: in memory, its rows are whole lines of a cache, unless they would grow by too much. Raises
        OrderConflict for an axis of None, and where another one moves already.
        """
        if axis is None:
            raise OrderConflict
        known = self.axis(buffer)
        if known is None:
            shape = _to_end(list(buffer.ty.shape), axis)
            line = LINE // element_bytes(buffer)
            whole = -(-int(shape[-1]) // line) * line
            lines = lines and whole <= _MOST_FILL * int(shape[-1])
            extent = whole if lines else padded
            shape = [*shape[:-1], extent] if extent else shape
            word = "last" if axis < len(shape) - 1 else "padded"
            moved = tirx.decl_buffer(shape, str(buffer.ty.dtype), f"{buffer.name}_{word}")
            self._found.append((buffer, axis, moved))
            if lines:
                self._in_lines.append(buffer)
        elif known != axis:
            raise OrderConflict

    def axis(self, buffer: TvmBuffer) -> int | None:
        """The axis of `buffer` that moves; None if none does."""
        return next((axis for old, axis, _ in self._found if old.same_as(buffer)), None)

    def moved(self, buffer: TvmBuffer) -> TvmBuffer:
        """The tensor that stands for `buffer`, which is itself where no axis moves."""
        return next((new for old, _, new in self._found if old.same_as(buffer)), buffer)

    def indices(self, buffer: TvmBuffer, indices: Sequence[Node]) -> list[Node]:
        """Indices, ranges or extents of `buffer` in the order of its `moved` tensor."""
        axis = self.axis(buffer)
        return list(indices) if axis is None else _to_end(list(indices), axis)

    def buffers(self) -> list[TvmBuffer]:
        """All buffers with an axis that moves."""
        return [old for old, _, _ in self._found]

    def stage(self, stage: BlockStage, name: str, summed: Sequence[IterVar]) -> Stmt:
        """The stage called `name` with its tensors in their new order, and its loops in that of what it writes.

        `summed` are its reduction axes in the order of their loops.
        """

        def load(node: BufferLoad) -> BufferLoad:
            return tirx.BufferLoad(self.moved(node.source), self.indices(node.source, node.indices))

        def store(node: BufferStore) -> BufferStore:
            return tirx.BufferStore(self.moved(node.buffer), node.value, self.indices(node.buffer, node.indices))

        def changed(node: Node) -> Node:
            return tvm_ffi.structural_map(node, [(ir.TensorLoad, load), (tirx.BufferStore, store)])

        def region(item: Node) -> Node:
            return tirx.BufferRegion(self.moved(item.source), self.indices(item.source, item.region))

        block = stage.block
        reads, writes = ([region(item) for item in regions] for regions in (block.reads, block.writes))
        init = None if block.init is None else changed(block.init)
        made = s_tir.SBlock([], reads, writes, "", changed(block.body), init)
        written = block.writes[0].source
        axes = [*self.indices(written, stage.spatial), *summed]
        extents = [extent_of(one) for one in axes]
        if self.axis(written) is not None:
            extents[len(stage.spatial) - 1] = int(self.moved(written).ty.shape[-1])
        return loops_around(name, [one.var for one in axes], extents, [int(one.iter_type) for one in axes], made)

    def copy(self, buffer: TvmBuffer, *, repeated: bool = False) -> Stmt:
        """A stage that copies a tensor to its new order; padding is zero, or the last element `repeated`."""
        other = self.moved(buffer)
        target = _variables(other)
        axis = self.axis(buffer) or 0
        source = [*target[:axis], target[-1], *target[axis:-1]]
        value: Expr = tirx.BufferLoad(buffer, source)
        extent, padded = int(buffer.ty.shape[axis]), int(other.ty.shape[-1])
        if is_among(buffer, self._in_lines):
            padded = extent
        if padded > extent and repeated:
            source[axis] = tirx.min(target[-1], extent - 1)
            value = tirx.BufferLoad(buffer, source)
        elif padded > extent:
            zero = tirx.const(0, str(buffer.ty.dtype))
            value = tirx.if_then_else(target[-1] < extent, value, zero)
        return _copying(str(other.name), (buffer, source), (other, target), value, padded)

    def copy_back(self, buffer: TvmBuffer) -> Stmt:
        """A stage that copies a tensor from its new order, without its padding."""
        target = _variables(buffer)
        source = self.indices(buffer, target)
        value = tirx.BufferLoad(self.moved(buffer), source)
        word = "first" if self.axis(buffer) != len(target) - 1 else "whole"
        last = int(buffer.ty.shape[-1])
        return _copying(f"{buffer.name}_{word}", (self.moved(buffer), source), (buffer, target), value, last)


def _to_end(items: list[Node], axis: int) -> list[Node]:
    return [*items[:axis], *items[axis + 1 :], items[axis]]


def _variables(buffer: TvmBuffer) -> list[Expr]:
    return [tirx.Var(f"v_ax{place}", "int32") for place in range(len(buffer.ty.shape))]


def _copying(
    name: str, source: tuple[TvmBuffer, list[Expr]], target: tuple[TvmBuffer, list[Expr]], value: Expr, last: int
) -> Stmt:
    """A stage that copies; `last` is the extent of the last axis."""
    body = tirx.BufferStore(target[0], value, target[1])
    block = s_tir.SBlock([], [point_region(*source)], [point_region(*target)], "", body)
    extents = [*(int(extent) for extent in target[0].ty.shape[:-1]), last]
    return loops_around(name, target[1], extents, [0] * len(extents), block)


def written_by(stage: BlockStage) -> TvmBuffer:
    """The buffer that a stage writes."""
    return stage.block.writes[0].source


def elements_of(buffer: TvmBuffer) -> int:
    """The number of elements of a tensor."""
    return prod(int(extent) for extent in buffer.ty.shape)


def made_stage(statement: Stmt) -> BlockStage:
    """The stage of a statement that a rule has made."""
    stage = stage_of(statement)
    assert stage is not None, "what a rule makes is a stage"  # noqa: S101
    return stage


def mentioned(region: Node, axis: IterVar) -> bool:
    """Whether the place of a read depends on `axis`."""
    return any(mentions(item.min, axis.var) for item in region.region)


def place_of(region: Node, axis: IterVar) -> int | None:
    """The only index of a read that depends on `axis`, if it is exactly that; None otherwise."""
    found = [n for n, item in enumerate(region.region) if mentions(item.min, axis.var)]
    return found[0] if len(found) == 1 and region.region[found[0]].min.same_as(axis.var) else None
