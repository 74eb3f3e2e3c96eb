"""Peeled reductions: whole vectors of a contiguous reduction axis, then the rest, then both together.

A sum of 1000 terms has lanes of 8, because nothing wider divides it. Peeled, 62 vectors of 16 lanes come first and one
of 8 after them. The order of the additions changes, and the error bound of the sum becomes smaller (see
`edgetune.schedule.rules.factored_reduction`).
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.graph.element_type import type_of
from edgetune.graph.kernels import FREE_LAYOUTS, with_free_layouts
from edgetune.graph.reduction_stage import is_zero_constant
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.overlapped_tail.function import loops_around, point_region
from edgetune.schedule.algorithms.schedule_text import size_of
from edgetune.schedule.rules.factored_reduction import contiguous_axes
from edgetune.schedule.sketches.block_analysis import (
    BlockStage,
    analyse_blocks,
    block_of,
    extent_of,
    lanes_in,
    statements_of,
)
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, Node, PrimFunc, Stmt, TvmBuffer, Var

_JOINS = (tirx.Add, tirx.Max, tirx.Min)

_SHORT = 2
"""Terms of a rest up to which they are added one by one."""


def peeled_algorithm(function: PrimFunc, name: str) -> Algorithm | None:
    """The algorithm called `name` ("peeled_" and the bits of a vector) of an unscheduled PrimFunc.

    None if no reduction has a contiguous axis that is longer than a vector and not whole vectors.
    """
    analysis = analyse_blocks(function)
    lanes = lanes_in(size_of(name), function)
    if analysis is None or lanes == 1:
        return None
    axes = {stage.name: _axis(stage, lanes) for stage in analysis.reductions}
    if not any(axis is not None for axis in axes.values()):
        return None
    root = function.body.block
    statements: list[Stmt] = []
    buffers: list[TvmBuffer] = list(root.alloc_buffers)
    for statement in statements_of(root.body):
        stage = next(one for one in analysis.stages if one.block.same_as(block_of(statement)))
        axis = axes.get(stage.name)
        if axis is None:
            statements.append(statement)
            continue
        parts, between = _peeled(stage, axis, lanes)
        statements += parts
        buffers += between
    block = s_tir.SBlock([], [], [], "root", tirx.SeqStmt(statements), None, buffers)
    body = s_tir.SBlockRealize([], True, block)
    made = tirx.PrimFunc(function.params, body, function.ret_type, function.attrs)
    return Algorithm(name, s_tir.renew_defs(_without_shared_layouts(made, statements)))


def _without_shared_layouts(function: PrimFunc, statements: Sequence[Stmt]) -> PrimFunc:
    """`function` without the free layouts of constants that several parts read: TVM packs a tensor for one of them."""
    free = [int(number) for number in (function.attrs or {}).get(FREE_LAYOUTS, [])]
    reads = [region.source for statement in statements for region in block_of(statement).reads]
    return with_free_layouts(function, [n for n in free if sum(map(function.params[n].same_as, reads)) == 1])


def _axis(stage: BlockStage, lanes: int) -> int | None:
    """The number of the reduction axis to peel: the longest contiguous one."""
    store = stage.block.body
    if not stage.spatial or not stage.writes_its_axes() or not isinstance(store, tirx.BufferStore):
        return None
    if not isinstance(store.value, _JOINS):
        return None
    if isinstance(store.value, tirx.Add) and not is_zero_constant(stage.block.init.value):
        return None  # both parts would begin with it
    if not isinstance(store.value.a, ir.TensorLoad) or not store.value.a.source.same_as(store.buffer):
        return None
    extents = stage.reduction_extents
    axis = max(contiguous_axes(stage), key=lambda number: extents[number], default=None)
    return axis if axis is not None and extents[axis] > lanes and extents[axis] % lanes else None


def _peeled(stage: BlockStage, axis: int, lanes: int) -> tuple[list[Stmt], list[TvmBuffer]]:
    """The statements of a stage in two parts and their join, and the buffers of the parts."""
    extent = stage.reduction_extents[axis]
    rest = extent % lanes
    overlap = lanes - rest if rest > _SHORT and rest.bit_count() > 1 else 0
    whole = _part(stage, axis, range(extent - rest), "whole")
    parts = [whole, _part(stage, axis, range(extent - rest - overlap, extent), "rest", overlap)]
    buffers = [buffer for _, buffer in parts]
    output = stage.block.writes[0].source
    places = [tirx.Var(one.var.name, one.var.ty) for one in stage.spatial]
    joined = type(stage.block.body.value)(*(tirx.BufferLoad(buffer, places) for buffer in buffers))
    reads = [point_region(buffer, places) for buffer in buffers]
    block = s_tir.SBlock([], reads, [point_region(output, places)], "", tirx.BufferStore(output, joined, places))
    kinds = [int(one.iter_type) for one in stage.spatial]
    join = loops_around(stage.name, places, list(stage.spatial_extents), kinds, block)
    return [*(statement for statement, _ in parts), join], buffers


def _part(stage: BlockStage, axis: int, part: range, word: str, overlap: int = 0) -> tuple[Stmt, TvmBuffer]:
    """The stage over a `part` of a reduction axis, into a buffer of its own; a sum leaves out the first `overlap`."""
    output = stage.block.writes[0].source
    buffer = tirx.decl_buffer(output.ty.shape, type_of(output), f"{output.name}_{word}")
    axes = [*stage.spatial, *stage.reduction]
    variables = [tirx.Var(one.var.name, one.var.ty) for one in axes]  # new ones: the other part has its own
    places: list[Expr] = list(variables)
    moved = len(stage.spatial) + axis
    counted = variables[moved]
    if part.start:
        places[moved] = counted + tirx.IntImm(str(counted.ty.dtype), part.start)

    def load(node: BufferLoad) -> BufferLoad:
        return tirx.BufferLoad(buffer, node.indices) if node.source.same_as(output) else node

    def store(node: BufferStore) -> BufferStore:
        value = node.value
        if overlap and isinstance(value, tirx.Add):
            value = value.a + tirx.Select(counted >= overlap, value.b, tirx.const(0, type_of(output)))
        return tirx.BufferStore(buffer, value, node.indices)

    def rename(variable: Var) -> Expr:
        found = (place for one, place in zip(axes, places, strict=True) if variable.same_as(one.var))
        return next(found, variable)

    def at_place(node: Node) -> Node:
        renamed = tvm_ffi.structural_map(node, [(ir.Var, rename)])
        return tvm_ffi.structural_map(renamed, [(ir.TensorLoad, load), (tirx.BufferStore, store)])

    def region(item: Node) -> Node:
        source = buffer if item.source.same_as(output) else item.source
        return tirx.BufferRegion(
            source, [ir.Range.from_min_extent(at_place(one.min), at_place(one.extent)) for one in item.region]
        )

    extents = [extent_of(one) for one in axes]
    extents[moved] = len(part)
    block = stage.block
    made = s_tir.SBlock(
        [],
        [region(r) for r in block.reads],
        [region(w) for w in block.writes],
        "",
        at_place(block.body),
        at_place(block.init),
    )
    kinds = [int(one.iter_type) for one in axes]
    return loops_around(f"{stage.name}_{word}", variables, extents, kinds, made), buffer
