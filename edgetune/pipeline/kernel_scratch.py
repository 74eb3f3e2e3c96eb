"""Scratch memory of kernels: how much each may use, so that the arena stays near its lower bound, or within a limit."""

from __future__ import annotations

from collections.abc import Mapping

from edgetune.graph.memory.live_ranges import live_bytes
from edgetune.graph.memory.plan import scratch_limits
from edgetune.graph.program import Program
from edgetune.pipeline.backends import backend_of
from edgetune.target.target import Target


def kernel_scratch(program: Program, target: Target, threads: int, arena: int | None = None) -> dict[int, int]:
    """Bytes of scratch for each kernel (by index) on one of `threads`: each thread has its own.

    `arena` is how many bytes all tensors and scratch may take, where that is stated. On a target that says how much RAM
    it has, tensors count once that can be written over an operand.
    """
    limits = scratch_limits(program, threads, _in_place(program, target), arena)
    return {kernel: limit // threads for kernel, limit in limits.items()}


def kernel_tensors(program: Program, target: Target) -> dict[int, int]:
    """Bytes of the tensors that are alive during the calls of each kernel (by index), the most of them."""
    most: dict[int, int] = {}
    live = live_bytes(program, _in_place(program, target) or {})
    for call, used in zip(program.calls, live, strict=True):
        most[call.kernel] = max(used, most.get(call.kernel, 0))
    return most


def _in_place(program: Program, target: Target) -> Mapping[int, int] | None:
    return backend_of(target).in_place_at_best(program, target) if target.memory_is_scarce else None
