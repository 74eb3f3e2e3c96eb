"""Cost model of parallel execution: which loops are worth sharing, and how much faster a kernel should then be."""

from __future__ import annotations

import tvm

from edgetune.codegen.lower import flat
from edgetune.codegen.parallel_regions import cut, idle
from edgetune.target.target import Target


def least_steps(target: Target, workers: int) -> int:
    """Fewest steps of a nest that `workers` threads of `target` share.

    The model: one step of one native vector takes one cycle, so the work takes steps / lanes cycles; shared, it takes 1
    / workers of that plus the handover. A nest is shared if the handover is less than half of the greatest saving.
    """
    lanes = max(1, target.vector_bits // 32)
    return 2 * target.handover_cycles * lanes * workers // max(1, workers - 1)


def expected_share(mod: tvm.IRModule, target: Target, workers: int) -> float:
    """Time of a scheduled kernel on `workers` threads divided by its time on one thread, 1 / workers to 1.

    Regions are weighted by their steps; a thread is assumed to do one native vector per cycle (see `least_steps`). A
    shared region takes the longest part that a thread gets, plus the handover. Raises KernelFailed if a pass rejects
    the schedule.
    """
    found = cut(flat(mod), workers, least_steps(target, workers)) if workers > 1 else None
    if found is None:
        return 1.0
    hand_over = target.handover_cycles * max(1, target.vector_bits // 32)
    taken = sum(
        region.steps / (workers * (1 - idle(region.iterations, workers))) + hand_over if region.loops else region.steps
        for region in found.regions
    )
    return min(1.0, taken / sum(region.steps for region in found.regions))
