"""In-place reuse of buffers: outputs that overwrite an operand of their call, which no later call reads.

Whether a kernel may write in place depends on its loops. `in_place_candidates` says what is possible at best, before
the loops are known; `edgetune.codegen.in_place` says what holds for a scheduled kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import tvm_ffi
from tvm import s_tir, tirx

from edgetune.graph.memory.live_ranges import kept_in_loops, live_bytes, live_ranges
from edgetune.graph.program import Kernel, Program
from edgetune.tvm_types import PrimFunc, SBlock, TvmBuffer


def in_place_candidates(kernel: Kernel) -> list[int]:
    """Parameters, by number, whose memory the one output of `kernel` may take, if its loops turn out to allow it.

    They have the output's shape and type. Their readers neither reduce over them (as a convolution does) nor change the
    shape (as padding does), because an output element would then read other input elements.
    """
    outputs = [param for param in kernel.params if param.role == "output"]
    if len(outputs) != 1:
        return []
    alike = [
        number
        for number, param in enumerate(kernel.params)
        if param.role == "input" and (param.shape, param.dtype) == (outputs[0].shape, outputs[0].dtype)
    ]
    return [number for number in alike if is_read_elementwise(kernel.function, kernel.function.params[number])]


def is_read_elementwise(function: PrimFunc, operand: TvmBuffer) -> bool:
    """Whether no stage sums over `operand`, or has another number of elements than it."""
    others: list[SBlock] = []

    def visit(block: SBlock) -> None:
        if any(read.source.same_as(operand) for read in block.reads):
            sizes = [prod(int(extent) for extent in write.source.shape) for write in block.writes]
            summed = prod(int(axis.dom.extent) for axis in block.iter_vars if axis.iter_type == tirx.IterVar.CommReduce)
            if summed > 1 or sizes != [prod(int(extent) for extent in operand.shape)]:
                others.append(block)

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, visit))
    return not others


def in_place_outputs(program: Program, replaceable: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Tensors that overwrite an operand of the call that writes them: maps their ids to the operand's id.

    `replaceable` has, by kernel, the parameters (by index) whose memory its only output may take. The output takes it
    if the operand lies in the arena and is no output, no later call, later iteration or other argument of the call
    reads it, and neither tensor is a part of a larger one.
    """
    ranges = live_ranges(program)
    kept = list(zip(program.loops, kept_in_loops(program), strict=True))
    outputs_in_place: dict[int, int] = {}
    for index, call in enumerate(program.calls):
        candidates = replaceable.get(call.kernel, ())
        if not candidates:
            continue
        needed = {buffer for loop, buffers in kept if loop.start <= index < loop.stop for buffer in buffers}
        params = program.kernels[call.kernel].params
        outputs = [a for a, param in zip(call.arguments, params, strict=True) if param.role == "output"]
        dying = [
            call.arguments[number]
            for number in candidates
            if ranges.get(call.arguments[number], (0, -1))[1] == index
            and call.arguments.count(call.arguments[number]) == 1
            and call.arguments[number] not in needed
            and number not in call.parts
        ]
        written_in_part = any(params[number].role == "output" for number in call.parts)
        if not dying or written_in_part or len(outputs) != 1 or ranges.get(outputs[0], (-1, -1))[0] != index:
            continue
        if outputs[0] not in needed and program.buffers[outputs[0]].nbytes == program.buffers[dying[0]].nbytes:
            outputs_in_place[outputs[0]] = dying[0]
    return outputs_in_place


def with_lower_peak(program: Program, in_place: Mapping[int, int], more: Mapping[int, int]) -> dict[int, int]:
    """`in_place`, with those of `more` that lower the largest sum of tensors alive during a call; both map as above.

    Tensors that are written at a peak overwrite their operands too, as long as that lowers every call of the peak.
    """
    chosen = dict(in_place)
    written = {argument: number for number, call in reversed([*enumerate(program.calls)]) for argument in call.buffers}
    while True:
        live = live_bytes(program, chosen)
        peak = max(live, default=0)
        found = {out: over for out, over in more.items() if out not in chosen and live[written[out]] == peak}
        if not found or max(live_bytes(program, chosen | found)) >= peak:
            return chosen
        chosen |= found
