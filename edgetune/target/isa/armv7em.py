"""ARMv7E-M (Cortex-M4 and Cortex-M7): no operating system, and no vectors of floats."""

from __future__ import annotations

from edgetune.target.dot_product import DotProduct
from edgetune.target.isa.dsp_extension import COSTS, DSP
from edgetune.target.isa.instruction_set import InstructionSet

ARMV7EM = InstructionSet(
    name="armv7em",
    machines=(),
    bits=32,
    machine_flags_are_abi=True,
    prefetches=False,
    dot=DotProduct(elements=4, bits=16),
    costs=COSTS,
    vectors=DSP,
)
