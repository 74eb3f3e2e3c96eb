"""Programs of models: each kernel goes through the passes; what it was before them stays a candidate."""

from __future__ import annotations

from dataclasses import replace

from edgetune.graph.attention import is_attention
from edgetune.graph.kernels import scratch_of
from edgetune.graph.macs import multiply_accumulates
from edgetune.graph.program import Kernel, Program, byte_size
from edgetune.graph.workload import workload_hash
from edgetune.rewrites.passes import PASSES, PASSES_OF_PARTS, rewritten
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.tvm_types import PrimFunc


def with_rewrites(program: Program) -> Program:
    """`program` with each kernel after all passes. Where one is another kernel then, `program` is a division of it.

    So records of the kernels as they were still count, and a search measures both.
    """
    kernels = tuple(map(_rewritten, program.kernels))
    if all(one is other for one, other in zip(kernels, program.kernels, strict=True)):
        return program
    return replace(program, kernels=kernels, divisions=(*program.divisions, program))


def _rewritten(kernel: Kernel) -> Kernel:
    """A kernel after the passes; itself where none of them changes it."""
    if is_attention(kernel.function) or analyse_blocks(kernel.function) is None:
        return kernel  # attention has an algorithm of its own; written loops are no stages
    weights = [number for number, param in enumerate(kernel.params) if param.role == "constant"]
    function = rewritten(kernel.function, weights, (*PASSES, *PASSES_OF_PARTS))
    workload = workload_hash(function)
    if workload == kernel.workload:
        return kernel
    scratch = max(kernel.scratch, scratch_of(function), _between(function) - _between(kernel.function))
    return replace(kernel, workload=workload, function=function, macs=multiply_accumulates(function), scratch=scratch)


def _between(function: PrimFunc) -> int:
    """Bytes of the tensors between the stages of a function."""
    buffers = function.body.block.alloc_buffers
    return sum(byte_size(tuple(int(e) for e in buffer.ty.shape), str(buffer.ty.dtype)) for buffer in buffers)
