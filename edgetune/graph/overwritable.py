"""Which operands a kernel could write its output over at best, before it is known how its loops will run."""

from __future__ import annotations

from math import prod
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

from edgetune.graph.program import Kernel


def overwritable(kernel: Kernel) -> list[int]:
    """Parameters, by number, whose memory the one output of `kernel` may take where its loops turn out to allow it.

    They are of the output's shape and type, and what reads them is neither a sum over them, as a convolution is, nor
    makes something larger or smaller of them, as padding does: there each element is read for others than its own.
    """
    outputs = [param for param in kernel.params if param.role == "output"]
    if len(outputs) != 1:
        return []
    alike = [
        number
        for number, param in enumerate(kernel.params)
        if param.role == "input" and (param.shape, param.dtype) == (outputs[0].shape, outputs[0].dtype)
    ]
    return [number for number in alike if _elementwise(kernel.function, kernel.function.params[number])]


def _elementwise(function: Any, operand: Any) -> bool:
    spread: list[Any] = []

    def visit(block: s_tir.SBlock) -> None:
        if any(read.source.same_as(operand) for read in block.reads):
            sizes = [prod(int(extent) for extent in write.source.shape) for write in block.writes]
            summed = prod(int(axis.dom.extent) for axis in block.iter_vars if axis.iter_type == tirx.IterVar.CommReduce)
            if summed > 1 or sizes != [prod(int(extent) for extent in operand.shape)]:
                spread.append(block)

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, visit))
    return not spread
