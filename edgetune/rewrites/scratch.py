"""Scratch memory of kernels in another form: how much a schedule may always use, without a plan of the whole memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from edgetune.graph.kernels import scratch_of
from edgetune.graph.program import Param, byte_size
from edgetune.schedule.sketches.block_analysis import widest_element_bytes
from edgetune.target.core import WIDEST
from edgetune.tvm_types import PrimFunc

_ROWS = 4
"""Rows of sums that are made at a time."""


def scratch_of_expression(function: PrimFunc, params: Sequence[Param]) -> int:
    """Bytes that a schedule may need: the largest input, which may be packed, or all tensors between the stages.

    Rows of these count as whole vectors, of which the last one may overlap the one before: the sums of such rows are
    made in rows of their own.
    """
    outputs = (_in_whole_vectors(param.shape) for param in params if param.role == "output")
    rows = max(prod(shape[-1:]) * widest_element_bytes(function) for shape in outputs) * _ROWS
    inputs = [byte_size(param.shape, param.dtype) for param in params if param.role == "input"]
    between = [
        byte_size(_in_whole_vectors([int(extent) for extent in buffer.ty.shape]), str(buffer.ty.dtype))
        for buffer in function.body.block.alloc_buffers
    ]
    return max([*inputs, sum(between) + rows])


def scratch_of_model(function: PrimFunc) -> int:
    """Bytes for a kernel of a model: what it may use as it is, or all tensors between its stages."""
    buffers = function.body.block.alloc_buffers
    between = sum(byte_size(tuple(int(e) for e in buffer.ty.shape), str(buffer.ty.dtype)) for buffer in buffers)
    return max(scratch_of(function), between)


def _in_whole_vectors(shape: Sequence[int]) -> tuple[int, ...]:
    *outer, row = shape or [1]
    return (*outer, -(-row // WIDEST.lanes) * WIDEST.lanes if row >= WIDEST.lanes else row)
