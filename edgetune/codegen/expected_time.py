"""How much of its time on one thread a kernel is expected to take on several, before anybody measured that."""

from __future__ import annotations

import tvm

from edgetune.codegen.lower import flat
from edgetune.codegen.stages import cut, idle
from edgetune.codegen.threaded import least_steps
from edgetune.config.target import Target


def expected_share(mod: tvm.IRModule, target: Target, workers: int) -> float:
    """Share of its time on one thread that a scheduled kernel takes on `workers` threads, 1 / workers to 1.

    Its stages are weighed by their steps, of which a thread is taken to do one native vector a cycle (see
    `least_steps`); what is shared takes the longest part that a thread gets, and the hand-over. Raises KernelFailed
    when a pass refuses the schedule.
    """
    pieces = cut(flat(mod), workers, least_steps(target, workers)) if workers > 1 else None
    if pieces is None:
        return 1.0
    hand_over = target.handover_cycles * max(1, target.vector_bits // 32)
    taken = sum(
        stage.steps / (workers * (1 - idle(stage.iterations, workers))) + hand_over if stage.loops else stage.steps
        for stage in pieces.stages
    )
    return min(1.0, taken / sum(stage.steps for stage in pieces.stages))
