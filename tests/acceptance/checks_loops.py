"""What compilers make of register tiles: vector multiply-adds in innermost loops, and nothing on the stack there.

Kernels that sum integers have no register tiles of their own yet: their stack accesses are counted, not refused.
"""

from __future__ import annotations

from benchmarks.loops import kernel_loops
from tests.acceptance.case import Case


def loops(case: Case) -> str:
    """Float kernels have multiply-adds on vectors in an innermost loop, and no such loop touches the stack."""
    found = [kernel for kernel in kernel_loops(case.package) if kernel.macs]
    faults = [f"{kernel.kernel}: {kernel.fault}" for kernel in found if kernel.fault and not kernel.integer]
    assert not faults, f"{len(faults)} of {len(found)} kernels: {'; '.join(faults)}"
    tiles = [loop for kernel in found for loop in kernel.tiles]
    said = f"{len(tiles)} loops in {len(found)} kernels, {sum(loop.multiply_adds for loop in tiles)} multiply-adds"
    spilling = [kernel for kernel in found if kernel.fault]
    if not spilling:
        return said
    accesses = sum(len(loop.stack) for kernel in spilling for loop in kernel.tiles)
    return f"{said}; {len(spilling)} integer kernels with {accesses} stack accesses in their loops"
