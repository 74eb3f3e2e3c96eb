"""Programs of models: each kernel goes through the passes, and what these make of it is a candidate beside it.

The passes are decided for a wide core, and not by a measurement. So a model's kernels stay as the partition made them
until a search on the board has found the others faster: a build without records is what it was, and records count.
"""

from __future__ import annotations

from dataclasses import replace

from edgetune.graph.attention import is_attention
from edgetune.graph.kernels import FREE_LAYOUTS, scratch_of, with_free_layouts
from edgetune.graph.macs import multiply_accumulates
from edgetune.graph.program import Kernel, Program, byte_size
from edgetune.graph.workload import workload_hash
from edgetune.rewrites.packing import may_be_packed
from edgetune.rewrites.passes import PASSES, PASSES_OF_PARTS, rewritten
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.tvm_types import PrimFunc


def with_rewrites(program: Program) -> Program:
    """`program`, with a division whose kernels went through all passes, where one of them is another kernel then."""
    kernels = tuple(map(_rewritten, program.kernels))
    if all(one is other for one, other in zip(kernels, program.kernels, strict=True)):
        return program
    return replace(program, divisions=(*program.divisions, replace(program, kernels=kernels, divisions=())))


def _rewritten(kernel: Kernel) -> Kernel:
    """A kernel after the passes; itself where none of them changes it."""
    if is_attention(kernel.function) or analyse_blocks(kernel.function) is None:
        return kernel  # attention has an algorithm of its own; no pass knows loops that are written out
    weights = [number for number, param in enumerate(kernel.params) if param.role == "constant"]
    function = rewritten(kernel.function, weights, (*PASSES, *PASSES_OF_PARTS))
    if workload_hash(function) == kernel.workload:
        return kernel
    free = [int(number) for number in (function.attrs or {}).get(FREE_LAYOUTS) or ()]
    function = with_free_layouts(function, [number for number in free if may_be_packed(function, number)])
    scratch = max(kernel.scratch, scratch_of(function), _between(function) - _between(kernel.function))
    return replace(
        kernel,
        workload=workload_hash(function),
        function=function,
        macs=multiply_accumulates(function),
        scratch=scratch,
    )


def _between(function: PrimFunc) -> int:
    """Bytes of the tensors between the stages of a function."""
    buffers = function.body.block.alloc_buffers
    return sum(byte_size(tuple(int(e) for e in buffer.ty.shape), str(buffer.ty.dtype)) for buffer in buffers)
