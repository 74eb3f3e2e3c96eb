"""ARMv8.1-M Mainline (Cortex-M55): no operating system."""

from __future__ import annotations

from edgetune.target.dot_product import DotProduct
from edgetune.target.isa.dsp_extension import COSTS
from edgetune.target.isa.helium import HELIUM
from edgetune.target.isa.instruction_set import InstructionSet

ARMV8_1M = InstructionSet(
    name="armv8.1m",
    machines=(),
    bits=32,
    machine_flags_are_abi=True,
    dot=DotProduct(elements=4, bits=16),
    costs=COSTS,
    vectors=HELIUM,
)
