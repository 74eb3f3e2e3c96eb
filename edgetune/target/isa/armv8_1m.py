"""ARMv8.1-M Mainline (Cortex-M55): no operating system."""

from __future__ import annotations

from edgetune.target.isa.instruction_set import InstructionSet

ARMV8_1M = InstructionSet(name="armv8.1m", machines=(), bits=32, machine_flags_are_abi=True)
