"""Row placement: in which loop of the last stage an earlier one is computed, and how many rows of it.

It is the deepest loop in which no work is repeated. But windows along a row read it at places where no vector begins,
and a load of parts of two vectors waits until both are stored in L1, ten cycles and more (A. Fog, The microarchitecture
of Intel, AMD and VIA CPUs, on store forwarding). So several rows are computed before the first one is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from tvm import s_tir, tirx
from tvm.s_tir import Schedule

from edgetune.affine.expressions import mentions
from edgetune.affine.values import integers_at
from edgetune.graph.element_type import element_bytes
from edgetune.schedule.sketches.block_analysis import COMPUTED_ONCE, BlockAnalysis, BlockStage, known_extent
from edgetune.schedule.tile_costs import divisors, step_cycles
from edgetune.target.core import Core
from edgetune.target.costs import MARGINS
from edgetune.tvm_types import Expr, Stmt, Var

_SHARE = 4  # of the registers

_MOST_PLACES = 1 << 16

_ROUNDING = 1e-9  # of the work, whose extents may be means
_ROWS = 4
"""Rows of 57 elements took 55 us one by one, 34 by twos, 28 by fours and 27 by sevens (3x3 windows of stride 2)."""


def has_windows_along_rows(analysis: BlockAnalysis) -> bool:
    """Whether a stage reads rows of a reduction, or of what no reader computes again, at other places than it writes.

    What is around padding is computed for a whole image anyway, as windows of several rows share it.
    """
    stored = (stage for stage in analysis.stages if stage.reduction or COMPUTED_ONCE in stage.block.annotations)
    return any(shifted_reads(analysis, stage.name) for stage in stored)


def shifted_reads(analysis: BlockAnalysis, name: str) -> bool:
    """Whether a stage reads the rows of the stage `name` at other places along the last axis than it writes."""
    made = analysis.stage(name).block.writes[0].source
    return any(
        region.source.same_as(made) and region.region and _is_shifted(region.region[-1].min, stage)
        for stage in analysis.stages
        for region in stage.reads()
    )


def _is_shifted(index: Expr, stage: BlockStage) -> bool:
    lane = stage.spatial[-1].var if stage.spatial else None
    return lane is not None and mentions(index, lane) and not index.same_as(lane)


def row_cycles(extent: int, core: Core) -> float:
    """Predicted cycles of one addition to each of `extent` neighbours; a remainder takes narrower vectors.

    A few sums stay in registers while terms are added, others are loaded and stored.
    """
    vectors = extent // core.lanes + (extent % core.lanes).bit_count()
    loads = vectors if vectors <= core.registers // _SHARE else 3 * vectors
    # The next row need not wait.
    return core.costs.row_of_terms * step_cycles(core.costs, vectors, loads, chained=False)


def rows_apart(extent: int, limit: int, wanted: int = 1) -> int | None:
    """The rows of `extent` that are computed together where `wanted` would do without windows, at most `limit`.

    None if no such number divides the rows.
    """
    enough = (rows for rows in divisors(extent, limit) if rows >= max(wanted, _ROWS) and rows % wanted == 0)
    return min(enough, default=None)


def images_apart(analysis: BlockAnalysis, name: str, images: int, l1_bytes: int) -> bool:
    """Whether a stage that windows move along is computed for all rows of one of `images` at a time.

    So it is where no number of rows is right, and half of L1 holds all of them.
    """
    out = analysis.stage(name).block.writes[0].source
    size = prod(map(int, out.ty.shape)) * element_bytes(out) // images
    return images > 1 and size <= l1_bytes // 2 and shifted_reads(analysis, name)


def repeated_work(stage: BlockStage, l1_bytes: int) -> int:
    """The elements of a stage that may be computed again, so that the others are read before they leave L1.

    These are of rows that the windows of two blocks of rows share. Only a stage that is stored as it is worth it comes
    in question: padding of a whole image is shared by all channels, a sum takes longer than its result from L2.
    """
    far = element_bytes(stage.block.writes[0].source) * prod(stage.spatial_extents) > l1_bytes // 2
    once = COMPUTED_ONCE in stage.block.annotations and not stage.reduction
    return int(MARGINS.repeated * stage.work) if far and once else 0


def move_inwards(
    sch: Schedule, name: str, reader: str, depth: int, repeated: int = 0, *, summed: bool = False
) -> Schedule:
    """Compute stage `name` at the deepest of the reader's first `depth` loops that repeats no more work than allowed.

    `repeated` is the number of its elements that may be computed again. `summed`: it is a reduction, or its tile, for
    which rules need loops of constant extents; rows that a window needs may be fewer at the border of an image.
    """
    most = (_work(sch) + repeated) * (1 + _ROUNDING)
    for level in range(depth, 0, -1):
        trial = sch.copy()
        loop = trial.get_loops(trial.get_sblock(reader))[level - 1]
        try:
            trial.compute_at(trial.get_sblock(name), loop, preserve_unit_loops=True)
        except (RuntimeError, ValueError):  # ScheduleError, or TVM's errors for cases that it does not handle
            continue
        if _work(trial) <= most and not (summed and _has_open_loops(trial, name)):
            return trial
    return sch


def _has_open_loops(sch: Schedule, name: str) -> bool:
    """Whether the extent of a loop around a block depends on other loops."""
    return any(known_extent(sch, loop) is None for loop in sch.get_loops(sch.get_sblock(name)))


def _work(sch: Schedule) -> float:
    """Total number of executions of block bodies."""

    def visit(node: Stmt, times: float, loops: Mapping[Var, int]) -> float:
        if isinstance(node, tirx.For):
            extent = _mean(node.extent, loops)
            inside = {**loops, node.loop_var: int(node.extent.value)} if isinstance(node.extent, tirx.IntImm) else loops
            return visit(node.body, times * extent, inside)
        if isinstance(node, tirx.SeqStmt):
            return sum(visit(child, times, loops) for child in node.seq)
        if isinstance(node, s_tir.SBlockRealize):
            return visit(node.block.body, times, loops)
        return times

    return visit(sch.mod["main"].body, 1, {})


def _mean(extent: Expr, loops: Mapping[Var, int]) -> float:
    """An extent, the mean of one that depends on the places of `loops` around; 1 where that is not known.

    Such is the extent of the loop over the rows that a block of rows needs, which are fewer at the border.
    """
    if isinstance(extent, tirx.IntImm):
        return int(extent.value)
    used = [(loop, length) for loop, length in loops.items() if mentions(extent, loop)]
    if prod(length for _, length in used) > _MOST_PLACES:
        return 1
    grid = np.meshgrid(*(np.arange(length) for _, length in used), indexing="ij", sparse=True)
    found = integers_at(extent, {loop: places for (loop, _), places in zip(used, grid, strict=True)})
    return 1 if found is None else float(np.mean(found))
