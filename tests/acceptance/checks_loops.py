"""What compilers make of register tiles: vector multiply-adds in innermost loops, and nothing on the stack there."""

from __future__ import annotations

from benchmarks.loops import kernel_loops
from tests.acceptance.case import Case


def loops(case: Case) -> str:
    """Kernels with multiply-adds have them on vectors in an innermost loop, and no such loop touches the stack."""
    found = [kernel for kernel in kernel_loops(case.package) if kernel.macs]
    faults = [f"{kernel.kernel}: {kernel.fault}" for kernel in found if kernel.fault]
    assert not faults, f"{len(faults)} of {len(found)} kernels: {'; '.join(faults)}"
    tiles = [loop for kernel in found for loop in kernel.tiles]
    return f"{len(tiles)} loops in {len(found)} kernels, {sum(loop.multiply_adds for loop in tiles)} multiply-adds"
