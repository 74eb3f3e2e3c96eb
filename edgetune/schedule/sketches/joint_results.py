"""Joint results: a result that reads another one element by element is computed in the same pass."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule

from edgetune.schedule.sketches.block_analysis import BlockAnalysis, BlockStage, extent_of, loop_extent
from edgetune.tvm_types import SBlock

_VECTORIZED = int(tirx.ForKind.VECTORIZED)


def joins_an_earlier_result(sch: Schedule, analysis: BlockAnalysis, stage: BlockStage) -> bool:
    """Compute a result in the vectors of an earlier one that it reads, element by element; False where that is none.

    The earlier result is in registers then, and both are one pass.
    """
    block = sch.get(sch.get_sblock(stage.name))
    axes = [axis.var for axis in block.iter_vars]
    for number, parameter in enumerate(analysis.outputs):
        earlier = sch.get(sch.get_sblock(parameter))
        if number >= analysis.outputs.index(stage.name) or _extents(earlier) != _extents(block):
            continue
        made = earlier.writes[0].source
        reads = [region for region in block.reads if region.source.same_as(made)]
        in_step = [[item.min for item in region.region] for region in reads]
        if not reads or not all(i.same_as(axis) for indices in in_step for i, axis in zip(indices, axes, strict=True)):
            continue
        loops = sch.get_loops(sch.get_sblock(parameter))
        lanes = sch.get(loops[-1])
        if len(loops) == 1 or int(lanes.kind) != _VECTORIZED or _extents(block)[-1] % loop_extent(sch, loops[-1]):
            continue
        sch.reverse_compute_at(sch.get_sblock(stage.name), loops[-2])
        sch.vectorize(sch.get_loops(sch.get_sblock(stage.name))[-1])
        return True
    return False


def _extents(block: SBlock) -> list[int]:
    return [extent_of(axis) for axis in block.iter_vars]
