"""Row-by-row sketch for kernels of several dependent stages (softmax, normalisation, arg-max, ...).

Each stage moves to the deepest loop of the last stage at which it is not computed twice, so that only one row is stored
between stages. This is the fallback for all kernels that the other sketches do not support.
"""

from __future__ import annotations

from tvm import s_tir, tirx
from tvm.s_tir import Schedule

from edgetune.graph.tvm_types import Stmt
from edgetune.schedule.sketches.block_analysis import BlockAnalysis
from edgetune.schedule.sketches.decisions import Decisions
from edgetune.schedule.sketches.elementwise import vectorize_stage
from edgetune.schedule.sketches.inlining import cheap_to_repeat, inline_all
from edgetune.schedule.sketches.row_reduction import split_lanes, vectorize_lanes


def apply_rowwise(sch: Schedule, analysis: BlockAnalysis, native_lanes: int, decide: Decisions) -> Schedule:
    """Schedule a copy of `sch` (untouched so far) row by row and return it; never fails."""
    partial = {stage.name: split_lanes(sch, stage, native_lanes) for stage in analysis.reductions}
    cheap = [s.name for s in analysis.stages if s.name not in analysis.outputs and cheap_to_repeat(analysis, s)]
    inlined = set(cheap) - set(inline_all(sch, cheap))
    stages = [stage for stage in analysis.stages if stage.name not in inlined]
    last = stages[-1]
    moved: set[str] = set()
    for name in reversed([name for stage in stages for name in (partial.get(stage.name), stage.name) if name]):
        if name != last.name and name not in analysis.outputs:
            before = sch
            sch = _move_inwards(sch, name, last.name, len(last.spatial) - (not last.reduction))
            moved |= {name} if sch is not before else set()
    for stage in stages:
        lanes = partial.get(stage.name)
        if lanes is not None:
            vectorize_lanes(sch, lanes, stage.name, moved)
        elif not stage.reduction:
            vectorize_stage(sch, stage, native_lanes, decide)
    return sch


def _move_inwards(sch: Schedule, name: str, reader: str, depth: int) -> Schedule:
    """Compute stage `name` at the deepest of the reader's first `depth` loops that costs no repeated work."""
    before = _work(sch)
    for level in range(depth, 0, -1):
        trial = sch.copy()
        loop = trial.get_loops(trial.get_sblock(reader))[level - 1]
        try:
            trial.compute_at(trial.get_sblock(name), loop, preserve_unit_loops=True)
        except RuntimeError:  # ScheduleError, or TVM's error for a case that it does not handle
            continue
        if _work(trial) <= before:
            return trial
    return sch


def _work(sch: Schedule) -> int:
    """Total number of executions of block bodies."""

    def visit(node: Stmt, times: int) -> int:
        if isinstance(node, tirx.For):
            extent = node.extent
            return visit(node.body, times * int(extent.value) if isinstance(extent, tirx.IntImm) else times)
        if isinstance(node, tirx.SeqStmt):
            return sum(visit(child, times) for child in node.seq)
        if isinstance(node, s_tir.SBlockRealize):
            return visit(node.block.body, times)
        return times

    return visit(sch.mod["main"].body, 1)
