"""Blocks of columns: all stages are computed for some adjacent columns, one block after another.

In a softmax over the rows of a matrix that lie above each other, maxima and sums have one element for each column. No
row of the result can be computed before all others were read; a block of columns can, and what lies between the stages
stays in L1.
"""

from __future__ import annotations

from math import prod

from tvm.s_tir import Schedule

from edgetune.affine.expressions import is_one
from edgetune.graph.element_type import element_bytes
from edgetune.schedule.sketches.block_analysis import MOST_LANES, BlockAnalysis, BlockStage, extent_of, loop_extent
from edgetune.schedule.sketches.decisions import Decisions

BLOCK = "columns"
"""Name of the decision how many vectors of columns a block has."""

MAX_BLOCK = 128
_FEW_ROWS = 16
_LINE = 16  # elements of a cache line of 64 bytes

MOST_VECTORS = 8
"""Vectors in a block that a formula chooses, at most: so many sums hide latency."""


def common_columns(analysis: BlockAnalysis) -> int | None:
    """How many leading axes all stages share, if they also share the last one and reductions lack one between them.

    None if the last stage is a reduction, or a stage needs other columns of an earlier one than its own.
    """
    last, reductions = analysis.stages[-1], analysis.reductions
    if last.reduction or not reductions or len(analysis.outputs) > 1:
        return None
    rank = min(len(stage.spatial) for stage in reductions)
    stretched = analysis.attribute(MOST_LANES) is not None  # then the last stage writes whole vectors that may overlap
    owners = analysis.stages[:-1] if stretched else analysis.stages
    if not 0 < rank < len(last.spatial) or not all(_has_columns(stage, last) for stage in owners):
        return None
    written = [stage.block.writes[0].source for stage in analysis.stages]
    own = all(
        is_one(region.region[-1].extent) and region.region[-1].min.same_as(stage.spatial[-1].var)
        for stage in analysis.stages
        for region in stage.reads()
        if any(region.source.same_as(buffer) for buffer in written)
    )
    return rank - 1 if own else None


def _has_columns(stage: BlockStage, last: BlockStage) -> bool:
    return bool(stage.spatial) and stage.writes_its_axes() and stage.spatial_extents[-1] == last.spatial_extents[-1]


def block_of_columns(analysis: BlockAnalysis, lanes: int, l1_bytes: int) -> int:
    """The vectors of the widest block whose tensors between stages fill half of L1 at most.

    0 if there is none of at least a line: then rows of a block would share lines with the next one.
    """
    width = extent_of(analysis.stages[-1].spatial[-1])
    kept = sum(
        element_bytes(stage.block.writes[0].source) * prod(stage.spatial_extents) // width
        for stage in analysis.stages[:-1]
    )
    blocks = (vectors for vectors in range(1, MOST_VECTORS + 1) if width % (vectors * lanes) == 0)
    least = min(width, _LINE)
    fitting = (n for n in blocks if n * lanes >= least and kept * n * lanes <= l1_bytes // 2)
    return max(fitting, default=0)


def split_columns(sch: Schedule, last: BlockStage, common: int, lanes: int, decide: Decisions) -> None:
    """Move the blocks of columns of the last stage around the axes that reductions lack.

    Around a few rows also the vectors of a block: what a column needs once, such as the root of its sum of squares, is
    then computed once for all of its elements. With many rows each vector would be in a line of its own.
    """
    loops = sch.get_loops(sch.get_sblock(last.name))
    vectors, lane = sch.split(loops[-1], [None, lanes])
    outer, near = decide.tile(sch, BLOCK, vectors, MAX_BLOCK // lanes)
    rows = loops[common:-1]
    few = prod(loop_extent(sch, loop) for loop in rows) <= _FEW_ROWS
    inside = [near, *rows] if few else [*rows, near]
    sch.reorder(*loops[:common], outer, *inside, lane)
