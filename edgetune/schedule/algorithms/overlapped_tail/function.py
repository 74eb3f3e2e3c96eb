"""Construction of an overlapped-tail function: a kernel's function with one axis stretched to whole blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import is_one, mentions
from edgetune.graph.reduction_stage import with_fields
from edgetune.schedule.algorithms.overlapped_tail.overlap import Overlap
from edgetune.schedule.sketches.block_analysis import BlockAnalysis, BlockStage, block_of, extent_of, statements_of
from edgetune.schedule.sketches.tile import COPIED_COLUMNS
from edgetune.tvm_types import (
    BufferLoad,
    BufferStore,
    Expr,
    IterVar,
    Node,
    PrimFunc,
    SBlock,
    Stmt,
    TvmBuffer,
    Var,
)


def weight_axis(stage: BlockStage, weights: TvmBuffer, axis: int) -> int | None:
    """The axis of the parameter `weights` that `stage` indexes with its spatial axis `axis`; None if there is none."""
    variable = stage.spatial[axis].var
    regions = [region.region for region in stage.block.reads if region.source.same_as(weights)]
    if len(regions) != 1 or sum(mentions(item.min, variable) for item in regions[0]) != 1:
        return None
    return next((n for n, item in enumerate(regions[0]) if item.min.same_as(variable)), None)


def reads_in_step(stages: Sequence[BlockStage], axes: Sequence[int]) -> bool:
    """Whether each stage reads earlier stages, along `axes`, exactly at the index that it writes."""
    written: list[TvmBuffer] = []
    for stage in stages:
        for region in stage.reads():
            if any(region.source.same_as(buffer) for buffer in written) and not all(
                is_one(region.region[axis].extent) and region.region[axis].min.same_as(stage.spatial[axis].var)
                for axis in axes
            ):
                return False
        written.append(stage.block.writes[0].source)
    return True


@dataclass
class Stretching:
    """Builds a function that computes the same as that of `analysis`, with `stages` run for each place of one axis.

    `stages` are the reduction and all stages after it. `axes` numbers the spatial axes that become the stretched one:
    one axis, or two adjacent ones, which then become one axis with as many elements as both together; -1 is the last
    axis of each stage. `own_axes` has the stages, by name, whose axes have other numbers; those of reductions, which
    follow the spatial ones, run over all places of stretched tensors alone. `weights` maps parameter numbers to the
    axis of each that is stretched too; `copied` does so for run-time tensors, of which a stage makes a stretched copy.
    Tensors between stages are stretched; other parameters are accessed at the element of the place. The stages `once`
    are 0 at places whose element a block before has. Stages `later` have elements: they read the first place of each.
    `attributes` are the function attributes that state which sizes keep elements of a block adjacent.
    """

    analysis: BlockAnalysis
    stages: Sequence[BlockStage]
    axes: Sequence[int]
    overlap: Overlap
    weights: Mapping[int, int]
    attributes: Mapping[str, int]
    copied: Mapping[int, int] = field(default_factory=dict)
    own_axes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    once: Collection[str] = ()
    later: Sequence[BlockStage] = ()
    _wide: list[tuple[TvmBuffer, TvmBuffer]] = field(
        default_factory=list, init=False
    )  # (original buffer, stretched buffer)

    def function(self) -> PrimFunc:
        """The PrimFunc."""
        unstretched, last = self.analysis.function, self.stages[-1]
        root = unstretched.body.block
        for number, axis in self.weights.items():
            self._widen(unstretched.params[number], (axis,))
        copies = [
            (unstretched.params[number], self._widen(unstretched.params[number], (axis,)), axis)
            for number, axis in self.copied.items()
        ]
        output = last.block.writes[0].source
        spatial = [stage for stage in self.stages if self._axes(stage)[0] < len(stage.spatial)]
        inner = [stage for stage in spatial if stage is not last or self.later]
        between = [self._widen(stage.block.writes[0].source, self._axes(stage)) for stage in inner]
        if last.reduction and not self.later:  # two blocks share elements of the output: sums are a separate tensor
            between.append(self._widen(output, self._axes(last), f"{last.name}_sums"))
        statements = [
            statement
            for statement in statements_of(root.body)
            if not any(block_of(statement).same_as(stage.block) for stage in (*self.stages, *self.later))
        ]
        statements += [self._copy_of(*copy) for copy in copies]
        statements += [self._nest(stage) for stage in self.stages]
        if last.reduction and not self.later:
            statements.append(self._copy(last))
        later = [stage.block for stage in self.later]
        statements += [
            self._at_elements(one) for one in statements_of(root.body) if any(map(block_of(one).same_as, later))
        ]
        kept = [buffer for buffer in root.alloc_buffers if self._widened(buffer) is None]
        made_of_params = [wide for _, wide, _ in copies]
        block = s_tir.SBlock([], [], [], "root", tirx.SeqStmt(statements), None, [*kept, *made_of_params, *between])
        original = [output, *(source for source, _, _ in copies)]
        params = [p if any(p.same_as(one) for one in original) else self._widened(p, p) for p in unstretched.params]
        realize = s_tir.SBlockRealize([], True, block)
        made = s_tir.renew_defs(tirx.PrimFunc(params, realize, unstretched.ret_type, unstretched.attrs))
        for name, value in self.attributes.items():
            made = made.with_attr(name, value)
        return made

    def _axes(self, stage: BlockStage) -> list[int]:
        axes = self.own_axes.get(stage.name, self.axes)
        return [axis % len(stage.spatial) if axis < 0 else axis for axis in axes]

    def _widen(self, buffer: TvmBuffer, axes: Sequence[int], name: str = "") -> TvmBuffer:
        shape = list(buffer.ty.shape)
        shape[axes[0] : axes[-1] + 1] = [tirx.IntImm(str(shape[axes[0]].ty.dtype), self.overlap.extent)]
        wide = tirx.decl_buffer(shape, str(buffer.ty.dtype), name or buffer.name)
        self._wide.append((buffer, wide))
        return wide

    def _widened(self, buffer: TvmBuffer, otherwise: TvmBuffer = None) -> TvmBuffer:
        return next((new for old, new in self._wide if old.same_as(buffer)), otherwise)

    def _nest(self, stage: BlockStage) -> Stmt:
        moved = _Moved(self._replaced(stage), self.overlap, self._wide)
        axes, replaced = [*stage.spatial, *stage.reduction], self._axes(stage)
        first, last = replaced[0], replaced[-1]
        kept = [*axes[:first], *axes[last + 1 :]]
        variables, extents = [axis.var for axis in kept], [extent_of(axis) for axis in kept]
        kinds = [int(axis.iter_type) for axis in kept]
        variables.insert(first, moved.place)
        extents.insert(first, self.overlap.extent)
        kinds.insert(first, int(axes[first].iter_type))
        block = stage.block
        reads, writes = ([moved.region(region) for region in regions] for regions in (block.reads, block.writes))
        init = None if block.init is None else moved.statement(block.init)
        body = moved.statement(block.body)
        if stage.name in self.once:
            first = self.overlap.is_first(moved.place)
            value = tirx.Select(first, body.value, tirx.const(0, str(body.value.ty.dtype)))
            body = tirx.BufferStore(body.buffer, value, body.indices)
        return loops_around(stage.name, variables, extents, kinds, s_tir.SBlock([], reads, writes, "", body, init))

    def _copy_of(self, source: TvmBuffer, wide: TvmBuffer, axis: int) -> Stmt:
        """Copy `source` to `wide`, whose `axis` is stretched."""
        variables = [tirx.Var(f"v_{letter}", "int32") for letter in "cdefgh"[: len(wide.shape)]]
        at = [self.overlap.element_of(one) if number == axis else one for number, one in enumerate(variables)]
        body = tirx.BufferStore(wide, tirx.BufferLoad(source, at), variables)
        reads, writes, note = [point_region(source, at)], [point_region(wide, variables)], {COPIED_COLUMNS: True}
        block = s_tir.SBlock([], reads, writes, "", body, annotations=note)
        extents, spatial = [int(extent) for extent in wide.shape], [0] * len(variables)  # tirx.IterVar.DataPar
        return loops_around(f"{source.name}_columns", variables, extents, spatial, block)

    def _at_elements(self, statement: Stmt) -> Stmt:
        """A statement that reads stretched tensors at the first places of their elements."""

        def at(source: TvmBuffer, indices: Sequence[Expr]) -> tuple[TvmBuffer, list[Expr]]:
            wide, last = self._widened(source), len(indices) - 1
            if wide is None:
                return source, list(indices)
            return wide, [self.overlap.first_place_of(i) if n == last else i for n, i in enumerate(indices)]

        def load(node: BufferLoad) -> BufferLoad:
            return tirx.BufferLoad(*at(node.source, node.indices))

        def region(node: Node) -> Node:
            source, places = at(node.source, [item.min for item in node.region])
            extents = [item.extent for item in node.region]
            ranges = [ir.Range.from_min_extent(one, extent) for one, extent in zip(places, extents, strict=True)]
            return tirx.BufferRegion(source, ranges)

        return tvm_ffi.structural_map(statement, [(ir.TensorLoad, load), (ir.TensorRegion, region)])

    def _replaced(self, stage: BlockStage) -> list[IterVar]:
        axes = (*stage.spatial, *stage.reduction)
        return [axes[axis] for axis in self._axes(stage)]

    def _copy(self, stage: BlockStage) -> Stmt:
        """Copy the stretched sums of `stage` to its original output."""
        moved = _Moved(self._replaced(stage), self.overlap, self._wide)
        replaced = self._axes(stage)
        first = replaced[0]
        outside = [axis for number, axis in enumerate(stage.spatial) if number not in replaced]
        variables = [tirx.Var(axis.var.name, axis.var.ty) for axis in outside]  # new ones: the sums use theirs
        extents = [extent_of(axis) for axis in outside]
        at = [*variables[:first], *moved.elements, *variables[first:]]
        variables.insert(first, moved.place)
        extents.insert(first, self.overlap.extent)
        output = stage.block.writes[0].source
        wide = self._widened(output)
        body = tirx.BufferStore(output, tirx.BufferLoad(wide, variables), at)
        block = s_tir.SBlock([], [point_region(wide, variables)], [point_region(output, at)], "", body)
        kinds = [int(axis.iter_type) for axis in stage.spatial[: len(variables)]]
        return loops_around(f"{stage.name}_result", variables, extents, kinds, block)


class _Moved:
    """Statements and regions of one stage in which a place replaces the `replaced` axes."""

    def __init__(
        self, replaced: Sequence[IterVar], overlap: Overlap, wide: Sequence[tuple[TvmBuffer, TvmBuffer]]
    ) -> None:
        self._old = [axis.var for axis in replaced]
        self._overlap, self._wide = overlap, wide
        self.place = tirx.Var(self._old[-1].name, self._old[-1].ty)
        element = overlap.element_of(self.place)
        self.elements = [element]
        for axis in reversed(replaced[1:]):  # the last axis is the fastest
            extent = tirx.IntImm(str(self.place.ty.dtype), extent_of(axis))
            whole = self.elements.pop(0)
            self.elements = [tirx.floordiv(whole, extent), tirx.floormod(whole, extent), *self.elements]

    def region(self, region: Node) -> Node:
        wide = self._widened(region.source)
        indices = self._indices([self._at_place(item.min) for item in region.region], wide)
        extents = [self.statement(item.extent) for item in region.region]
        extents = extents[-len(indices) :]  # if two axes became one, both have one element
        ranges = [ir.Range.from_min_extent(index, extent) for index, extent in zip(indices, extents, strict=True)]
        return tirx.BufferRegion(region.source if wide is None else wide, ranges)

    def statement(self, statement: Stmt) -> Stmt:
        return self._renamed(self._at_place(statement))

    def _at_place(self, node: Node) -> Node:
        """`node` with its loads and stores at the place; a load may read the stretched version of its tensor."""

        def load(node: BufferLoad) -> BufferLoad:
            wide = self._widened(node.source)
            return tirx.BufferLoad(node.source if wide is None else wide, self._indices(node.indices, wide))

        def store(node: BufferStore) -> BufferStore:
            wide = self._widened(node.buffer)
            return tirx.BufferStore(
                node.buffer if wide is None else wide, node.value, self._indices(node.indices, wide)
            )

        return tvm_ffi.structural_map(node, [(ir.TensorLoad, load), (tirx.BufferStore, store)])

    def _widened(self, buffer: TvmBuffer) -> TvmBuffer:
        return next((new for old, new in self._wide if old.same_as(buffer)), None)

    def _indices(self, indices: Sequence[Expr], wide: TvmBuffer) -> list[Expr]:
        if wide is None:
            return [self._renamed(tvm_ffi.structural_map(index, [(tirx.FloorDiv, self._grouped)])) for index in indices]
        kept = [index for index in indices if not any(index.same_as(old) for old in self._old[1:])]
        return [self.place if index.same_as(self._old[0]) else index for index in kept]

    def _grouped(self, node: Expr) -> Expr:
        groups, width = self._overlap.groups, self._overlap.width
        whole = groups > 1 and node.a.same_as(self._old[0]) and isinstance(node.b, tirx.IntImm) and int(node.b) == width
        return self._overlap.group_of(self.place) if whole else node

    def _renamed(self, node: Node) -> Node:
        def rename(variable: Var) -> Var:
            found = (new for old, new in zip(self._old, self.elements, strict=True) if variable.same_as(old))
            return next(found, variable)

        return tvm_ffi.structural_map(node, [(ir.Var, rename)])


def loops_around(
    name: str, variables: Sequence[Var], extents: Sequence[int], kinds: Sequence[int], block: SBlock
) -> Stmt:
    """One loop per axis around `block`, which gets its axes and its name here."""
    types = [str(variable.ty.dtype) for variable in variables]
    zeros = [tirx.IntImm(dtype, 0) for dtype in types]
    ends = [tirx.IntImm(dtype, extent) for dtype, extent in zip(types, extents, strict=True)]
    axes = [
        tirx.IterVar(ir.Range.from_min_extent(zero, end), variable, kind)
        for zero, end, variable, kind in zip(zeros, ends, variables, kinds, strict=True)
    ]
    loops = [tirx.Var(variable.name.removeprefix("v_"), variable.ty) for variable in variables]
    named = with_fields(block, iter_vars=axes, name_hint=name)
    statement: Stmt = s_tir.SBlockRealize(loops, True, named)
    for loop, zero, end in reversed([*zip(loops, zeros, ends, strict=True)]):
        statement = tirx.For(loop, zero, end, tirx.ForKind.SERIAL, statement)
    return statement


def point_region(buffer: TvmBuffer, indices: Sequence[Expr]) -> Node:
    """The region of one element of `buffer`."""
    ranges = [ir.Range.from_min_extent(index, tirx.IntImm(str(index.ty.dtype), 1)) for index in indices]
    return tirx.BufferRegion(buffer, ranges)
