"""Roofline of a kernel: the least time that the limits of a core allow one call.

It is the larger of its operations over the peak, and of its bytes, each tensor once, over the bandwidth of the smallest
level of memory that holds them all (Williams, Waterman, Patterson, CACM 52(4), 2009). The peak is that of float32
multiply-adds: integer kernels may exceed it where a core multiplies bytes faster, and so may algorithms that multiply
less than the definition.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.codegen.operations import operations, tensor_bytes
from edgetune.graph.program import Kernel, byte_size
from edgetune.measure.peaks import Peaks
from edgetune.target.target import Target


@dataclass(frozen=True)
class Roofline:
    """The least microseconds of one call, and the limit that sets them as text for people."""

    us: float
    limit: str


def roofline_of(kernel: Kernel, peaks: Peaks, target: Target) -> Roofline:
    """The roofline of `kernel` on a core of `target` with these limits."""
    size = tensor_bytes(kernel.function)
    size -= sum(
        round(byte_size(param.shape, param.dtype) * (1 - param.rows.share)) for param in kernel.params if param.rows
    )
    level = "DRAM" if target.caches == "cold" else peaks.level(size, target)
    compute = 1e6 * operations(kernel.function) / peaks.flops
    memory = 1e6 * size / peaks.bandwidth[level]
    if compute >= memory:
        return Roofline(compute, f"peak, {peaks.flops / 1e9:.1f} GFLOP/s")
    return Roofline(memory, f"{level}, {peaks.bandwidth[level] / 1e9:.1f} GB/s")
