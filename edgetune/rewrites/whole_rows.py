"""Whole rows: where only extremes of a row are wanted, its last element is repeated until vectors fill the row.

In `min(sum((a[i, k] - b[j, k])^2 for k) for j)` with 500 places of j, vectors of 16 do not divide a row of sums. A copy
of b with j last holds its last element 13 times, so that a row has 512 sums, and the least of them is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.expressions import is_among, mentions
from edgetune.graph.element_type import is_floating
from edgetune.rewrites.reordered import OrderConflict, Orders, place_of, written_by
from edgetune.schedule.sketches.block_analysis import BlockStage, extent_of
from edgetune.target.core import WIDEST, Core
from edgetune.tvm_types import BufferLoad, Expr, IterVar, Stmt, TvmBuffer


def with_whole_rows(
    stages: Sequence[BlockStage], needed: Sequence[TvmBuffer], core: Core = WIDEST
) -> list[list[Stmt | BlockStage]]:
    """The kernels that compute `stages`, each as its new statements and the stages that stay as they are.

    Empty where no row has a rest that repeated elements fill. `needed` are tensors that others read.
    """
    found = next((one for one in stages if _has_rest(one, core) and not is_among(written_by(one), needed)), None)
    if found is None:
        return []
    readers = [one for one in stages if any(region.source.same_as(written_by(found)) for region in one.reads())]
    if not readers or not all(_wants_extremes(one, written_by(found)) for one in readers):
        return []
    row = extent_of(found.spatial[-1])
    padded = -(-row // core.lanes) * core.lanes
    orders = Orders()
    try:
        operands = _operands(found, orders, padded)
        orders.add(written_by(found), len(found.spatial) - 1, padded)
    except OrderConflict:
        return []
    copies = core.move("into_copy") * sum(prod(map(int, one.ty.shape)) for one in operands)
    if found.work < max(core.least_terms, core.terms(copies)):
        return []
    if any(is_among(written_by(stage), operands) for stage in stages):
        return []
    made: list[Stmt | BlockStage] = []
    for stage in stages:
        if stage is found:
            made.append(orders.stage(stage, stage.name, stage.reduction))
        elif any(stage is one for one in readers):
            summed = [tirx.IterVar(ir.Range(0, padded), axis.var, axis.iter_type) for axis in stage.reduction]
            made.append(orders.stage(stage, stage.name, summed))
        else:
            made.append(stage)
    return [*([orders.copy(buffer, repeated=True)] for buffer in operands), made]


def _has_rest(stage: BlockStage, core: Core) -> bool:
    """Whether a stage writes rows of more than one vector, which vectors do not divide."""
    if len(stage.spatial) < 2 or not stage.writes_its_axes() or not is_floating(written_by(stage)):
        return False
    row = extent_of(stage.spatial[-1])
    return row > core.lanes and row % core.lanes > 0 and int(stage.spatial[-1].dom.min) == 0


def _wants_extremes(stage: BlockStage, rows: TvmBuffer) -> bool:
    """Whether a stage is the largest or the least element of each of the rows, and of nothing else."""
    store = stage.block.body
    if len(stage.reduction) != 1 or not stage.writes_its_axes() or not isinstance(store, tirx.BufferStore):
        return False
    if not isinstance(store.value, tirx.Max | tirx.Min):
        return False
    own, term = store.value.a, store.value.b
    if not isinstance(own, ir.TensorLoad) or not own.source.same_as(store.buffer):
        return False
    axis = stage.reduction[0]
    whole = extent_of(axis) == int(rows.ty.shape[-1]) and int(axis.dom.min) == 0
    return (
        whole
        and isinstance(term, ir.TensorLoad)
        and bool(term.source.same_as(rows))
        and bool(term.indices[-1].same_as(axis.var))
        and not any(mentions(index, axis.var) for index in term.indices[:-1])
    )


def _operands(stage: BlockStage, orders: Orders, padded: int) -> list[TvmBuffer]:
    """The tensors whose elements along the row are repeated, which move to the end.

    Raises OrderConflict where a value depends on the place in the row otherwise.
    """
    axis = stage.spatial[-1]
    found: list[TvmBuffer] = []
    for region in stage.reads():
        if any(mentions(item.min, axis.var) for item in region.region):
            orders.add(region.source, place_of(region, axis), padded)
            if int(region.source.ty.shape[orders.axis(region.source) or 0]) != extent_of(axis):
                raise OrderConflict
            found = found if is_among(region.source, found) else [*found, region.source]
    if _elsewhere(stage, axis) or any(not _alike(stage, buffer, axis) for buffer in found):
        raise OrderConflict
    return found


def _elsewhere(stage: BlockStage, axis: IterVar) -> bool:
    """Whether what a stage stores depends on `axis` but through its loads."""

    def constant(load: BufferLoad) -> Expr:
        return tirx.const(0, str(load.source.ty.dtype))

    return mentions(tvm_ffi.structural_map(stage.block.body.value, (ir.TensorLoad, constant)), axis.var)


def _alike(stage: BlockStage, buffer: TvmBuffer, axis: IterVar) -> bool:
    """Whether all reads of a tensor depend on `axis`."""
    reads = [region for region in stage.reads() if region.source.same_as(buffer)]
    return all(place_of(region, axis) is not None for region in reads)
