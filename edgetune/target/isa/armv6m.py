"""ARMv6-M (Cortex-M0 and Cortex-M0+): no operating system, no FPU, no division."""

from __future__ import annotations

from edgetune.target.dot_product import DotProduct
from edgetune.target.isa.instruction_set import InstructionSet
from edgetune.target.isa.thumb_products import COSTS, THUMB

ARMV6M = InstructionSet(
    name="armv6m",
    machines=(),
    bits=32,
    machine_flags_are_abi=True,
    prefetches=False,
    dot=DotProduct(elements=4),
    costs=COSTS,
    vectors=THUMB,
)
