"""Phases: a stage whose indices divide an axis by a small number has a loop over quotients and one over remainders.

Pixel shuffle, `x[c * 4 + r % 2 * 2 + s % 2, r / 2, s / 2]`, and a resize by a whole factor, `x[c, r / 2, s / 2]`,
gather along s. With the remainders unrolled, each phase reads neighbours, and compilers interleave the phases by
shuffles.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.s_tir import Schedule

from edgetune.graph.tvm_types import IterVar, LoopRV
from edgetune.schedule.sketches.block_analysis import BlockStage, expressions, extent_of, mentions, stores

_MOST_PHASES = 8


def split_phases(sch: Schedule, stage: BlockStage, loops: Sequence[LoopRV]) -> bool:
    """Split the `loops` of a stage by what its indices divide their axes by, and unroll the remainders of the last one.

    False, and no change, where nothing divides the last axis.
    """
    factors = [_factor(stage, axis) for axis in stage.spatial]
    whole = [int(sch.get(loop).extent.value) for loop in loops] == list(stage.spatial_extents)
    if not whole or factors[-1] == 1:
        return False
    for loop, factor in zip(loops, factors, strict=True):
        if factor > 1:
            _, phase = sch.split(loop, [None, factor])
    sch.unroll(phase)
    return True


def _factor(stage: BlockStage, axis: IterVar) -> int:
    """The largest small number by which indices divide an axis, and which divides its extent; 1 where there is none."""
    values = (node for store in stores(stage.block.body) for node in expressions(store.value))
    divisions = (node for node in values if isinstance(node, tirx.FloorDiv | tirx.FloorMod))
    found = [
        int(node.b.value)
        for node in divisions
        if isinstance(node.b, tirx.IntImm) and mentions(node.a, axis.var) and 1 < int(node.b.value) <= _MOST_PHASES
    ]
    return max((factor for factor in found if extent_of(axis) % factor == 0), default=1)
