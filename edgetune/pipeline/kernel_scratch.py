"""Scratch memory of kernels: how much each may use, so that the arena stays near its lower bound, or within a limit."""

from __future__ import annotations

from edgetune.graph.memory.plan import scratch_limits
from edgetune.graph.program import Program
from edgetune.pipeline.backends import backend_of
from edgetune.target.target import Target


def kernel_scratch(program: Program, target: Target, threads: int, arena: int | None = None) -> dict[int, int]:
    """Bytes of scratch for each kernel (by index) on one of `threads`: each thread has its own.

    `arena` is how many bytes all tensors and scratch may take, where that is stated. On a target that says how much RAM
    it has, tensors count once that can be written over an operand.
    """
    over = backend_of(target).in_place_at_best(program, target) if target.memory_is_scarce else None
    limits = scratch_limits(program, threads, over, arena)
    return {kernel: limit // threads for kernel, limit in limits.items()}
